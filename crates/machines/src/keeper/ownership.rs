//! What is written to own a name, and how long this connection waits for other owners.

use std::time::Duration;

use navlock_core::{AgentInfo, ClientId};

use crate::{
    clock::{Uptime, wall_millis},
    transactions::Owning,
    values::{RequestNotes, Value},
};

/// How long a caller that asks for an owned name, or looks at it, waits for the owner at most.
/// After that, the caller is told that the store does not answer. This time is short, so that the
/// caller is told while its own locks probably still last. The owner has half of this time to
/// give the name up. If the owner has not given the name up by then, it counts as a holder.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The first pause between asking an owner to give up its name and looking at the name again.
pub(super) const AGAIN: Duration = Duration::from_millis(5);

/// An owner that is known to have been asked to give up its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedOwner {
    /// The revision since which a question stands there, if one does.
    pub(super) question: Option<i64>,
    /// When this was seen.
    pub(super) seen: Uptime,
    /// How long the owner's lease lasts.
    pub(super) lasts: Duration,
}

/// The client id under which the owner keys of this connection are written. It is not the id of any
/// agent.
pub(super) fn whose(owner: u128) -> ClientId {
    ClientId::from_bytes(owner.to_be_bytes())
}

/// What is written to own a name under this lease, which lasts so long each time that it is renewed.
/// `after` is the last revision that was heard of, and `host` is the name of this machine.
pub(super) fn owning(
    owner: u128,
    (lease, lasts): (i64, Duration),
    after: i64,
    host: &str,
) -> Owning {
    let client_id = whose(owner);
    let mut info = AgentInfo::default();
    host.clone_into(&mut info.host);
    let value = Value {
        client_id,
        since: wall_millis(),
        serial: 0,
        place: Owning::place(lasts),
        mark: 0,
        info,
        said: RequestNotes::default(),
        name: None,
    };
    Owning { owner, lease, value: value.encode(), after, run: Vec::new() }
}
