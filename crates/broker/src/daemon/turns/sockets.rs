//! What the turns need of the sockets of clients. The system has them, and [the simulation](super).

use std::{io, time::Duration};

use navlock_platform::readiness::{Found, Member, Readiness};

use super::super::process::Process;

/// Many sockets. See [`Readiness`].
pub(super) trait Sockets {
    type Socket: Socket;
    fn wait(&mut self, found: &mut Vec<Found>, within: impl FnOnce() -> Option<Duration>);
    fn ask(&mut self, found: &mut Vec<Found>);
    fn await_room(&self, socket: &Self::Socket, key: usize, awaits: bool);
    fn leave(&self, socket: &Self::Socket, key: usize);
    /// Has the end of a process told.
    fn await_end(&self, process: &Process, key: usize);
    fn leave_process(&self, process: &Process, key: usize);
}

/// One socket. See [`Member`].
pub(super) trait Socket {
    fn read(&self, into: &mut [u8]) -> io::Result<(usize, bool)>;
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn shut_down(&self);
}

impl Sockets for Readiness {
    type Socket = Member;

    fn wait(&mut self, found: &mut Vec<Found>, within: impl FnOnce() -> Option<Duration>) {
        self.wait(found, within);
    }

    fn ask(&mut self, found: &mut Vec<Found>) {
        self.ask(found);
    }

    fn await_room(&self, socket: &Member, key: usize, awaits: bool) {
        self.registry().await_room(socket, key, awaits);
    }

    fn leave(&self, socket: &Member, key: usize) {
        self.registry().leave(socket, key);
    }

    fn await_end(&self, process: &Process, key: usize) {
        // Without this the end of the connection still tells the end of the client, and it is looked for now and then.
        let _ = self.registry().join_source(process.end_source(), key);
    }

    fn leave_process(&self, process: &Process, key: usize) {
        self.registry().leave_source(process.end_source(), key);
    }
}

impl Socket for Member {
    fn read(&self, into: &mut [u8]) -> io::Result<(usize, bool)> {
        self.read(into)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn shut_down(&self) {
        self.shut_down();
    }
}

/// The key by which the socket of a session is told.
pub(super) fn socket_key(key: usize) -> usize {
    2 * key
}

/// The key by which the end of a session's process is told.
pub(super) fn process_key(key: usize) -> usize {
    2 * key + 1
}

/// The key by which the end of a process is told whose session is over. It is no session's.
pub(super) fn left_key(process: &Process) -> usize {
    usize::MAX - 2 * process.number() as usize
}
