//! A floor: one process sends something to another, and gets an answer.

use std::{
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
};

use super::client;

/// About the size of a request for a lock.
const BYTES: usize = 64;

/// Answers one client after the other.
pub(super) fn serve(place: &Path, ready: impl FnOnce()) -> io::Result<()> {
    let listener = UnixListener::bind(place)?;
    ready();
    loop {
        let (mut stream, _) = listener.accept()?;
        let mut bytes = [0; BYTES];
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes)?;
        }
    }
}

pub(super) struct Client(UnixStream);

impl Client {
    pub(super) fn connect(place: &Path) -> io::Result<Self> {
        Ok(Self(UnixStream::connect(place)?))
    }
}

impl client::Client for Client {
    fn acquire(&mut self) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        self.0.write_all(&bytes)?;
        self.0.read_exact(&mut bytes)
    }

    fn release(&mut self) -> io::Result<()> {
        Ok(())
    }
}
