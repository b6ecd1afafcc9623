//! What a process has open: descriptors, whose number is limited.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use rustix::{
    io::{dup2, fcntl_dupfd_cloexec},
    process::{Resource, getrlimit},
};

/// An open descriptor, which is closed when this is dropped.
pub type Descriptor = OwnedFd;

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many [`Counted`] there are.
pub fn counted() -> usize {
    COUNT.load(SeqCst)
}

/// An open descriptor that is counted.
#[derive(Debug)]
pub struct Counted<T>(T);

impl<T: AsRawFd> Counted<T> {
    /// Counts the descriptor; `None` if many are open.
    pub fn if_few(descriptor: T) -> Option<Self> {
        let limit = limit().unwrap_or(u64::MAX);
        let number = u64::try_from(descriptor.as_raw_fd()).ok()?;
        (number < limit / 4).then(|| {
            COUNT.fetch_add(1, SeqCst);
            Self(descriptor)
        })
    }
}

impl<T> Counted<T> {
    /// The descriptor.
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, SeqCst);
    }
}

impl<T: AsRawFd> AsRawFd for Counted<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl<T: AsFd> AsFd for Counted<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How many descriptors may be open for now; `None` if there is no limit.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// To how many the limit can be raised; `None` if there is no limit.
#[cfg(not(target_vendor = "apple"))]
pub fn highest_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// To how many the limit can be raised; `None` if there is no limit.
#[cfg(target_vendor = "apple")]
pub fn highest_limit() -> Option<u64> {
    use rustix::process::Rlimit;
    /// `OPEN_MAX` of `sys/syslimits.h`, the most that setrlimit(2) takes for certain. It does not
    /// take "no limit", which is the usual maximum.
    const OPEN_MAX: u64 = 10_240;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Somebody may have raised it further.
    Some(maximum.unwrap_or(u64::MAX).min(current?.max(OPEN_MAX)))
}

/// How many descriptors are open; `None` where they cannot be counted.
pub fn open_count() -> Option<usize> {
    let list = ["/proc/self/fd", "/dev/fd"].into_iter().find_map(|list| fs::read_dir(list).ok());
    list.map(Iterator::count)
}

/// A copy of a file's descriptor with this number or the next that is free. Programs that are
/// started do not inherit it.
///
/// # Errors
///
/// If there is none to be had.
pub fn numbered(file: &File, number: i32) -> io::Result<Descriptor> {
    let limit = RawFd::try_from(limit().unwrap_or(u64::MAX)).unwrap_or(RawFd::MAX);
    // Where few may be open, the largest number that is allowed.
    let mut number = number.min(limit.saturating_sub(1));
    loop {
        match fcntl_dupfd_cloexec(file, number) {
            Err(_) if number > 3 => number -= 1,
            copied => return Ok(copied?),
        }
    }
}

/// Puts a copy of a file's descriptor in the place of this one. Programs that are started from now
/// on inherit the copy.
///
/// # Errors
///
/// If the system refuses.
pub fn let_inherit(file: &File, in_place_of: &mut Descriptor) -> io::Result<()> {
    // The copy is not marked to be closed when a program is started.
    Ok(dup2(file, in_place_of)?)
}

/// One of the standard streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What is read.
    Input,
    /// What is written.
    Output,
    /// What is written for people.
    Error,
}

/// Puts the null device in the place of these standard streams.
///
/// # Errors
///
/// If the system refuses.
pub fn leave(streams: &[Stream]) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let mut left = Ok(());
    for stream in streams {
        let this = match stream {
            Stream::Input => rustix::stdio::dup2_stdin(&null),
            Stream::Output => rustix::stdio::dup2_stdout(&null),
            Stream::Error => rustix::stdio::dup2_stderr(&null),
        };
        // The others are left all the same.
        left = left.and(this);
    }
    Ok(left?)
}
