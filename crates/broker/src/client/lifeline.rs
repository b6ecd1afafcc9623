//! The descriptor by which a program inherits the locks that it works under.

use std::{io, sync::Arc};

use navlock_core::ResourceName;
use navlock_platform::descriptor::{Descriptor, let_inherit, numbered};
use navlock_wire::MAX_TEXT;

use super::{connection::Connection, table::Table};
use crate::client_files::{InheritedFile, Reserved};

/// The number of the inherited descriptor, or if it is taken, the next one that is free. Scripts use
/// small numbers, and by habit 200 with flock(1); shells use numbers up to 255. By default a process
/// may open descriptors with numbers below 1024, on some systems below 256.
const DESCRIPTOR: i32 = 730;

/// The size of a claim without the lock's name, at most, in bytes.
const CLAIM: usize = 64;

/// A hold on the locks of a connection that other processes can inherit.
///
/// Between [`PreparedLifeline::begin`] and [`hand_over`](Self::hand_over), every program that any
/// thread starts inherits it. From then on the locks are held until the last of those programs, and
/// what they have started, has ended, even if this process is killed, and the broker after it.
///
/// Dropping it revokes the hold: the programs that were started hold nothing any more. A connection
/// has one lifeline at a time; a later one takes the place of the one before.
#[derive(Debug)]
pub struct Lifeline {
    connection: Arc<Connection>,
    written: InheritedFile,
    inherited: Option<Descriptor>,
}

/// Room for a [`Lifeline`], reserved before there are locks: if there is no room, the caller knows
/// before it waits for a lock. Dropping it gives the room back.
#[derive(Debug)]
pub struct PreparedLifeline {
    connection: Arc<Connection>,
    reserved: Reserved,
    /// Keeps the number free for the descriptor that is to be inherited. It is not inherited itself.
    ///
    /// FAST: the first descriptor with so large a number has the kernel enlarge the process's table of
    /// descriptors. For a process with one thread that takes no time; for a process with several, the
    /// kernel waits until all CPUs have noticed, for some ten milliseconds. Nobody should wait for that
    /// while a lock is held, so it is done here.
    descriptor: Descriptor,
}

impl PreparedLifeline {
    pub(super) fn new(connection: &Arc<Connection>, names: &[ResourceName]) -> io::Result<Self> {
        let shared = connection.shared();
        // Only locks of which the daemon knows by messages can be inherited.
        connection.change(Table::stop_owning);
        let agents = shared.table().inheritable_claims().len();
        let claims: usize = names.iter().map(|name| name.as_bytes().len() + CLAIM).sum();
        // The texts that an agent says of itself may become longer.
        let room = agents + claims + 4 * MAX_TEXT;
        let reserved = shared.files.reserve(shared.key, room)?;
        let descriptor = numbered(reserved.file()?, DESCRIPTOR)?;
        Ok(Self { connection: Arc::clone(connection), reserved, descriptor })
    }

    /// Returns a hold on the locks that the connection has now, for programs started from now on.
    ///
    /// # Errors
    ///
    /// If this process has no descriptors left, or if the connection has locks that were not known when
    /// the room was reserved, and there is no more room.
    pub fn begin(self) -> io::Result<Lifeline> {
        let Self { connection, reserved, mut descriptor } = self;
        let claims = connection.shared().table().inheritable_claims();
        let (file, written) = reserved.hand_over(&claims)?;
        // From here on the hold is revoked if anything fails.
        let mut lifeline = Lifeline { connection, written, inherited: None };
        let_inherit(&file, &mut descriptor)?;
        lifeline.inherited = Some(descriptor);
        Ok(lifeline)
    }
}

impl Lifeline {
    /// Leaves the file to the processes that have inherited it; processes that are started from now on do not
    /// inherit it. The inheritors are shown to others by what the agents have
    /// [said of themselves](navlock_core::LockManager::describe) by now.
    pub fn hand_over(&mut self) {
        self.renew();
        self.inherited = None;
    }

    /// Writes the file anew with the locks that are held now: the inheritors hold these, and not the
    /// locks that have been lost or released since.
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
