//! Which of many connections and processes have something to say, by one question for all of them.

use std::{
    io,
    os::fd::{AsRawFd, RawFd},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mio::{Events, Interest, Token, unix::SourceFd};
use rustix::net::Shutdown;
use tokio::io::unix::AsyncFd;

use crate::socket::{AsyncStream, Stream, read_into_spare, send};

/// How many answers one question gets at most. If there are as many, there may be more.
const MOST: usize = 1024;

/// A set of connections and processes, each with a key.
///
/// What has something new since the last question is told once: new bytes or the end of a connection, room for
/// more bytes if that is [waited for](Self::await_room), the end of a process.
#[derive(Debug)]
pub struct Readiness {
    poll: AsyncFd<mio::Poll>,
    events: Events,
}

/// A connection that is part of a [`Readiness`]. Reading and writing never waits.
#[derive(Debug)]
pub struct Member(Stream);

impl Readiness {
    /// An empty set. To be made in a runtime of tokio.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    #[allow(
        deprecated,
        reason = "the new way is unsafe because a type may change its descriptor; this one does not"
    )]
    pub fn new() -> io::Result<Self> {
        let poll = AsyncFd::with_interest(mio::Poll::new()?, tokio::io::Interest::READABLE)?;
        Ok(Self { poll, events: Events::with_capacity(MOST) })
    }

    /// Takes a connection in. If it has something already, that is told.
    ///
    /// # Errors
    ///
    /// If there is no memory left.
    pub fn join(&self, stream: AsyncStream, key: usize) -> io::Result<Member> {
        let member = Member(stream.into_std()?);
        self.add(member.0.as_raw_fd(), key)?;
        Ok(member)
    }

    /// Takes the end of the process in whose [`Handle`](crate::process::Handle) this is.
    ///
    /// # Errors
    ///
    /// If there is no memory left.
    pub fn join_process<T: AsRawFd>(&self, process: &Arc<T>, key: usize) -> io::Result<()> {
        self.add(process.as_raw_fd(), key)
    }

    fn add(&self, descriptor: RawFd, key: usize) -> io::Result<()> {
        let registry = self.poll.get_ref().registry();
        registry.register(&mut SourceFd(&descriptor), Token(key), Interest::READABLE)
    }

    /// From now on tells as well, or no more, when there is room to write to this connection.
    pub fn await_room(&self, member: &Member, key: usize, awaits: bool) {
        let room = awaits.then_some(Interest::WRITABLE);
        let interest = room.map_or(Interest::READABLE, |room| Interest::READABLE | room);
        let descriptor = member.0.as_raw_fd();
        let registry = self.poll.get_ref().registry();
        // It was registered before, and that needed more memory.
        let _ = registry.reregister(&mut SourceFd(&descriptor), Token(key), interest);
    }

    /// Lets a connection go.
    pub fn leave(&self, member: &Member, _: usize) {
        self.remove(member.0.as_raw_fd());
    }

    /// Lets the end of a process go.
    pub fn leave_process<T: AsRawFd>(&self, process: &Arc<T>, _: usize) {
        self.remove(process.as_raw_fd());
    }

    fn remove(&self, descriptor: RawFd) {
        // It is registered: otherwise there is nothing to remove.
        let _ = self.poll.get_ref().registry().deregister(&mut SourceFd(&descriptor));
    }

    /// Adds the keys of all that have something. Does not wait.
    ///
    /// If something was written to one connection after something was written to another one, and this finds
    /// the former, then it also finds the latter.
    pub fn ask(&mut self, keys: &mut Vec<usize>) {
        loop {
            let poll = self.poll.get_mut();
            // Without a wait nothing but an interruption by a signal fails.
            if poll.poll(&mut self.events, Some(Duration::ZERO)).is_err() {
                continue;
            }
            keys.extend(self.events.iter().map(|event| event.token().0));
            if self.events.iter().count() < MOST {
                return;
            }
        }
    }

    /// Ready when there may be something to [ask](Self::ask) for.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut has_changed = Poll::Pending;
        // A runtime that is about to end tells nothing any more.
        while let Poll::Ready(Ok(mut changed)) = self.poll.poll_read_ready(context) {
            changed.clear_ready();
            has_changed = Poll::Ready(());
        }
        has_changed
    }
}

impl Member {
    /// Reads what there is into memory of `into` that was not written to yet; 0 at the end.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing. Others as of read(2).
    pub fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        read_into_spare(&self.0, into)
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room. Others as of send(2).
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        send(&self.0, bytes)
    }

    /// Ends the connection, at both ends. What was sent before can still be read.
    pub fn shut_down(&self) {
        // It may have ended before.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}
