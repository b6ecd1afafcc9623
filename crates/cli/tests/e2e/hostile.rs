//! Obstacles to the broker, and clients that behave badly.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::{
        fs::chown,
        net::{UnixListener, UnixStream},
    },
};

use bytes::BytesMut;
use navlock_core::Lost;
use navlock_engine::{FencingToken, Mode, RequestId, RequestKind};
use navlock_platform::clock;
use navlock_wire::{FromDaemon, Sent, ToDaemon, VERSION, decode, encode};
use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};

use crate::{sandbox::Sandbox, worker::TIMEOUT};

/// A client whose messages are written by hand.
struct Raw {
    stream: UnixStream,
    received: BytesMut,
}

impl Raw {
    fn connect(sandbox: &Sandbox) -> Self {
        let stream = UnixStream::connect(sandbox.socket()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, received: BytesMut::new() }
    }

    fn say(&mut self, messages: &[ToDaemon]) {
        self.stream.write_all(&bytes(messages)).unwrap();
    }

    fn receive(&mut self) -> FromDaemon {
        loop {
            if let Some(message) = decode::<FromDaemon>(&mut self.received).unwrap() {
                return message;
            }
            let mut bytes = [0; 512];
            let length = self.stream.read(&mut bytes).unwrap();
            assert_ne!(length, 0, "the broker hung up");
            self.received.extend_from_slice(&bytes[..length]);
        }
    }

