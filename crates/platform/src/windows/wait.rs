//! Waiting for one of several things: pipes, processes, and what else the system can wait for.

use std::{
    convert::Infallible,
    io,
    os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    peek::{is_pipe, peek},
    pipe::Pipe,
    system::{MOST, is_signalled, wait_for},
};

/// How often to look at what the system cannot wait for.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What can be waited for, for as long as it is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct BorrowedSource<'a>(Kind<'a>);

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    Pipe(&'a Pipe),
    /// What is signalled when there is something to be read.
    Object(BorrowedHandle<'a>),
    /// What this process has from its starter to read from or write to, or has given to a child.
    Standard(BorrowedHandle<'a>),
}

impl<'a> BorrowedSource<'a> {
    /// The source, if it is one object that is signalled once there is something.
    pub(crate) fn as_object(self) -> Option<BorrowedHandle<'a>> {
        match self.0 {
            Kind::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The source, if it is one of the standard streams, or a file.
    #[cfg(feature = "command")]
    pub(crate) fn as_standard(self) -> Option<BorrowedHandle<'a>> {
        match self.0 {
            Kind::Standard(stream) => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn pipe(pipe: &'a Pipe) -> Self {
        Self(Kind::Pipe(pipe))
    }

    pub(crate) fn object(object: BorrowedHandle<'a>) -> Self {
        Self(Kind::Object(object))
    }
}

/// What can be waited for.
pub trait Source {
    /// The source, as the system knows it.
    fn source(&self) -> BorrowedSource<'_>;
}

impl<T: Source + ?Sized> Source for &T {
    fn source(&self) -> BorrowedSource<'_> {
        (**self).source()
    }
}

impl<T: Source + ?Sized> Source for Arc<T> {
    fn source(&self) -> BorrowedSource<'_> {
        (**self).source()
    }
}

macro_rules! standard {
    ($($of:ty),*) => {
        $(impl Source for $of {
            fn source(&self) -> BorrowedSource<'_> {
                BorrowedSource(Kind::Standard(self.as_handle()))
            }
        })*
    };
}

standard!(
    io::Stdin,
    io::Stdout,
    io::Stderr,
    std::fs::File,
    std::os::windows::io::OwnedHandle,
    std::process::ChildStdout,
    std::process::ChildStderr
);

/// What of a source is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    read: bool,
    write: bool,
}

impl Interest {
    /// The end of the source alone, which is told with every other interest as well.
    pub const END: Self = Self { read: false, write: false };
    /// That there is something to be read.
    pub const READ: Self = Self { read: true, write: false };
    /// That there is room for something to be written.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Either.
    pub const BOTH: Self = Self { read: true, write: true };
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

impl BorrowedSource<'_> {
    /// What the source is ready for now, without waiting.
    fn look(self, interest: Interest) -> Ready {
        match self.0 {
            Kind::Pipe(pipe) => {
                let ended = pipe.has_ended();
                Ready {
                    readable: interest.read && pipe.is_readable(),
                    writable: interest.write && pipe.is_writable(),
                    ended,
                }
            }
            Kind::Object(object) => {
                Ready { readable: interest.read && is_signalled(object), ..Ready::default() }
            }
            Kind::Standard(stream) if is_pipe(stream) => {
                let (available, ended) = peek(stream);
                Ready { readable: interest.read && available, writable: interest.write, ended }
            }
            // A console is signalled when a key was pressed. A file can always be read.
            Kind::Standard(stream) => Ready {
                readable: interest.read && is_signalled(stream),
                writable: interest.write,
                ended: false,
            },
        }
    }

    /// The objects that are signalled when the source may be ready, if there are any, and whether
    /// these say all there is to be known.
    fn objects(&self, interest: Interest) -> ([Option<BorrowedHandle<'_>>; 2], bool) {
        match self.0 {
            Kind::Pipe(pipe) => {
                // While there is something that is not asked for, the end is not signalled.
                let hides = !interest.read && pipe.is_readable();
                let readable = Some(pipe.readable()).filter(|_| !hides);
                ([readable, interest.write.then(|| pipe.writable())], !hides)
            }
            Kind::Object(object) => ([Some(object).filter(|_| interest.read), None], true),
            Kind::Standard(stream) => {
                let console = Some(stream).filter(|_| interest.read && !is_pipe(stream));
                ([console, None], console.is_some())
            }
        }
    }
}

/// Waits until one of these sources is ready, but no longer than this. A source that is given twice
/// is told of twice.
///
/// # Errors
///
/// If it is not possible to wait.
pub fn wait<const N: usize>(
    asked: [(BorrowedSource<'_>, Interest); N],
    timeout: Option<Duration>,
) -> io::Result<[Ready; N]> {
    let found = wait_many(&asked, timeout)?;
    Ok(std::array::from_fn(|index| found[index]))
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
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let found: Vec<Ready> =
            asked.iter().map(|(source, interest)| source.look(*interest)).collect();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if found.iter().any(|ready| ready.any()) || left.is_some_and(|left| left.is_zero()) {
            return Ok(found);
        }
        let (mut objects, mut says_all) = (Vec::new(), true);
        for (source, interest) in asked {
            let (of_source, is_all) = source.objects(*interest);
            says_all &= is_all;
            for object in of_source.into_iter().flatten() {
                let is_known =
                    |known: &BorrowedHandle<'_>| known.as_raw_handle() == object.as_raw_handle();
                if !objects.iter().any(is_known) {
                    objects.push(object);
                }
            }
        }
        // Of more than the system waits for at once, the first are waited for, and all are looked at again.
        says_all &= objects.len() <= MOST;
        objects.truncate(MOST);
        let left = if says_all {
            left
        } else {
            Some(left.map_or(CHECK_INTERVAL, |left| left.min(CHECK_INTERVAL)))
        };
        if objects.is_empty() {
            std::thread::sleep(left.unwrap_or(CHECK_INTERVAL));
        } else {
            wait_for(&objects, left)?;
        }
    }
}

/// Whether the other end of a socket is closed, or has ended: also while there is something to be read.
pub fn has_hung_up(socket: &impl Source) -> bool {
    socket.source().look(Interest::END).ended
}

/// There is no such pair here: what it spares elsewhere cannot be spared here.
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::socket::Stream;

    #[test]
    fn an_end_is_told_while_there_is_something_to_be_read() {
        let (one, other) = Stream::pair().unwrap();
        let soon = Some(Duration::ZERO);
        assert!(!has_hung_up(&one));
        let [none] = wait([(one.source(), Interest::BOTH)], soon).unwrap();
        assert_eq!(none, Ready { writable: true, ..Ready::default() });
        (&other).write_all(b"last words").unwrap();
        let [some] = wait([(one.source(), Interest::READ)], Some(Duration::from_secs(20))).unwrap();
        assert_eq!(some, Ready { readable: true, ..Ready::default() });
        drop(other);
        assert!(has_hung_up(&one));
        let [end] = wait([(one.source(), Interest::END)], Some(Duration::from_secs(20))).unwrap();
        assert_eq!(end, Ready { ended: true, ..Ready::default() });
        let [both] = wait([(one.source(), Interest::READ)], soon).unwrap();
        assert!(both.readable && both.ended);
    }
}
