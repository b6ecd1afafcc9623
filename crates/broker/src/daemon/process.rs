//! The processes of clients: whether they have ended, and not only closed what tells so.
//!
//! A process that was killed closes what it has open one after the other. So the end of its connection
//! or of its lock on a file may be seen while it still has something else, a port or another file's
//! lock, that the next holder of its locks needs; and then it is waited for until it has ended. The
//! other way round, a process that has ended may have left copies of its descriptors to children that
//! it forked, which hold nothing for that.
//!
//! Both by a [`Handle`], opened while the process provably is the one that is meant: a number alone may
//! be anybody's by now. Where the system has none, or there are few descriptors left, the ends of
//! connections and of locks on files are all that is seen.

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

/// How long the end of a process may take that has begun. There may be much to write.
pub(super) const END: Duration = Duration::from_secs(5);

/// A process that lived when it was looked at.
#[derive(Clone, Debug)]
pub(super) struct Process(Arc<Counted<Handle>>);

impl Process {
    /// The one that has made this connection.
    pub(super) fn peer(stream: &AsyncStream) -> Option<Self> {
        Self::open(peer::of_async(stream).ok()?.process?)
    }

    /// The one of this number, if it is a child of this one.
    pub(super) fn child(&self, pid: u32) -> Option<Self> {
        let child = Self::open(pid)?;
        // From here on the number is its own, until it has ended.
        (child.handle().parent()? == self.number()).then_some(child)
    }

    /// The one of this number, if it has this file of inherited locks open.
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

    /// Whether its end has begun and is not complete.
    pub(super) fn is_ending(&self) -> bool {
        self.handle().is_ending()
    }

    /// Whether it has.
    pub(super) fn has_ended(&self) -> bool {
        self.handle().has_ended()
    }

    /// Waits for its end, if that has begun. Blocks.
    pub(super) fn wait_if_ending(&self) {
        if self.is_ending() {
            self.handle().ends_within(END);
        }
    }

    /// Waits for its end, which has begun.
    pub(super) async fn until_ended(self) {
        let _ = timeout(END, self.end()).await;
    }

    /// Waits for its end.
    pub(super) async fn end(self) {
        end_of(self.0).await;
    }
}
