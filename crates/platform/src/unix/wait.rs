//! Waiting for one of several things: sockets, processes, alarms.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What can be waited for, for as long as it is borrowed.
pub type BorrowedSource<'a> = BorrowedFd<'a>;

/// What can be waited for.
pub trait Source {
    /// The source, as the system knows it.
    fn source(&self) -> BorrowedSource<'_>;
}

impl<T: AsFd + ?Sized> Source for T {
    fn source(&self) -> BorrowedSource<'_> {
        self.as_fd()
    }
}

/// What of a source is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(PollFlags);

impl Interest {
    /// The end of the source alone, which is told with every other interest as well.
    ///
    /// It is asked for by name, because Apple's systems do not look at a source of which nothing is
    /// asked.
    pub const END: Self = Self(PollFlags::HUP);
    /// That there is something to be read.
    pub const READ: Self = Self(PollFlags::IN);
    /// That there is room for something to be written.
    pub const WRITE: Self = Self(PollFlags::OUT);
    /// Either.
    pub const BOTH: Self = Self(PollFlags::IN.union(PollFlags::OUT));

    /// What the system has told of a source for which this was asked.
    fn told(self, polled: &PollFd<'_>) -> Ready {
        let mut found = polled.revents();
        // Apple's systems say of devices that cannot be polled, such as `/dev/null`, that they are
        // not open. Such devices can be read and written at any time.
        if cfg!(target_vendor = "apple") && found.contains(PollFlags::NVAL) {
            found = self.0.intersection(Self::BOTH.0);
        }
        Ready {
            readable: found.contains(PollFlags::IN),
            writable: found.contains(PollFlags::OUT),
            ended: found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        }
    }
}

/// What a source is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to be read.
    pub readable: bool,
    /// There is room for something to be written.
    pub writable: bool,
    /// It has come to its end, or cannot be waited for.
    pub ended: bool,
}

impl Ready {
    /// Whether it is ready for anything, or has ended.
    pub fn any(self) -> bool {
        self.readable || self.writable || self.ended
    }
}

