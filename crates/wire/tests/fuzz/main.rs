//! The codec against the fuzzer's corpus, and against what comes of it by chance.
//!
//! A short and repeatable run on any toolchain; `cargo xtask fuzz` is the long one.
//! `PROPTEST_CASES` and `PROPTEST_RNG_SEED` say how many cases and which.

mod property;

use std::{env, fs, path::Path};

use navlock_wire::{FromDaemon, Sent};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, RngSeed, TestError, TestRunner},
};

#[test]
fn the_daemon_hears_any_bytes_as_it_must() {
    fuzz::<Sent>("to_daemon");
}

#[test]
fn a_client_hears_any_bytes_as_it_must() {
    fuzz::<FromDaemon>("from_daemon");
}

fn fuzz<In: property::Said>(target: &str) {
    let corpus = corpus(target);
    for (file, input) in &corpus {
        println!("{target}/{file}");
        property::holds::<In>(input);
    }

    let mut config = Config { failure_persistence: None, ..Config::default() };
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 100_000;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(1);
    }
    let seed = config.rng_seed;
    let inputs = changed(corpus.into_iter().map(|(_, input)| input).collect());
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        property::holds::<In>(&input);
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, input)) => {
            panic!("{why}\nwith PROPTEST_RNG_SEED={seed}, by these bytes: {input:?}")
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// The fuzzer's corpus of a target: files and what is in them.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut corpus: Vec<_> = fs::read_dir(folder)
        .expect("the corpus is there")
        .map(|file| file.expect("the corpus can be read"))
        .map(|file| {
            let input = fs::read(file.path()).expect("the corpus can be read");
            (file.file_name().to_string_lossy().into_owned(), input)
        })
        .collect();
    // Folders have no order, and a seed must mean the same everywhere.
    corpus.sort();
    assert!(corpus.len() >= 10, "{} files are no corpus", corpus.len());
    corpus
}

/// A change of an input.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// The streams of two, one behind the other.
    Append(Vec<u8>),
}

/// Inputs of the corpus, each changed in a few places.
fn changed(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    // Bytes in which numbers and lengths have their ends.
    let telling = select(vec![0, 1, 2, 0x3F, 0x7F, 0x80, 0x81, 0xFE, 0xFF]);
    let byte = prop_oneof![any::<u8>(), telling].boxed();
    let change = prop_oneof![
        (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, 1 << bit)),
        (any::<Index>(), vec(byte, 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<Index>(), 1..8_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        select(corpus.clone()).prop_map(Change::Append),
    ];
    (select(corpus), vec(change, 0..6)).prop_map(|(mut input, changes)| {
        for change in changes {
            apply(change, &mut input);
        }
        input
    })
}

fn apply(change: Change, input: &mut Vec<u8>) {
    match change {
        // Behind its last byte is a place to insert, and none to change.
        Change::Insert(at, bytes) => {
            let at = at.index(input.len() + 1);
            input.splice(at..at, bytes);
        }
        Change::Append(other) => {
            let lengths = usize::from(other.first().copied().unwrap_or_default());
            input.extend(other.get(1 + lengths..).unwrap_or_default());
        }
        _ if input.is_empty() => {}
        Change::Set(at, byte) => *at.get_mut(input) = byte,
        Change::Flip(at, bit) => *at.get_mut(input) ^= bit,
        Change::Remove(at, length) => {
            let at = at.index(input.len());
            input.drain(at..input.len().min(at + length));
        }
    }
}
