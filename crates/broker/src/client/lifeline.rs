//! The descriptor by which a program inherits the locks that it works under.

use std::{io, sync::Arc};

use navlock_core::ResourceName;
use navlock_platform::descriptor::{Descriptor, let_inherit, numbered};
use navlock_wire::MAX_TEXT;

use super::{client_table::ClientTable, connection::Connection};
use crate::client_files::{InheritedFile, Reserved};

/// The number of the inherited descriptor. If the number is taken, the descriptor gets the next free
/// one. Scripts use small numbers, and by habit 200 with flock(1); shells use numbers up to 255. By
/// default a process may open descriptors with numbers below 1024, on some systems below 256.
const DESCRIPTOR: i32 = 730;

/// The size of a claim without the lock's name, in bytes, at most.
const CLAIM: usize = 64;

/// A hold on the locks of a connection. Other processes can inherit this hold.
///
/// Between [`PreparedLifeline::begin`] and [`hand_over`](Self::hand_over), every program that any
/// thread starts inherits the hold. The locks are then held until the last of these programs, and
/// of the processes that they have started, has ended. This is so even if this process is killed,
/// and the broker after it.
///
/// To drop the lifeline revokes the hold: the programs that were started hold nothing any more. A
/// connection has one lifeline at a time; a later one takes the place of the earlier one.
///
/// ```no_run
/// use std::process::Command;
///
/// use navlock::{BrokerReach, ConnectOptions};
/// # use navlock::{ResourceName, UserAgent};
///
/// let reach = BrokerReach::connect_blocking(ConnectOptions::default())?;
/// let locks = UserAgent::with_reach(reach.clone()).lock_manager("my-app");
/// let prepared = reach.prepare_lifeline(&[ResourceName::try_from("db")?])?;
/// let guard = locks.lock("db").blocking()?;
///
/// let mut lifeline = prepared.begin()?;
/// let mut backup = Command::new("backup").spawn()?;
/// lifeline.hand_over();
/// // Even if this process is killed now, the lock is held until `backup` has ended.
/// backup.wait()?;
/// # drop(guard);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lifeline {
    connection: Arc<Connection>,
    written: InheritedFile,
    inherited: Option<Descriptor>,
}

/// Room for a [`Lifeline`], which is reserved before there are locks. If there is no room, the
/// caller learns this before it waits for a lock. To drop this gives the room back.
#[derive(Debug)]
pub struct PreparedLifeline {
    connection: Arc<Connection>,
    reserved: Reserved,
    /// Keeps the number free for the descriptor that is to be inherited. This descriptor itself is
    /// not inherited.
    ///
    /// FAST: for the first descriptor with so large a number, the kernel enlarges the process's table
    /// of descriptors. In a process with one thread this takes no time. In a process with several
    /// threads, the kernel waits until all CPUs have noticed, for some ten milliseconds. Nobody should
    /// wait for this while a lock is held, so it is done here.
    descriptor: Descriptor,
}

impl PreparedLifeline {
    pub(super) fn new(connection: &Arc<Connection>, names: &[ResourceName]) -> io::Result<Self> {
        let shared = connection.shared();
        // Only locks that the daemon knows by messages can be inherited.
        connection.change(ClientTable::stop_owning);
        let agents = shared.table().inheritable_claims().len();
        let claims: usize = names.iter().map(|name| name.as_bytes().len() + CLAIM).sum();
        // There is also room for texts of agents that become longer.
        let room = agents + claims + 4 * MAX_TEXT;
        let reserved = shared.files.reserve(shared.key, room)?;
        let descriptor = numbered(reserved.file()?, DESCRIPTOR)?;
        Ok(Self { connection: Arc::clone(connection), reserved, descriptor })
    }

    /// Returns a hold on the locks that the connection has now. Programs that are started from now
    /// on inherit the hold.
    ///
    /// # Errors
    ///
    /// If this process has no descriptors left. Also if there is no room for locks that were not known
    /// when the room was reserved.
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
    /// Leaves the file to the processes that have inherited it. Processes that are started from now on do not
    /// inherit it. Others see the inheritors under the texts that the agents have
    /// [said of themselves](navlock_core::LockManager::describe) so far.
    pub fn hand_over(&mut self) {
        self.renew();
        self.inherited = None;
    }

    /// Whether a process has inherited the hold, and has not ended, after this one has
    /// [handed it over](Self::hand_over).
    pub fn is_inherited(&self) -> bool {
        self.written.is_inherited()
    }

    /// Writes the file anew with the locks that are held now. The inheritors hold these locks, and
    /// no locks that have been lost or released since.
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
