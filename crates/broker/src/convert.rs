//! Conversions between the types of `navlock_core` and those of `navlock_wire`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use navlock_core::{
    ClientId, Error, FencingToken, Lost, Unreachable, UnreachableKind,
    look::{self, Change, Client, Entry, Event, LockName, Silence},
};
use navlock_wire::{Failure, HowLost, LookChange, LookEntry, LookEvent, Moment, OfName};

use crate::clock;

/// How a lock was lost, and who has stolen it, in a message.
pub(crate) fn how_lost(lost: Lost, stolen_by: Option<ClientId>) -> HowLost {
    (lost, stolen_by.map(ClientId::to_bytes))
}

/// How a lock was lost, and who has stolen it.
pub(crate) fn lost((lost, stolen_by): HowLost) -> (Lost, Option<ClientId>) {
    (lost, stolen_by.map(ClientId::from_bytes))
}

pub(crate) fn lock_id((client_id, serial): navlock_wire::LockId) -> look::LockId {
    look::LockId { client_id: ClientId::from_bytes(client_id), serial }
}

/// The events, without those that this release does not know. Successive events of the same
/// `bucket` share its name.
pub(crate) fn events(events: Vec<LookEvent>, bucket: &mut Arc<str>) -> impl Iterator<Item = Event> {
    // FAST: the clocks are read once for all events.
    let (now, here) = (clock::now(), Instant::now());
    // Converts a moment of the clock that all processes share to a moment of this process's clock.
    let instant = move |moment: Moment| {
        let age = Duration::from_nanos(now.saturating_sub(moment));
        here.checked_sub(age).unwrap_or(here) + Duration::from_nanos(moment.saturating_sub(now))
    };
    events.into_iter().filter_map(move |told| event(told, instant, bucket))
}

fn event(
    LookEvent { at, change }: LookEvent,
    instant: impl Fn(Moment) -> Instant,
    bucket: &mut Arc<str>,
) -> Option<Event> {
    let at = instant(at);
    let mut of = |of: OfName| {
        // FAST: names of one bucket share its text, so comparing them later reads one place in
        // memory.
        if *bucket != of.bucket {
            *bucket = of.bucket;
        }
        LockName::new(Arc::clone(bucket), of.name)
    };
    let entry = |form: LookEntry| {
        let mut entry = Entry::new(lock_id(form.id), form.mode);
        entry.since = at;
        entry.token = form.token.map(FencingToken::new);
        entry.inside = form.inside.into_iter().map(lock_id).collect();
        entry.patience = form.patience;
        entry.why = form.why.map(Into::into);
        entry.taken = form.taken;
        entry
    };
    let change = match change {
        LookChange::ClientCame { client, pid, state } => {
            let mut details = Client::new(pid, state);
            details.since = at;
            Change::ClientCame { client, details }
        }
        LookChange::ClientWent { client } => Change::ClientWent { client },
        LookChange::AgentCame { agent, bucket, info, client } => {
            let details = look::Agent::new(bucket, Arc::new(info), client);
            Change::AgentCame { agent: ClientId::from_bytes(agent), details }
        }
        LookChange::AgentSilent { agent, ends } => Change::AgentSilent {
            agent: ClientId::from_bytes(agent),
            silence: Silence::new(at, instant(ends)),
        },
        LookChange::AgentWent { agent } => Change::AgentWent { agent: ClientId::from_bytes(agent) },
        LookChange::Requested(name, form) => {
            Change::Requested { name: of(name), entry: entry(form) }
        }
        LookChange::Granted(name, form) => Change::Granted { name: of(name), entry: entry(form) },
        LookChange::Unavailable(name, agent) => {
            Change::Unavailable { name: of(name), agent: ClientId::from_bytes(agent) }
        }
        LookChange::Released(name, id) => Change::Released { name: of(name), id: lock_id(id) },
        LookChange::Aborted(name, id) => Change::Aborted { name: of(name), id: lock_id(id) },
        LookChange::Lost(name, id, how) => {
            let (how, by) = lost(how);
            Change::Lost { name: of(name), id: lock_id(id), how, by }
        }
        LookChange::Owned(name, form, held) => {
            Change::Owned { name: of(name), entry: entry(form), held }
        }
        LookChange::Recalled(name, id) => Change::Recalled { name: of(name), id: lock_id(id) },
        LookChange::Recovered => Change::Recovered,
        LookChange::LeftOut { count } => Change::LeftOut { count },
        _ => return None,
    };
    Some(Event { at, change })
}

/// The error that a caller gets for this failure.
pub(crate) fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Terminated => Error::Terminated,
        Failure::Closed => {
            Unreachable::new(UnreachableKind::Unavailable, "the broker is ending; try again").into()
        }
        Failure::Refused(why) => Error::refused(why),
        // This error comes from the service that keeps the locks. What a broker itself refuses is
        // one of the other failures.
        Failure::Other(why) => Unreachable::new(UnreachableKind::Upstream, why).into(),
        _ => Unreachable::other("the broker refused, in words of a later version").into(),
    }
}

/// The failure of which the client is told for an error.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        Error::Terminated => Failure::Terminated,
        Error::Closed => Failure::Closed,
        Error::Refused(why) => Failure::Refused(why.message().to_owned()),
        other => Failure::Other(other.to_string()),
    }
}