    /// Sends the greeting, and is accepted.
    fn greet(&mut self) {
        self.say(&greeting());
        assert_eq!(self.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
        assert_eq!(self.receive(), FromDaemon::Settled);
    }

    /// Waits until the broker has hung up.
    fn until_left(mut self) {
        match self.stream.read(&mut [0; 64]) {
            Ok(length) => assert_eq!(length, 0, "it said something"),
            // The broker had not read everything.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

fn bytes(messages: &[ToDaemon]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for message in messages {
        encode(&Sent { at: clock::monotonic(), message }, &mut bytes).unwrap();
    }
    bytes
}

/// The first words of a client.
fn greeting() -> [ToDaemon; 2] {
    [
        ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        ToDaemon::Introduce { client: [7; 16], returning: false },
    ]
}

#[test]
fn a_socket_that_nobody_listens_at_is_replaced() {
    let sandbox = Sandbox::new();
    for file in ["sock", "sock.new"] {
        drop(UnixListener::bind(sandbox.path(file)).unwrap());
    }
    assert!(sandbox.socket().exists());
    assert_eq!(sandbox.code(&["run", "db", "true"]), 0);
    assert!(sandbox.broker().is_some());
}

#[test]
fn a_socket_of_somebody_else_is_refused_and_left_alone() {
    if !geteuid().is_root() {
        println!("skipped: only root can give a socket away");
        return;
    }
    let sandbox = Sandbox::new();
    let theirs = UnixListener::bind(sandbox.socket()).unwrap();
    chown(sandbox.socket(), Some(65534), None).unwrap();
    let output = sandbox.output(&["run", "db", "true"]);
    output.assert_says(69, "sock is owned by uid 65534; set NAVLOCK_SOCKET");
    theirs.set_nonblocking(true).unwrap();
    assert!(theirs.accept().is_err(), "it was connected to all the same");
    assert!(fs::symlink_metadata(sandbox.socket()).is_ok());
}

#[test]
fn a_silent_client_delays_nobody_and_has_ten_seconds_to_say_hello() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let hello = bytes(&greeting()[..1]);
    let silent = [&[][..], &hello[..3], &hello].map(|begun| {
        let mut silent = Raw::connect(&sandbox);
        silent.stream.write_all(begun).unwrap();
        silent
    });
    let crowd: Vec<_> = (0..200).map(|_| Raw::connect(&sandbox)).collect();
    assert_eq!(sandbox.code(&["run", "-n", "other", "true"]), 0);
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    let [nothing, half, mut hello] = silent;
    nothing.until_left();
    half.until_left();
    assert_eq!(hello.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
    hello.until_left();
    crowd.into_iter().for_each(Raw::until_left);
    holder.release();
}

#[test]
fn half_a_message_is_waited_for_and_delays_nobody() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut slow = Raw::connect(&sandbox);
    slow.greet();
    let status = bytes(&[ToDaemon::Status { query: 7 }]);
    for piece in [&status[..2], &status[2..status.len() - 1]] {
        slow.stream.write_all(piece).unwrap();
        assert_eq!(sandbox.code(&["run", "-n", "other", "true"]), 0);
    }
    slow.stream.write_all(&status[status.len() - 1..]).unwrap();
    assert!(matches!(slow.receive(), FromDaemon::Status { query: 7, .. }));
    holder.release();
}

#[test]
fn a_message_too_long_ends_the_connection_before_it_is_there() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    for length in [u32::MAX, 1 << 30, 16 << 20] {
        let mut raw = Raw::connect(&sandbox);
        raw.greet();
        raw.stream.write_all(&length.to_be_bytes()).unwrap();
        raw.until_left();
    }
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    holder.release();
}

#[test]
fn a_client_that_claims_a_lock_that_was_granted_anew_has_lost_it() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("sock.clients")).unwrap();
    // Clients of a broker that was killed: the next one waits for both.
    let tokens = [7, 5];
    let living = tokens.map(|token| {
        let file = fs::File::create(sandbox.path(&format!("sock.clients/{token:032x}"))).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        file
    });
    sandbox.written(&["daemon", "start"]);
    let [mut thief, mut victim] = tokens.map(|token| {
        let mut raw = Raw::connect(&sandbox);
        raw.say(&[
            ToDaemon::Hello { oldest: VERSION, newest: VERSION },
            ToDaemon::Introduce { client: u128::to_be_bytes(token.into()), returning: true },
            ToDaemon::OpenAgent { agent: 0, client_id: [1; 16], bucket: "default".to_owned() },
            ToDaemon::ClaimLock {
                agent: 0,
                request: RequestId::from_parts(0, 0),
                name: "db".try_into().unwrap(),
                mode: Mode::Exclusive,
                token: FencingToken::new(token),
                since: 0,
            },
            ToDaemon::Claimed,
        ]);
        assert_eq!(raw.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
        raw
    });
    let request = RequestId::from_parts(0, 0);
    assert_eq!(thief.receive(), FromDaemon::Settled);
    assert_eq!(victim.receive(), FromDaemon::Settled);
    assert_eq!(victim.receive(), FromDaemon::Lost { request, how: (Lost::Stolen, None) });
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    drop(living);
}

/// The messages of a client that comes back and claims `db`.
fn claim(client: u8) -> [ToDaemon; 5] {
    [
        ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        ToDaemon::Introduce { client: u128::to_be_bytes(client.into()), returning: true },
        ToDaemon::OpenAgent { agent: 0, client_id: [1; 16], bucket: "default".to_owned() },
        ToDaemon::ClaimLock {
            agent: 0,
            request: RequestId::from_parts(0, 0),
            name: "db".try_into().unwrap(),
            mode: Mode::Exclusive,
            token: FencingToken::new(7),
            since: 0,
        },
        ToDaemon::Claimed,
    ]
}

/// Checks that a client is told that it does not hold what it claims.
fn is_not_believed(sandbox: &Sandbox, client: u8) {
    let mut raw = Raw::connect(sandbox);
    raw.say(&claim(client));
    assert_eq!(raw.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
    assert_eq!(raw.receive(), FromDaemon::Settled);
    let request = RequestId::from_parts(0, 0);
    assert_eq!(raw.receive(), FromDaemon::Lost { request, how: (Lost::Disconnected, None) });
}

#[test]
fn a_client_that_was_not_found_is_not_believed_while_others_are_waited_for() {
    let sandbox = Sandbox::new();
    let stopped = sandbox.hold(&["-o", "other"]);
    stopped.stop();
    sandbox.kill_broker();
    sandbox.written(&["daemon", "start"]);
    // The client was given up by the broker before this one, and is alive.
    let file = fs::File::create(sandbox.path(&format!("sock.clients/{:032x}", 9))).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let claims = std::thread::scope(|scope| {
        let claims = scope.spawn(|| is_not_believed(&sandbox, 9));
        stopped.signal(rustix::process::Signal::CONT);
        claims.join()
    });
    claims.unwrap();
    stopped.release();
}

#[test]
fn a_client_that_was_disconnected_is_not_believed_by_the_next_broker_either() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("sock.clients")).unwrap();
    let path = sandbox.path(&format!("sock.clients/{:032x}", 9));
    let file = fs::File::create(&path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    sandbox.written(&["daemon", "start"]);
    let mut raw = Raw::connect(&sandbox);
    raw.say(&claim(9));
    assert_eq!(raw.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
    assert_eq!(raw.receive(), FromDaemon::Settled);
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    // A message that no client sends.
    raw.say(&[ToDaemon::Terminate { agent: 7 }]);
    raw.until_left();
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    assert!(!path.exists());
    // The client was stopped meanwhile, for example, and has not heard of it.
    sandbox.kill_broker();
    sandbox.written(&["daemon", "start"]);
    is_not_believed(&sandbox, 9);
    drop(file);
}

#[test]
fn a_client_that_sends_nonsense_is_disconnected_and_disturbs_nobody() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let session = |messages: &[ToDaemon]| bytes(messages).to_vec();
    let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
    let introduce = |returning| ToDaemon::Introduce { client: [7; 16], returning };
    // A claim for an agent that the client had not opened.
    let claim = ToDaemon::ClaimRequest {
        agent: 7,
        request: RequestId::from_parts(0, 0),
        name: "db".try_into().unwrap(),
        kind: RequestKind::Steal,
        since: 0,
    };
    for nonsense in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xFF; 100_000],
        vec![0, 0, 0, 1, 99],
        session(&[ToDaemon::Finish { request: RequestId::from_parts(0, 0) }]),
        session(&[hello.clone(), hello.clone()]),
        session(&[hello.clone(), ToDaemon::Terminate { agent: 7 }]),
        session(&[hello.clone(), introduce(false), introduce(false)]),
        session(&[hello.clone(), introduce(false), ToDaemon::Terminate { agent: 7 }]),
        session(&[hello.clone(), introduce(true), ToDaemon::Status { query: 0 }]),
        session(&[hello.clone(), introduce(true), claim, ToDaemon::Claimed]),
        session(&[ToDaemon::Hello { oldest: 1000, newest: 2000 }]),
    ] {
        let mut raw = Raw::connect(&sandbox);
        // The broker may hang up before it has read everything.
        let _ = raw.stream.write_all(&nonsense);
        match raw.stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    assert_eq!(sandbox.code(&["run", "-n", "other", "true"]), 0);
    holder.release();
}

