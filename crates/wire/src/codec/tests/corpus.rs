//! The part of the fuzzer's corpus that is made from the messages.

use std::{env, fs, path::Path};

use super::*;

/// In two pieces and then again, the first as long as the length: every stage of a frame's arrival.
const PIECES: [u8; 3] = [2, 3, 10];

#[test]
fn the_fuzzers_corpus_begins_with_every_message() {
    assert_in_corpus("to_daemon", &all_sent());
    assert_in_corpus("from_daemon", &all_from_daemon());
}

/// Sees that each of these messages is a file of the corpus; with `NAVLOCK_WRITE_CORPUS`, writes it.
fn assert_in_corpus<M: Tested>(target: &str, messages: &[M]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    for (number, message) in messages.iter().enumerate() {
        let file = folder.join(format!("message-{number:02}"));
        let frame = encode_all(std::slice::from_ref(message));
        let input = [&PIECES, &frame[..]].concat();
        if env::var_os("NAVLOCK_WRITE_CORPUS").is_some() {
            fs::write(&file, &input).unwrap();
        }
        assert!(
            fs::read(&file).ok().as_ref() == Some(&input),
            "{} is not {message:?}: set NAVLOCK_WRITE_CORPUS, and this test writes it",
            file.display(),
        );
    }
}
