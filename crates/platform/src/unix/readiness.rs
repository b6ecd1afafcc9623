//! Which of many connections and processes have something to say, by one question for all of them.

use std::{
    io::{self, IoSliceMut},
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Wake, Waker},
    time::Duration,
};

use mio::{Events, Interest, Poll, Token, unix::SourceFd};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, recvmsg};

pub use crate::found::Found;
use crate::socket::{AsyncStream, Stream, send};

/// How many answers one question gets at most. If there are as many, there may be more.
const MOST: usize = 1024;

/// The key of the waker, which is no member's.
const WAKER: Token = Token(usize::MAX);

/// A set of connections and processes, each with a key.
///
/// What has something new since the last question is told once: new bytes or the end of a connection, room for
/// more bytes if that is [waited for](Self::await_room), the end of a process.
#[derive(Debug)]
pub struct Readiness {
    poll: Poll,
    events: Events,
    waker: Arc<Waking>,
}

#[derive(Debug)]
struct Waking {
    waker: mio::Waker,
    /// Whether somebody [waits](Readiness::wait), and nobody has woken them.
    is_waiting: AtomicBool,
}

/// A connection that is part of a [`Readiness`]. Reading and writing never waits.
#[derive(Debug)]
pub struct Member(Stream);

impl Readiness {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let waker = Arc::new(Waking { waker, is_waiting: AtomicBool::new(false) });
        Ok(Self { poll, events: Events::with_capacity(MOST), waker })
    }

    /// Ends a [wait](Self::wait), the one that goes on or the next one.
    pub fn waker(&self) -> Waker {
        Arc::clone(&self.waker).into()
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
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&descriptor), Token(key), Interest::READABLE)
    }

    /// From now on tells as well, or no more, when there is room to write to this connection.
    pub fn await_room(&self, member: &Member, key: usize, awaits: bool) {
        let room = awaits.then_some(Interest::WRITABLE);
        let interest = room.map_or(Interest::READABLE, |room| Interest::READABLE | room);
        let descriptor = member.0.as_raw_fd();
        let registry = self.poll.registry();
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
        let _ = self.poll.registry().deregister(&mut SourceFd(&descriptor));
    }

    /// Finds all that have something. Does not wait.
    ///
    /// If something was written to one connection after something was written to another one, and was there before
    /// this began, this finds both.
    ///
    /// # Panics
    ///
    /// If the system tells nothing any more.
    pub fn ask(&mut self, found: &mut Vec<Found>) {
        while self.look(Some(Duration::ZERO), found).is_none_or(|count| count >= MOST) {}
    }

    /// Waits until some have something, and finds them. Does not wait if `is_due` says that there is something else to
    /// do; whoever makes that so later [wakes](Self::waker) this.
    ///
    /// # Panics
    ///
    /// If the system tells nothing any more.
    pub fn wait(&mut self, found: &mut Vec<Found>, is_due: impl FnOnce() -> bool) {
        self.waker.is_waiting.store(true, SeqCst);
        // Whoever waits looks again.
        let _ = self.look(is_due().then_some(Duration::ZERO), found);
        self.waker.is_waiting.store(false, SeqCst);
    }

    /// Returns how much there was, which may be all that one answer has room for; `None` if a signal has interrupted
    /// this.
    fn look(&mut self, timeout: Option<Duration>, found: &mut Vec<Found>) -> Option<usize> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return None,
            told => told.expect("the system tells which connections have something"),
        }
        let theirs = self.events.iter().filter(|event| event.token() != WAKER);
        found.extend(theirs.map(|event| Found {
            key: event.token().0,
            has_ended: event.is_read_closed(),
            is_sure: cfg!(target_os = "linux") && event.is_readable() && !event.is_writable(),
        }));
        Some(self.events.iter().count())
    }
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // FAST: nobody who is awake is woken, and nobody is woken twice.
        if self.is_waiting.load(SeqCst) && self.is_waiting.swap(false, SeqCst) {
            // What can fail here is full only when it was told already.
            let _ = self.waker.wake();
        }
    }
}

impl Member {
    /// Reads what there is; nothing at the end. Returns how much it was, and whether that was all that there is.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing. Others as of recvmsg(2).
    pub fn read(&self, into: &mut [u8]) -> io::Result<(usize, bool)> {
        let room = into.len();
        // Nobody sends us descriptors. If somebody does, the system closes them, and the read ends there.
        let mut none = RecvAncillaryBuffer::default();
        let read =
            recvmsg(&self.0, &mut [IoSliceMut::new(into)], &mut none, RecvFlags::CMSG_CLOEXEC)?;
        let is_all = read.bytes < room && !read.flags.contains(ReturnFlags::CTRUNC);
        Ok((read.bytes, is_all))
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
