//! Which of many connections and processes have something to say, by one question for all of them.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Wake, Waker},
    time::{Duration, Instant},
};

use mio::{Events, Interest, Poll, Token, unix::SourceFd};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, recvmsg};

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

pub use crate::found::Found;
use crate::{
    socket::{Stream, send, send_with_files},
    wait::{self, Source},
};

/// How many answers one question gets at most. If there are as many, there may be more.
const MOST: usize = 1024;

/// The key of the waker, which is no member's.
const WAKER: Token = Token(usize::MAX);

/// The key of the timer, which is no member's either.
const TIMER: Token = Token(usize::MAX - 1);

/// A set of connections, processes and other sources, each with a key.
///
/// What has something new since the last question is told once: new bytes or the end of a connection, room for
/// more bytes if that is [waited for](Registry::await_room), the end of a process.
#[derive(Debug)]
pub struct Readiness {
    poll: Poll,
    events: Events,
    waker: Arc<Waking>,
    registry: Registry,
    timer: Timer,
}

#[derive(Debug)]
struct Waking {
    waker: mio::Waker,
    /// Whether somebody [waits](Readiness::wait), and nobody has woken them.
    is_waiting: AtomicBool,
}

/// What takes members into a [`Readiness`], also while that waits.
#[derive(Clone, Debug)]
pub struct Registry(Arc<mio::Registry>);

/// A connection that is part of a [`Readiness`]. Reading and writing never waits.
#[derive(Debug)]
pub struct Member(Stream);

impl Registry {
    /// Takes a connection in. If it has something already, that is told.
    ///
    /// # Errors
    ///
    /// If there is no memory left.
    pub fn join(&self, stream: Stream, key: usize) -> io::Result<Member> {
        stream.set_nonblocking(true)?;
        self.add(stream.as_raw_fd(), key)?;
        Ok(Member(stream))
    }

    /// Gives a connection another key. From now on it is told without [`again`](Self::again).
    pub fn rekey(&self, member: &Member, _: usize, key: usize) {
        self.set(member, key, Interest::READABLE);
    }

    /// Takes in what can be waited for. That there is something new is told, as that somebody has connected to a
    /// listener, or the end of a process.
    ///
    /// # Errors
    ///
    /// If there is no memory left.
    pub fn join_source<T: Source>(&self, source: &Arc<T>, key: usize) -> io::Result<()> {
        self.add(source.source().as_raw_fd(), key)
    }

    fn add(&self, descriptor: RawFd, key: usize) -> io::Result<()> {
        self.0.register(&mut SourceFd(&descriptor), Token(key), Interest::READABLE)
    }

    /// Has the next news of this key told. Here they are told in any case.
    pub fn again(&self, _: usize) {}

    /// Forgets the key of a connection that is closed. Here the system does that.
    pub fn forget(&self, _: usize) {}

    /// From now on tells as well, or no more, when there is room to write to this connection.
    pub fn await_room(&self, member: &Member, key: usize, awaits: bool) {
        let room = awaits.then_some(Interest::WRITABLE);
        let interest = room.map_or(Interest::READABLE, |room| Interest::READABLE | room);
        self.set(member, key, interest);
    }

    fn set(&self, member: &Member, key: usize, interest: Interest) {
        let descriptor = member.0.as_raw_fd();
        // It was registered before, and that needed more memory.
        let _ = self.0.reregister(&mut SourceFd(&descriptor), Token(key), interest);
    }

    /// Lets a connection go.
    pub fn leave(&self, member: &Member, _: usize) {
        self.remove(member.0.as_raw_fd());
    }

    /// Lets a source go.
    pub fn leave_source<T: Source>(&self, source: &Arc<T>, _: usize) {
        self.remove(source.source().as_raw_fd());
    }

