//! A user who sends anything to the broker for several users, in any order, also while the broker ends and another
//! one takes over: what others have stays theirs.
//!
//! A short and repeatable run; `cargo xtask fuzz` is the long one. `NAVLOCK_TEST_SEED` and
//! `NAVLOCK_TEST_INPUTS` say which inputs and how many. The users are real, so this needs root.

#![cfg(target_os = "linux")]

mod property;

use std::{env, fs, path::Path};

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |number| number.parse().expect("it is a number"))
}

#[test]
fn whatever_one_user_sends_what_others_have_stays_theirs() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/guests");
    for file in fs::read_dir(corpus).expect("the corpus is there") {
        let file = file.expect("the corpus can be read").path();
        println!("{}", file.display());
        property::holds(&fs::read(file).expect("the corpus can be read"));
    }
    let seed = number("NAVLOCK_TEST_SEED", 20_261_129);
    for input in seed..seed + number("NAVLOCK_TEST_INPUTS", 30) {
        println!("NAVLOCK_TEST_SEED={input} NAVLOCK_TEST_INPUTS=1");
        // SplitMix64.
        let mut state = input;
        let bytes = (0..600).map(|_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed ^ (mixed >> 31)).to_le_bytes()[0]
        });
        property::holds(&bytes.collect::<Vec<_>>());
    }
}
