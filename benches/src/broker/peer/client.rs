//! The client of a peer: a lock of one name, as one process has it.

use std::io;

/// One process's end of a lock of one name.
pub(in crate::broker) trait Client: Send {
    /// Returns when the lock is held.
    fn acquire(&mut self) -> io::Result<()>;

    /// Releases the lock. Does not wait for an answer if the peer allows that.
    fn release(&mut self) -> io::Result<()>;

    /// Takes and releases the lock `count` times.
    fn take_and_release(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            self.acquire()?;
            self.release()?;
        }
        Ok(())
    }

    /// Takes and releases the lock of another name once.
    fn take_and_release_other(&mut self, _name: &str) -> io::Result<()> {
        Err(io::Error::other("it has one lock only"))
    }

    /// Requests the lock while another process holds it. When the request is in the queue, causes the event,
    /// and waits for the lock.
    fn acquire_after(&mut self, event: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        event()?;
        self.acquire()
    }
}

/// Which of two processes that take turns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::broker) enum Turn {
    First,
    Second,
}
