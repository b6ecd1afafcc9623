//! Servers that speak as PostgreSQL does and are something else, or too old.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use navlock_core::blocking::block_on_timeout;
use navlock_postgres::{PostgresOptions, check, init, postgres};

/// The URL of a server that lets in everybody, says this of itself, and answers nothing.
fn server(parameters: &'static [(&str, &str)]) -> String {
    server_that(parameters, |_| {})
}

/// One message, as the protocol has it.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], body].concat()
}

/// The same, and what it does with a connection after that.
fn server_that(parameters: &'static [(&str, &str)], then: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut startup).unwrap();
            let mut said = message(b'R', &[0; 4]);
            for (name, value) in parameters {
                said.extend(message(b'S', format!("{name}\0{value}\0").as_bytes()));
            }
            said.extend(message(b'Z', b"I"));
            // Who has read enough may be gone.
            let _ = stream.write_all(&said);
            then(stream);
        }
    });
    format!("postgres://navlock@127.0.0.1:{port}/defaultdb?sslmode=disable")
}

#[test]
fn servers_of_another_make_and_old_ones_are_refused_by_name() {
    for (parameters, expected) in [
        (
            &[("server_version", "13.0.0"), ("crdb_version", "CockroachDB CCL v23.1.11")][..],
            "this server is CockroachDB CCL v23.1.11",
        ),
        (&[("server_version", "15.2-YB-2024.2.0.0-b0")], "this server is YugabyteDB, release 15.2"),
        (
            &[("server_version", "14.9 (Debian 14.9-1)")],
            "this server is PostgreSQL of release 14.9",
        ),
        (&[("server_version", "8.0.2")], "this server is PostgreSQL of release 8.0.2"),
        (&[], "this server is PostgreSQL of release unknown"),
    ] {
        let options = PostgresOptions::new(server(parameters));
        let connected = block_on_timeout(postgres(options.clone()), Duration::from_secs(30));
        let errors = [
            connected.expect("it does not hang").map(drop).unwrap_err(),
            init(&options).unwrap_err(),
            check(&options).map(drop).unwrap_err(),
        ];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.contains("navlock needs PostgreSQL 15 or newer"), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }
}

/// A pooler can give the answer to a call of somebody who was killed to the next one.
#[test]
fn an_answer_to_another_call_is_not_believed() {
    let answers = |mut stream: TcpStream| {
        let (mut called, column) = ([0; 4096], [&b"\0\x01hello\0"[..], &[0; 18]].concat());
        while stream.read(&mut called).is_ok_and(|length| length > 0) {
            let value = br#"{"version": 1, "format": "6"}"#;
            let length = u32::try_from(value.len()).unwrap().to_be_bytes();
            let row = [&b"\0\x01"[..], &length, value].concat();
            let said = [
                message(b'T', &column),
                message(b'D', &row),
                message(b'C', b"SELECT 1\0"),
                message(b'Z', b"I"),
            ];
            let _ = stream.write_all(&said.concat());
        }
    };
    let options = PostgresOptions::new(server_that(&[("server_version", "15.1")], answers));
    let connected = block_on_timeout(postgres(options), Duration::from_secs(30));
    let error = connected.expect("it does not hang").map(drop).unwrap_err().to_string();
    assert!(error.contains("the answer to another call"), "{error}");
}
