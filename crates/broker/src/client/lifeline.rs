//! What a program inherits with the locks that it works under.

use std::{io, sync::Arc};

use navlock_core::ResourceName;
use navlock_platform::descriptor::{Descriptor, let_inherit, numbered};
use navlock_wire::MAX_TEXT;

use super::{connection::Connection, table::Table};
use crate::client_files::{InheritedFile, Reserved};

/// The descriptor that is inherited, or the next that is free. Scripts take small numbers, and 200,
/// which is a habit of those that use flock(1); shells take up to 255. All may be open by default
/// that are smaller than 1024, or 256.
const DESCRIPTOR: i32 = 730;

/// What a claim takes beside the lock's name, at most, in bytes.
const CLAIM: usize = 64;

/// A hold on the locks of a connection that other processes can inherit.
///
/// Between [`PreparedLifeline::begin`] and [`hand_over`](Self::hand_over), every program that any
/// thread starts inherits it. From then on the locks are held until the last of those programs, and
/// what they have started, has ended, even if this process is killed, and the broker after it.
///
/// Dropping it takes it back: what was started does not hold anything any more. There is one at a
/// time for a connection; a later one takes the place of the one before.
#[derive(Debug)]
pub struct Lifeline {
    connection: Arc<Connection>,
    written: InheritedFile,
    inherited: Option<Descriptor>,
}

/// Room for a [`Lifeline`], taken before there are locks: what cannot be kept is known before
/// anything is waited for. Dropping it gives the room back.
#[derive(Debug)]
pub struct PreparedLifeline {
    connection: Arc<Connection>,
    reserved: Reserved,
    /// Keeps the number of what is to be inherited, and is not inherited itself.
    ///
    /// FAST: with the first number as large as that the kernel makes room for as many. For a process
    /// with one thread that is nothing; where there are more it waits until all CPUs have noticed, for
    /// some ten milliseconds, which nobody is to wait for while a lock is held.
    descriptor: Descriptor,
}

impl PreparedLifeline {
    pub(super) fn new(connection: &Arc<Connection>, names: &[ResourceName]) -> io::Result<Self> {
        let shared = connection.shared();
        // What is inherited is what the daemon knows of by its messages.
        connection.change(Table::stop_owning);
        let agents = shared.table().inheritable_claims().len();
        let claims: usize = names.iter().map(|name| name.as_bytes().len() + CLAIM).sum();
        // What an agent says of itself may become longer.
        let room = agents + claims + 4 * MAX_TEXT;
        let reserved = shared.files.reserve(shared.key, room)?;
        let descriptor = numbered(reserved.file()?, DESCRIPTOR)?;
        Ok(Self { connection: Arc::clone(connection), reserved, descriptor })
    }

    /// A hold, for programs started from now on, on the locks that the connection has now.
    ///
    /// # Errors
    ///
    /// If this process has no descriptors left, or the connection has locks that were not known
    /// when room was taken, and there is no more.
    pub fn begin(self) -> io::Result<Lifeline> {
        let Self { connection, reserved, mut descriptor } = self;
        let claims = connection.shared().table().inheritable_claims();
        let (file, written) = reserved.hand_over(&claims)?;
        // From here on it is taken back if anything fails.
        let mut lifeline = Lifeline { connection, written, inherited: None };
        let_inherit(&file, &mut descriptor)?;
        lifeline.inherited = Some(descriptor);
        Ok(lifeline)
    }
}

impl Lifeline {
    /// Leaves the file to the processes that have inherited it; processes that are started from now on do not
    /// inherit it. They are shown by what the agents have
    /// [said of themselves](navlock_core::LockManager::describe) by now.
    pub fn hand_over(&mut self) {
        self.renew();
        self.inherited = None;
    }

    /// Writes down anew what is held: those who have inherited it hold that, and not what has been
    /// lost or released since.
    pub fn renew(&self) {
        let shared = self.connection.shared();
        if shared.is_forked() {
            return;
        }
        let claims = shared.table().inheritable_claims();
        self.written.rewrite(&claims);
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        if !self.connection.shared().is_forked() {
            self.written.revoke();
        }
    }
}