/// Waits until one of these sources is ready, but no longer than this. A source that is given twice
/// is told of twice.
///
/// # Errors
///
/// `Interrupted` if a signal came, others if it is not possible to wait.
pub fn wait<const N: usize>(
    asked: [(BorrowedSource<'_>, Interest); N],
    timeout: Option<Duration>,
) -> io::Result<[Ready; N]> {
    let mut polled = asked.map(|(source, interest)| PollFd::from_borrowed_fd(source, interest.0));
    poll_all(&asked, &mut polled, timeout)?;
    let mut asked = asked.iter();
    Ok(polled.map(|polled| asked.next().map(|asked| asked.1.told(&polled)).unwrap_or_default()))
}

/// Waits as [`wait`] does, for any number of sources.
///
/// # Errors
///
/// As of [`wait`].
pub fn wait_many(
    asked: &[(BorrowedSource<'_>, Interest)],
    timeout: Option<Duration>,
) -> io::Result<Vec<Ready>> {
    let polled =
        asked.iter().map(|(source, interest)| PollFd::from_borrowed_fd(*source, interest.0));
    let mut polled: Vec<_> = polled.collect();
    poll_all(asked, &mut polled, timeout)?;
    Ok(polled.iter().zip(asked).map(|(polled, asked)| asked.1.told(polled)).collect())
}

/// Polls until one of the sources is ready, or the time is over.
fn poll_all(
    asked: &[(BorrowedSource<'_>, Interest)],
    polled: &mut [PollFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<()> {
    /// For how long to sleep where the system does not wait.
    const CHECK_INTERVAL: Duration = Duration::from_millis(20);
    if !cfg!(target_vendor = "apple") {
        // Here the system returns only for what is told of.
        poll(polled, timeout.map(time).as_ref())?;
        return Ok(());
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut left = timeout;
    loop {
        let told = poll(polled, left.map(time).as_ref())?;
        let mut ready = polled.iter().zip(asked).map(|(polled, asked)| asked.1.told(polled));
        left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if told == 0 || ready.any(Ready::any) || left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        // A device that cannot be polled is asked for its end alone, which never comes: so its
        // waiter waits for another source, or for a time.
        thread::sleep(left.map_or(CHECK_INTERVAL, |left| left.min(CHECK_INTERVAL)));
    }
}

/// Whether the other end of a socket is closed, or has ended: also while there is something to be read.
pub fn has_hung_up(socket: &impl Source) -> bool {
    let ends = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let ends = ends | PollFlags::RDHUP;
    let mut polled = [PollFd::from_borrowed_fd(socket.source(), ends)];
    // A socket that cannot be polled counts as closed.
    poll(&mut polled, Some(&time(Duration::ZERO))).is_err() || polled[0].revents().intersects(ends)
}

/// A time that is too long for the kernel becomes the longest that it takes.
fn time(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 1 << 31, tv_nsec: 0 })
}

pub use self::pair::{Pair, Told};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod pair {
    use std::{io, os::fd::OwnedFd, time::Duration};

    use rustix::event::epoll;

    use super::Source;

    /// Two things that a thread waits for, known to the kernel once and for all: a socket, and the end
    /// of a pipe by which others wake the thread.
    ///
    /// FAST: to `poll` them is to have the kernel enter the thread in two queues and take it out
    /// again, each time. Where there is no epoll, there is no such pair.
    #[derive(Debug)]
    pub struct Pair(OwnedFd);

    /// What the two of a [`Pair`] are ready for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Told {
        /// There is something to be read at the wake end.
        pub woken: bool,
        /// The socket has come to its end, even if there is still something to be read.
        pub ended: bool,
    }

    const SOCKET: epoll::EventData = epoll::EventData::new_u64(0);
    const WAKE_END: epoll::EventData = epoll::EventData::new_u64(1);

    impl Pair {
        /// A pair of a socket and a wake end. That something has come on the socket is told once,
        /// and not again while it is still there, because whoever reads it reads everything. The
        /// wake end is told of until it is read.
        ///
        /// # Errors
        ///
        /// If there are no descriptors left: [`wait`](super::wait) needs none.
        pub fn new(socket: &impl Source, wake_end: &impl Source) -> io::Result<Self> {
            let pair = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let new = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            epoll::add(&pair, socket.source(), SOCKET, new)?;
            epoll::add(&pair, wake_end.source(), WAKE_END, epoll::EventFlags::IN)?;
            Ok(Self(pair))
        }

        /// Waits until one of the two is ready or a signal comes, but no longer than this.
        pub fn wait(&self, timeout: Option<Duration>) -> Told {
            const END: epoll::EventFlags = epoll::EventFlags::HUP
                .union(epoll::EventFlags::RDHUP)
                .union(epoll::EventFlags::ERR);
            let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: SOCKET }; 2];
            // Interrupted, or nothing to wait for: whoever waits looks for itself.
            let told =
                epoll::wait(&self.0, &mut events, timeout.map(super::time).as_ref()).unwrap_or(0);
            let woken = events[..told].iter().any(|event| event.data.u64() == WAKE_END.u64());
            let ended = events[..told].iter().any(|event| {
                // Copied out of its place, which is packed.
                let flags = event.flags;
                event.data.u64() == SOCKET.u64() && flags.intersects(END)
            });
            Told { woken, ended }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod pair {
    use std::{convert::Infallible, io, time::Duration};

    use super::Source;

    /// Without epoll, there is no such pair.
    #[derive(Debug)]
    pub struct Pair(Infallible);

    /// What the two of a [`Pair`] are ready for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Told {
        /// There is something to be read at the wake end.
        pub woken: bool,
        /// The socket has come to its end, even if there is still something to be read.
        pub ended: bool,
    }

    impl Pair {
        /// None.
        ///
        /// # Errors
        ///
        /// Always.
        pub fn new(_: &impl Source, _: &impl Source) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Never called.
        pub fn wait(&self, _: Option<Duration>) -> Told {
            match self.0 {}
        }
    }
}
