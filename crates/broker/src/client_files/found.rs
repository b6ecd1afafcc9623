//! What a daemon finds of the clients of an earlier one.

use std::{collections::HashMap, fs::File};

use navlock_platform::descriptor::Counted;
use navlock_wire::ClientKey;

/// The files that were found of clients of an earlier daemon.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The clients that live, and will come back.
    pub(crate) living: Vec<ClientKey>,
    /// The clients from which living processes have inherited locks.
    pub(crate) inherited_from: Vec<ClientKey>,
    /// The files of these inherited locks. They are open, as far as there are descriptors, because
    /// somebody may remove them before they are read.
    pub(crate) inherited_files: HashMap<ClientKey, Counted<File>>,
    /// The clients that do not live, from which nobody has inherited locks, and that have notes of
    /// leases.
    pub(crate) dead: Vec<Dead>,
    /// Daemons that have noted leases of their own.
    pub(crate) brokers: Vec<ClientKey>,
    /// The clients of which there are notes of what they hold.
    pub(crate) noted: Vec<ClientKey>,
}

/// A client that has ended and may have left leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) client: ClientKey,
    /// Whether the client's own file was there, and said that the client has ended. If the file is gone, somebody may
    /// have removed it while the client lives.
    pub(crate) is_certain: bool,
}
