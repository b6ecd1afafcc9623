//! Each message of the wire is read at the other end.
//!
//! The messages are `non_exhaustive`, so no compiler asks for a new one where messages are read: such a
//! message would end the connection, or be passed over. A daemon only reads `ToDaemon` and a client only
//! reads `FromDaemon`, so where a file of theirs names a message, it reads the message.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The names of the messages of an enum of the wire, which is alone in this file.
fn messages(file: &str) -> Vec<String> {
    let wire = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/src").join(file);
    let text = fs::read_to_string(wire).unwrap();
    let (_, body) = text.split_once("\npub enum ").unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|first: char| first.is_uppercase()));
    let name = |line: &str| line.split([' ', ',', '(']).next().unwrap().to_owned();
    variants.map(name).collect()
}

/// All that stands in the files below this folder.
fn code(folder: PathBuf) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &code(path);
        } else {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

fn unread(file: &str, of: &str, reader: &str) -> Vec<String> {
    let all = messages(file);
    assert!(all.len() > 20, "only these messages were found: {all:?}");
    let code = code(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(reader));
    let is_read = |name: &String| {
        let path = format!("{of}::{name}");
        let mut found = code.split(&path).skip(1);
        found.any(|after| !after.starts_with(|next: char| next.is_alphanumeric()))
    };
    all.into_iter().filter(|name| !is_read(name)).collect()
}

#[test]
fn the_daemon_reads_each_message_of_a_client() {
    assert_eq!(unread("to_daemon.rs", "ToDaemon", "daemon"), Vec::<String>::new());
}

#[test]
fn a_client_reads_each_message_of_the_daemon() {
    assert_eq!(unread("from_daemon.rs", "FromDaemon", "client"), Vec::<String>::new());
}
