//! What is written to own a name, and how long is waited for who owns one.

use std::time::Duration;

use navlock_core::{AgentInfo, ClientId};

use crate::{
    clock::{Uptime, monotonic, wall_millis},
    transactions::Owning,
    values::{RequestNotes, Value},
};

/// How long whoever asks or looks has patience: it is told that etcd does not answer while its locks may still
/// last. Half of it is for the owner of a name to give that up, before it counts as one who holds it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long after the owner of a name was asked for it that is looked at again, at first.
pub(super) const AGAIN: Duration = Duration::from_millis(5);

/// As whose the names of this connection are written, which is no agent's.
pub(super) fn whose(owner: u128) -> ClientId {
    ClientId::from_bytes(owner.to_be_bytes())
}

/// What is written to own a name under this lease, after this revision, on this machine.
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

/// A name whose key has gone, and it is not known why.
#[derive(Debug)]
pub(super) struct StrayOwnership {
    pub(super) lease: i64,
    pub(super) since: Uptime,
}
