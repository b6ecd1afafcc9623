//! A source file has at most 400 lines, or its first comment says why it is longer: "This is one file
//! because", and the reason.

mod repository;

use self::repository::{files, read};

const MOST_LINES: usize = 400;

/// The words that a reason begins with.
const REASON: &str = "one file because";

/// The text of a file's first comment, on one line. Only a line of `#!` and a directive may stand
/// before the comment.
fn first_comment(text: &str) -> String {
    let is_before = |line: &&str| {
        line.is_empty() || line.starts_with("#!/") || line.trim_end_matches(';') == "'use strict'"
    };
    let is_comment = |line: &&str| ["//", "/*", "*"].iter().any(|mark| line.starts_with(mark));
    let lines = text.lines().map(str::trim).skip_while(is_before).take_while(is_comment);
    let words = lines.flat_map(|line| line.trim_start_matches(['/', '*', '!']).split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

fn is_too_long(text: &str) -> bool {
    text.lines().count() > MOST_LINES && !first_comment(text).contains(REASON)
}

#[test]
fn a_file_of_more_than_400_lines_says_why_it_is_one_file() {
    let sources = files(&[".rs", ".cjs", ".mjs", ".js", ".cts", ".mts", ".ts"]);
    assert!(sources.len() > 500, "the sources are found");
    let too_long: Vec<_> = sources.iter().filter(|file| is_too_long(&read(file))).collect();
    assert!(
        too_long.is_empty(),
        "more than {MOST_LINES} lines; move a part that has a name of its own, or say in the first \
         comment that this is \"{REASON}\" ...: {too_long:#?}"
    );
}

#[test]
fn only_a_reason_in_the_first_comment_counts() {
    let code = "code\n".repeat(MOST_LINES);
    assert!(!is_too_long(&code), "it is just short enough");
    assert!(is_too_long(&format!("//! What it is.\n{code}")));
    assert!(is_too_long(&format!(
        "//! What it is.\n\n// One of them.\n// one file because\n{code}"
    )));
    assert!(is_too_long(&format!("{code}// one file because\n")));
    assert!(!is_too_long(&format!(
        "//! What it is.\n//!\n//! It is one\n//! file because\n{code}"
    )));
    assert!(!is_too_long(&format!("'use strict';\n// It is one file because\n{code}")));
    assert!(!is_too_long(&format!("#!/usr/bin/env node\n/*\n * one file because\n */\n{code}")));
}
