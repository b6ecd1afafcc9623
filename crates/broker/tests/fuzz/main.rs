//! Clients that do anything, in any order, while daemons come and go: claims and recovery against
//! exclusion.
//!
//! A short and repeatable run; `cargo xtask fuzz` is the long one. `NAVLOCK_TEST_SEED` and
//! `NAVLOCK_TEST_INPUTS` say which inputs and how many.
//!
//! Its clients have maps that a daemon shares, so it is where there is such memory: on Linux.

#![cfg(target_os = "linux")]

mod property;

use std::{env, fs, path::Path};

/// Numbers that look random and are the same in each run with the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |number| number.parse().expect("it is a number"))
}

#[test]
fn whatever_clients_do_while_daemons_come_and_go_exclusion_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sessions");
    for file in fs::read_dir(corpus).expect("the corpus is there") {
        let file = file.expect("the corpus can be read").path();
        println!("{}", file.display());
        property::holds(&fs::read(file).expect("the corpus can be read"));
    }
    let seed = number("NAVLOCK_TEST_SEED", 20_250_924);
    for input in seed..seed + number("NAVLOCK_TEST_INPUTS", 60) {
        println!("NAVLOCK_TEST_SEED={input} NAVLOCK_TEST_INPUTS=1");
        let mut dice = Dice(input);
        let length = usize::try_from(dice.next() % 160).expect("it is small");
        // Clients that connect first have more to do.
        let mut bytes = vec![0x00, 0, 0x10, 0, 0x20, 0];
        bytes.extend((0..2 * length).map(|_| dice.next().to_le_bytes()[0]));
        property::holds(&bytes);
    }
}
