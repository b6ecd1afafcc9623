//! What is written to own a name, and how long other owners are waited for.

use std::time::Duration;

use navlock_core::{AgentInfo, ClientId};

use crate::{
    clock::{Uptime, monotonic, wall_millis},
    transactions::Owning,
    values::{RequestNotes, Value},
};

/// How long whoever asks or looks waits for an owner: it is told that etcd does not answer while
/// its locks may still last. Half of this is for the owner to give the name up, before the owner
/// counts as a holder.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The first pause after which a name is looked at again whose owner was asked for it.
pub(super) const AGAIN: Duration = Duration::from_millis(5);

/// The client that the names of this connection are written for: no agent's.
pub(super) fn whose(owner: u128) -> ClientId {
    ClientId::from_bytes(owner.to_be_bytes())
}

/// What is written to own a name under this lease. `after` is the last revision heard of, and
/// `host` is this machine.
pub(super) fn owning(owner: u128, lease: i64, after: i64, host: &str) -> Owning {
    let client_id = whose(owner);
    let mut info = AgentInfo::default();
    host.clone_into(&mut info.host);
    let value = Value {
        client_id,
        since: wall_millis(),
        asked: monotonic(),
        place: 0,
        mark: 0,
        info,
        said: RequestNotes::default(),
        name: None,
    };
    Owning { owner, lease, value: value.encode(), after, run: Vec::new() }
}

/// A name whose owner key has gone for a reason that is not known yet.
#[derive(Debug)]
pub(super) struct StrayOwnership {
    pub(super) lease: i64,
    pub(super) since: Uptime,
}
