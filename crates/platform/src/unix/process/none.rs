//! Where there is no reference to a process but its number.

use std::{
    convert::Infallible,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    process::Child,
    time::Duration,
};

use super::signal::Signal;

/// A process. There can be none here.
#[derive(Debug)]
pub struct Handle(Infallible);

#[allow(missing_docs, clippy::missing_errors_doc, reason = "as on Linux, where there are such")]
impl Handle {
    pub fn open(_: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn of_child(_: &Child) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn number(&self) -> u32 {
        match self.0 {}
    }

    pub fn has_ended(&self) -> bool {
        match self.0 {}
    }

    pub fn ends_within(&self, _: Duration) -> bool {
        match self.0 {}
    }

    pub fn is_ending(&self) -> bool {
        match self.0 {}
    }

    pub fn parent(&self) -> Option<u32> {
        match self.0 {}
    }

    pub fn signal(&self, _: Signal) {
        match self.0 {}
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        match self.0 {}
    }
}
