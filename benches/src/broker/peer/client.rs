//! What is measured of a peer: a lock of one name, as one process has it.

use std::io;

/// One process's end of a lock of one name.
pub(in crate::broker) trait Client: Send {
    /// Returns when the lock is held.
    fn acquire(&mut self) -> io::Result<()>;

    /// Waits for no answer where the peer lets one go on without.
    fn release(&mut self) -> io::Result<()>;

    /// Both, so often.
    fn take_and_release(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            self.acquire()?;
            self.release()?;
        }
        Ok(())
    }

    /// Both, once, of the lock of another name.
    fn take_and_release_other(&mut self, _name: &str) -> io::Result<()> {
        Err(io::Error::other("it has one lock only"))
    }

    /// Requests the lock, which another holds; when the request is in the queue, has the event
    /// happen, and waits for the lock.
    fn acquire_after(&mut self, event: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        event()?;
        self.acquire()
    }
}

/// Which of the two that take turns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::broker) enum Turn {
    First,
    Second,
}
