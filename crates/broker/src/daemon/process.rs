//! The processes of clients: whether they have really ended.
//!
//! A process that was killed closes its descriptors one after the other. So its connection, or its lock
//! on a file, may end while the process still has something open that the next holder of its locks
//! needs, such as a port or another file's lock. In that case, the daemon waits until the process has
//! ended. On the other hand, a process that has ended may have left copies of its descriptors to
//! children that it forked. These copies give the children no locks.
//!
//! For both cases, the daemon opens a [`Handle`] while the process is provably the one that is
//! meant. A process id alone is not enough, because another process may have it by now. Where the
//! system has no such handles, or few descriptors are left, the daemon sees only the ends of
//! connections and of locks on files.

use std::{future::pending, sync::Arc, time::Duration};

use navlock_platform::{
    descriptor::Counted,
    file::Identity,
    peer,
    process::{Handle, has_open},
    socket::Stream,
};

use super::awaited::Awaited;
use crate::client_files::LOCKS;

/// How long a process that is ending may take to end. It may have much to write.
pub(super) const END: Duration = Duration::from_secs(5);

/// A process that lived when its handle was opened.
#[derive(Clone, Debug)]
pub(super) struct Process(Arc<Counted<Handle>>);

impl Process {
    /// The process that has made this connection.
    pub(super) fn peer(stream: &Stream) -> Option<Self> {
        Self::open(peer::of(stream).ok()?.process?)
    }

    /// The process with this id, if it is a child of this process.
    pub(super) fn child(&self, pid: u32) -> Option<Self> {
        let child = Self::open(pid)?;
        // While the handle is open, no other process gets the child's id before the child has
        // ended.
        (child.handle().parent()? == self.number()).then_some(child)
    }

    /// The process with this id, if it has this file of inherited locks open.
    pub(super) fn with_open(pid: u32, file: Identity) -> Option<Self> {
        let process = Self::open(pid)?;
        (has_open(pid, file, LOCKS) && !process.has_ended()).then_some(process)
    }

    fn open(pid: u32) -> Option<Self> {
        Some(Self(Arc::new(Counted::if_few(Handle::open(pid).ok()?)?)))
    }

    fn handle(&self) -> &Handle {
        self.0.get()
    }

    /// What tells the end of the process to a [`Readiness`](navlock_platform::readiness::Readiness).
    pub(super) fn end_source(&self) -> &Arc<Counted<Handle>> {
        &self.0
    }

    pub(super) fn number(&self) -> u32 {
        self.handle().number()
    }

    /// Whether the process is ending, and has not ended.
    pub(super) fn is_ending(&self) -> bool {
        self.handle().is_ending()
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.handle().has_ended()
    }

    /// Waits for the end of the process, if it is ending. Blocks.
    pub(super) fn wait_if_ending(&self) {
        if self.is_ending() {
            self.handle().ends_within(END);
        }
    }

    /// Waits for the end of the process. Never returns if that cannot be waited for.
    pub(super) async fn end(self) {
        match Awaited::new(&self.0) {
            Ok(end) => {
                while !self.has_ended() {
                    end.news().await;
                }
            }
            Err(_) => pending().await,
        }
    }
}
