//! The leases that the thread keeps.

use crate::{
    clock::Uptime,
    ended::Ended,
    keys::NameKey,
    lease::{LeaseName, Renewal},
};

/// The connection's own lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OwnLease {
    #[default]
    None,
    /// The lease was requested.
    Coming,
    /// The lease was granted, and is in the table of leases.
    There(i64),
}

/// A lease that is kept.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) name: LeaseName,
    pub(super) state: State,
    /// The last renewal that etcd has answered.
    pub(super) renewal: Renewal,
    /// When this connection last looked for keys under the lease that belong to nobody.
    pub(super) swept: Uptime,
    /// The buckets whose agents go on with their locks under the lease, if the lease was another
    /// connection's.
    pub(super) buckets: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The lease was another connection's. This connection has tried to renew it since this moment.
    Reclaimed(Uptime),
    Live,
    /// Etcd does not know the lease any more. Etcd is asked for the reason.
    Doubted,
}

/// A lease that is over for this connection and may not be over for others.
///
/// The work under its locks has to end before `expires`. So nobody else may be granted the locks
/// before that, even if etcd is heard of again meanwhile.
#[derive(Debug)]
pub(super) struct ExpiringLease {
    /// From this moment on, others may be granted the locks.
    pub(super) expires: Uptime,
    pub(super) is_own: bool,
    /// The locks under the lease. They are removed at that moment, if this connection may not end
    /// the lease itself.
    pub(super) held: Vec<(u64, NameKey, Ended)>,
}