    fn remove(&self, descriptor: RawFd) {
        // It is registered: otherwise there is nothing to remove.
        let _ = self.0.deregister(&mut SourceFd(&descriptor));
    }
}

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
        let registry = Registry(Arc::new(poll.registry().try_clone()?));
        let timer = Timer::new(&registry)?;
        Ok(Self { poll, events: Events::with_capacity(MOST), waker, registry, timer })
    }

    /// Ends a [wait](Self::wait), the one that goes on or the next one.
    pub fn waker(&self) -> Waker {
        Arc::clone(&self.waker).into()
    }

    /// What takes members in.
    pub fn registry(&self) -> &Registry {
        &self.registry
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

    /// Waits until some have something, and finds them, but no longer than `within` says. Whoever makes that less later
    /// [wakes](Self::waker) this.
    ///
    /// # Panics
    ///
    /// If the system tells nothing any more.
    pub fn wait(&mut self, found: &mut Vec<Found>, within: impl FnOnce() -> Option<Duration>) {
        self.waker.is_waiting.store(true, SeqCst);
        let within = match within() {
            Some(time) if !time.is_zero() => self.timer.ring_within(time),
            at_once => at_once,
        };
        // Whoever waits looks again.
        let _ = self.look(within, found);
        self.waker.is_waiting.store(false, SeqCst);
    }

    /// Returns how much there was, which may be all that one answer has room for; `None` if a signal has interrupted
    /// this.
    fn look(&mut self, timeout: Option<Duration>, found: &mut Vec<Found>) -> Option<usize> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return None,
            told => told.expect("the system tells which connections have something"),
        }
        if self.events.iter().any(|event| event.token() == TIMER) {
            self.timer.rings = None;
        }
        let theirs = self.events.iter().filter(|event| !matches!(event.token(), WAKER | TIMER));
        found.extend(theirs.map(|event| Found {
            key: event.token().0,
            has_ended: event.is_read_closed(),
            is_sure: cfg!(target_os = "linux") && event.is_readable() && !event.is_writable(),
        }));
        Some(self.events.iter().count())
    }
}

/// What ends a wait in time. To set a timer of the system now and then takes less than to give each wait a time-out.
#[derive(Debug)]
struct Timer {
    #[cfg(target_os = "linux")]
    descriptor: OwnedFd,
    /// When it rings, if it is set.
    rings: Option<Instant>,
}

#[cfg(target_os = "linux")]
impl Timer {
    fn new(registry: &Registry) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.add(descriptor.as_raw_fd(), TIMER.0)?;
        Ok(Self { descriptor, rings: None })
    }

    /// Has it ring after this time, or before. Returns the time-out that the wait needs besides.
    fn ring_within(&mut self, time: Duration) -> Option<Duration> {
        let now = Instant::now();
        let Some(at) = now.checked_add(time) else { return Some(time) };
        if self.rings.is_some_and(|rings| now < rings && rings <= at) {
            return None;
        }
        let Ok(it_value) = time.try_into() else { return Some(time) };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        match timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &once) {
            Ok(_) => {
                self.rings = Some(at);
                None
            }
            Err(_) => Some(time),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Timer {
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    fn new(_: &Registry) -> io::Result<Self> {
        Ok(Self { rings: None })
    }

    #[expect(clippy::unused_self, reason = "as on Linux")]
    fn ring_within(&mut self, time: Duration) -> Option<Duration> {
        Some(time)
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

    /// Sends as [`send_with_files`] does.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room. Others as of sendmsg(2).
    pub fn send_with_files(&self, bytes: &[u8], files: [&File; 2]) -> io::Result<usize> {
        send_with_files(&self.0, bytes, files)
    }

    /// Whether the other end has gone, even if what it had sent before is still unread.
    pub fn has_ended(&self) -> bool {
        let end = [(self.0.source(), wait::Interest::END)];
        wait::wait(end, Some(Duration::ZERO)).is_ok_and(|[ready]| ready.ended)
    }

    /// The same end of the connection, for another [`Readiness`].
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn another(&self) -> io::Result<Stream> {
        self.0.try_clone()
    }

    /// Ends the connection, at both ends. What was sent before can still be read.
    pub fn shut_down(&self) {
        // It may have ended before.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}
