//! What a program inherits with the locks that it works under.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use super::connection::Connection;
use crate::lock_file::{self, Identity};

/// A hold on the locks of a connection that other processes can inherit.
///
/// Between [`BrokerReach::lifeline`](super::BrokerReach::lifeline) and
/// [`hand_over`](Self::hand_over), every program that any thread starts inherits it. From then on
/// the locks are held until the last of those programs, and what they have started, has ended, even
/// if this process is killed, and the broker after it. (Where the broker's directory has no room
/// left it is not known to whom they belong, and then it is one or the other.)
///
/// Dropping it takes it back: what was started does not hold anything any more. There is one at a
/// time for a connection; a later one takes the place of the one before.
#[derive(Debug)]
pub struct Lifeline {
    connection: Arc<Connection>,
    file: Option<Identity>,
    inherited: Option<OwnedFd>,
}

impl Lifeline {
    pub(super) fn new(connection: &Arc<Connection>) -> io::Result<Self> {
        let shared = connection.shared();
        let claims = shared.table().testament();
        let file = shared.files.bequeath(shared.key, &claims)?;
        // The copy lacks the original's mark to be closed.
        let inherited = rustix::io::dup(file.as_fd())?;
        let (connection, file) = (Arc::clone(connection), lock_file::identity_of(&file));
        Ok(Self { connection, file, inherited: Some(inherited) })
    }

    /// Leaves it to those who have inherited it; who is started from now on does not. What the
    /// agents have [said of themselves](navlock_core::LockManager::describe) by now is what their
    /// heirs are known by.
    pub fn hand_over(&mut self) {
        self.renew();
        self.inherited = None;
    }

    /// Writes down anew what is held: those who have inherited it hold that, and not what has been
    /// lost or released since.
    pub fn renew(&self) {
        let shared = self.connection.shared();
        let claims = shared.table().testament();
        if let Some(file) = self.file {
            shared.files.bequeath_again(shared.key, file, &claims);
        }
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        let shared = self.connection.shared();
        if let Some(file) = self.file {
            shared.files.disinherit(shared.key, file);
        }
    }
}
