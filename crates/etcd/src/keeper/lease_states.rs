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
    /// When nobody's keys under the lease were last looked for.
    pub(super) swept: Uptime,
    /// The buckets whose agents go on with their locks under the lease, if it was another
    /// connection's.
    pub(super) buckets: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The lease was another connection's. Since then this connection tries to renew it.
    Reclaimed(Uptime),
    Live,
    /// Etcd does not know the lease any more. It is asked why.
    Doubted,
}

/// A lease that is over for this connection and may not be over for others.
///
/// Work under its locks has to end until then. So nobody else may be granted them before, even if
/// etcd is heard of again meanwhile.
#[derive(Debug)]
pub(super) struct ExpiringLease {
    /// From here on others may be granted the locks.
    pub(super) expires: Uptime,
    pub(super) is_own: bool,
    /// The locks under the lease, which are removed then, if the lease is not this connection's to
    /// end.
    pub(super) held: Vec<(u64, NameKey, Ended)>,
}
