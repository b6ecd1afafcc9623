//! Endpoints at which there is no etcd, and what people are told of them.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use super::machines_of;
use crate::sandbox::{Sandbox, eventually};

/// The first bytes of an HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames and flags of HTTP/2.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WHOLE: u8 = 5;

/// A server that listens, and calls `serve` with each connection. Returns its address.
fn listen(serve: fn(TcpStream) -> Option<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    // The thread ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    endpoint
}

/// A web server, which knows no HTTP/2.
fn old(mut stream: TcpStream) -> Option<()> {
    let mut said = [0; PREFACE.len()];
    stream.read_exact(&mut said).ok()?;
    assert_eq!(said, *PREFACE, "it is no HTTP/2");
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").ok()?;
    // Read all that the client sends: otherwise it would be told that the connection was reset.
    while stream.read(&mut said).is_ok_and(|length| length > 0) {}
    Some(())
}

/// `:status:` and a number, as HPACK spells it.
const NOTHING_THERE: &[u8] = &[0x8d];
const AWAY: &[u8] = &[0x08, 3, b'5', b'0', b'3'];

/// A server that knows HTTP/2, and has nothing at the path that it is asked for.
fn elsewhere(stream: TcpStream) -> Option<()> {
    answer(stream, NOTHING_THERE)
}

/// A proxy whose etcd is away for a while.
fn before_etcd(stream: TcpStream) -> Option<()> {
    answer(stream, AWAY)
}

/// Answers each request with this status and nothing else.
fn answer(mut stream: TcpStream, status: &[u8]) -> Option<()> {
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface).ok()?;
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, _, id @ ..] = head;
        let mut rest = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut rest).ok()?;
        if kind == HEADERS {
            let length = u8::try_from(status.len()).ok()?;
            stream.write_all(&[&[0, 0, length, HEADERS, WHOLE], &id[..], status].concat()).ok()?;
        }
    }
}

/// What a command says that wants a lock, and what doctor says.
fn told(machine: &Sandbox) -> [String; 2] {
    let run = machine.output(&["run", "db", "true"]);
    assert_eq!(run.status.code(), Some(69), "{run:?}");
    let doctor = machine.output(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    [run.stderr, doctor.stdout]
}

#[test]
fn a_server_that_is_no_etcd_is_said_to_be_none() {
    for (endpoint, why) in [
        (listen(old), "if it is etcd, it may want TLS (https://); else mend the endpoint"),
        (listen(elsewhere), "the program that answers there is not etcd"),
        (
            listen(elsewhere),
            "mend the endpoint; a proxy on the way there has to pass gRPC (HTTP/2) on",
        ),
    ] {
        let [machine] = machines_of(&endpoint, "navlock", "5");
        for said in told(&machine) {
            assert!(said.contains(why) && said.contains(&endpoint), "{said}");
        }
    }
}

#[test]
fn a_proxy_whose_etcd_is_away_is_not_said_to_be_none() {
    let endpoint = listen(before_etcd);
    let [machine] = machines_of(&endpoint, "navlock", "5");
    for said in told(&machine) {
        assert!(said.contains("503") && said.contains(&endpoint), "{said}");
        assert!(!said.contains("is not etcd"), "{said}");
    }
}

#[test]
fn an_etcd_that_takes_connections_and_says_nothing_is_waited_for_once() {
    // The system accepts the connections; nobody reads them.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = mute.local_addr().unwrap().to_string();
    let [machine] = machines_of(&endpoint, "navlock", "5");
    let run = |arguments: &[&str]| {
        let output = machine.output(&[&["run"], arguments, &["db", "true"]].concat());
        assert_eq!(output.code(), Some(69), "{output:?}");
        output.stderr
    };
    let said = run(&[]);
    assert!(
        said.contains(&format!("cannot reach etcd at {endpoint}: no answer within 5 s")),
        "{said}"
    );
    mute.set_nonblocking(true).unwrap();
    mute.accept().unwrap();
    let error = mute.accept().expect_err("a second broker was started for the same");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);

    // A command that has no time for this is not told that the machine is overloaded.
    let mut said = String::new();
    eventually("it is said what the broker waits for", || {
        said = run(&["-w", "1"]);
        // The command may have taken longer to begin than it had time.
        said.contains(&format!("waits for etcd at {endpoint}, which did not answer within"))
    });
    assert!(said.contains("'navlock doctor' says what is wrong"), "{said}");
}
