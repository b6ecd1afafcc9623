//! Leases, as the thread knows them.

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
    /// Asked for.
    Coming,
    /// It is among the leases.
    There(i64),
}

/// A lease that is kept.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) name: LeaseName,
    pub(super) state: State,
    /// What etcd said of it last.
    pub(super) renewal: Renewal,
    /// When it was last looked for what is nobody's.
    pub(super) swept: Uptime,
    /// In which buckets agents go on with what they have under it, if it was another connection's.
    pub(super) buckets: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was another connection's. Since then it is tried to renew it.
    Recalled(Uptime),
    Live,
    /// Etcd does not know it any more. It is asked why.
    Doubted,
}

/// A lease that is over for us and may not be for others.
///
/// What works under it has until then to end. So nobody else may have what is held under it before,
/// also if etcd is heard of again meanwhile.
#[derive(Debug)]
pub(super) struct ExpiringLease {
    /// From here on others may have it.
    pub(super) expires: Uptime,
    pub(super) is_own: bool,
    /// What was held under it and is to be removed then, if it is not ours to end.
    pub(super) held: Vec<(u64, NameKey, Ended)>,
}