#[test]
fn a_client_that_does_not_read_delays_nobody_and_is_hung_up_on() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut raw = Raw::connect(&sandbox);
    raw.say(&greeting());
    raw.say(&[
        ToDaemon::OpenAgent { agent: 0, client_id: [7; 16], bucket: "default".to_owned() },
        ToDaemon::Request {
            agent: 0,
            request: RequestId::from_parts(0, 0),
            name: "deaf".try_into().unwrap(),
            kind: RequestKind::Steal,
            slot: None,
        },
    ]);
    // The client sends queries and never reads an answer.
    let ask = ToDaemon::Query { query: 1, bucket: "default".into() };
    let asked = bytes(&vec![ask; 1000]);
    raw.stream.write_all(&asked).unwrap();
    assert_eq!(sandbox.code(&["run", "-n", "other", "true"]), 0);
    assert_eq!(sandbox.code(&["run", "-n", "deaf", "true"]), 1);
    let ended = (0..10_000).find_map(|_| raw.stream.write_all(&asked).err()).unwrap();
    assert!(matches!(ended.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{ended}");
    assert_eq!(sandbox.code(&["run", "-w", "20", "deaf", "true"]), 0);
    holder.release();
}

#[test]
fn another_version_is_refused_with_words() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut raw = Raw::connect(&sandbox);
    raw.say(&[ToDaemon::Hello { oldest: 1000, newest: 2000 }]);
    let answer = raw.receive();
    assert!(matches!(&answer, FromDaemon::Refused { reason } if reason.contains("1000")));
    raw.until_left();
    holder.release();
}
