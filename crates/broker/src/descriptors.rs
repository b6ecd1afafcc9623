//! How many descriptors the daemon has open for clients beside their connections.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use rustix::process::{Resource, getrlimit};

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many there are. So many clients fewer can be served.
pub(crate) fn descriptors() -> usize {
    COUNT.load(SeqCst)
}

/// An open descriptor that is counted.
#[derive(Debug)]
pub(crate) struct Counted<T>(T);

impl<T: AsRawFd> Counted<T> {
    /// `None` if many are open: most are for connections.
    pub(crate) fn if_few(descriptor: T) -> Option<Self> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let number = u64::try_from(descriptor.as_raw_fd()).ok()?;
        (number < limit / 4).then(|| {
            COUNT.fetch_add(1, SeqCst);
            Self(descriptor)
        })
    }
}

impl<T> Counted<T> {
    pub(crate) fn get(&self) -> &T {
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
