//! A client whose messages are written by hand, as one that means ill writes them.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::net::UnixStream,
};

use bytes::BytesMut;
use navlock_engine::{FencingToken, Mode, RequestId, RequestKind};
use navlock_platform::{clock, socket::receive_with_files};
use navlock_wire::{ClientKey, FileTask, FromDaemon, Sent, ToDaemon, VERSION, decode, encode};

use super::{Machine, User, as_user};
use crate::worker::TIMEOUT;

pub(super) struct Raw {
    pub(super) stream: UnixStream,
    received: BytesMut,
    /// What the broker has handed over.
    pub(super) files: Vec<File>,
}

impl Raw {
    /// A connection of this user.
    pub(super) fn connect(machine: &Machine, user: User) -> Self {
        Self::try_connect(machine, user).unwrap()
    }

    pub(super) fn try_connect(machine: &Machine, user: User) -> io::Result<Self> {
        let socket = machine.socket();
        let stream = as_user(user, || UnixStream::connect(socket))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, received: BytesMut::new(), files: Vec::new() })
    }

    /// A client that was accepted, as one that was not there before, and has a file that says that it lives.
    pub(super) fn client(machine: &Machine, user: User, number: u64) -> Self {
        let (own, files) = file(machine, user, key(user, number), FileTask::Own);
        assert_eq!(own, Ok(()));
        let mut raw = Self::connect(machine, user);
        raw.files = files;
        raw.say(&greeting(key(user, number), false)).unwrap();
        assert!(matches!(raw.receive(), Some(FromDaemon::Welcome { .. })));
        assert_eq!(raw.receive(), Some(FromDaemon::Settled));
        raw
    }

    pub(super) fn say(&mut self, messages: &[ToDaemon]) -> io::Result<()> {
        self.stream.write_all(&bytes(messages))
    }

    /// The next message; `None` if the broker has hung up.
    pub(super) fn receive(&mut self) -> Option<FromDaemon> {
        loop {
            if let Some(message) = decode::<FromDaemon>(&mut self.received).unwrap() {
                return Some(message);
            }
            let mut bytes = [0; 4096];
            match receive_with_files(&self.stream, &mut bytes, &mut self.files) {
                Ok(0) => return None,
                Ok(length) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the broker says nothing: {error}"),
            }
        }
    }

    /// Requests a lock that is free. Returns its token.
    pub(super) fn granted(&mut self, serial: u64, name: &str) -> FencingToken {
        self.say(&[request(serial, name, RequestKind::Wait(Mode::Exclusive))]).unwrap();
        loop {
            match self.receive().unwrap() {
                FromDaemon::Granted { token, .. } => return token,
                FromDaemon::Settled => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until the broker has hung up, whatever it says before.
    pub(super) fn until_left(mut self) {
        while self.receive().is_some() {}
    }
}

/// Asks for a file of this client, on a connection of its own.
pub(super) fn file(
    machine: &Machine,
    user: User,
    client: ClientKey,
    task: FileTask,
) -> (Result<(), String>, Vec<File>) {
    let mut raw = Raw::connect(machine, user);
    raw.say(&[hello(), ToDaemon::File { client, task }]).unwrap();
    assert!(matches!(raw.receive(), Some(FromDaemon::Welcome { .. })));
    match raw.receive() {
        Some(FromDaemon::File { outcome }) => (outcome, raw.files),
        other => panic!("{other:?}"),
    }
}

/// The key of a client of this user.
pub(super) fn key(user: User, number: u64) -> ClientKey {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&user.uid.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The first words of a client.
pub(super) fn greeting(client: ClientKey, returning: bool) -> [ToDaemon; 2] {
    [hello(), ToDaemon::Introduce { client, returning }]
}

pub(super) fn hello() -> ToDaemon {
    ToDaemon::Hello { oldest: VERSION, newest: VERSION }
}

/// The words by which an agent is opened.
pub(super) fn open_agent(agent: u32, client_id: [u8; 16]) -> ToDaemon {
    ToDaemon::OpenAgent { agent, client_id, bucket: "default".to_owned() }
}

/// An exclusive request of this name.
pub(super) fn request(serial: u64, name: &str, kind: RequestKind) -> ToDaemon {
    let request = RequestId::from_parts(0, serial);
    ToDaemon::Request { agent: 0, request, name: name.try_into().unwrap(), kind, slot: None }
}

pub(super) fn bytes(messages: &[ToDaemon]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for message in messages {
        encode(&Sent { at: clock::monotonic(), message }, &mut bytes).unwrap();
    }
    bytes
}
