//! The processes of clients: whether they have really ended.
//!
//! A process that was killed closes its descriptors one after the other. So its connection, or its lock
//! on a file, may end while it still has something open that the next holder of its locks needs, such
//! as a port or another file's lock. Then the daemon waits until the process has ended. On the other
//! hand, a process that has ended may have left copies of its descriptors to children that it forked,
//! which hold no locks by that.
//!
//! For both, the daemon opens a [`Handle`] while the process is provably the one that is meant: a
//! number alone may be another process's by now. Where the system has no such handles, or few
//! descriptors are left, the daemon sees only the ends of connections and of locks on files.

use std::{sync::Arc, time::Duration};

use navlock_platform::{
    descriptor::Counted,
    file::Identity,
    peer,
    process::{Handle, end_of, has_open},
    socket::AsyncStream,
};
use tokio::time::timeout;

use crate::client_files::LOCKS;

/// How long a process that is ending may take to end: it may have much to write.
pub(super) const END: Duration = Duration::from_secs(5);

/// A process that lived when its handle was opened.
#[derive(Clone, Debug)]
pub(super) struct Process(Arc<Counted<Handle>>);

impl Process {
    /// The process that has made this connection.
    pub(super) fn peer(stream: &AsyncStream) -> Option<Self> {
        Self::open(peer::of_async(stream).ok()?.process?)
    }

    /// The process of this number, if it is a child of this one.
    pub(super) fn child(&self, pid: u32) -> Option<Self> {
        let child = Self::open(pid)?;
        // With the handle open, no other process gets its number, until it has ended.
        (child.handle().parent()? == self.number()).then_some(child)
    }

    /// The process of this number, if it has this file of inherited locks open.
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

    pub(super) fn number(&self) -> u32 {
        self.handle().number()
    }

    /// Whether it is ending, and has not ended.
    pub(super) fn is_ending(&self) -> bool {
        self.handle().is_ending()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.handle().has_ended()
    }

    /// Waits for its end, if it is ending. Blocks.
    pub(super) fn wait_if_ending(&self) {
        if self.is_ending() {
            self.handle().ends_within(END);
        }
    }

    /// Waits for the end of a process that is ending, but no longer than [`END`].
    pub(super) async fn until_ended(self) {
        let _ = timeout(END, self.end()).await;
    }

    /// Waits for its end.
    pub(super) async fn end(self) {
        end_of(self.0).await;
    }
}
