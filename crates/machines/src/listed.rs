//! Turns the list of a bucket, which shows one revision, into locks and requests.
//!
//! Stray keys that block requests are shown as well, with what is known of them.

use std::{collections::HashMap, sync::Arc, time::Duration};

pub(crate) use crate::query::{QueryEntry, QueryResult};
use navlock_core::{
    AgentInfo, ClientId, Inspected, LockInfo,
    host::{Further, LockRef},
    look::LockId,
};

use crate::{
    clock::wall_millis,
    data::KeyValue,
    keys::{BucketKeys, LockKey, Phase, Range, RequestKey},
    mirror::order,
    strays::{self, Stray},
    tokens::{Grant, token},
    values::{Outer, Value},
};

/// A lock or request, with its sort key.
type Found = ((i64, u64, RequestKey), QueryEntry);

/// How much is known of a name that a connection owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerAnswer {
    /// Everything is known: the name's locks are listed, or known in another way.
    Said,
    /// The owner was not asked what it holds.
    Unasked,
    /// The owner was asked, and has not answered.
    Unsaid,
}

/// The locks and requests of a list, with what is known of each name that is owned.
pub(crate) fn seen(
    keys: &BucketKeys,
    listed: &[KeyValue],
    known: impl Fn(&KeyValue, &LockKey) -> OwnerAnswer,
) -> QueryResult {
    // If all requests of an agent say the same of the agent, this is kept once.
    let mut agents: HashMap<ClientId, Arc<AgentInfo>> = HashMap::new();
    let (mut held, mut pending, mut owned): (Vec<Found>, Vec<Found>, Vec<Found>) =
        Default::default();
    for kv in listed {
        if let Some(stray) = strays::of_bucket(keys, kv) {
            match blocking(keys, kv, &stray) {
                Some((Phase::Held, found)) => held.push(found),
                Some((Phase::Queued, found)) => pending.push(found),
                Some((Phase::Owned, _)) | None => {}
            }
            continue;
        }
        let Some(key) = keys.parse(&kv.key) else { continue };
        let Some(value) = Value::decode(&kv.value) else { continue };
        let Some(name) = value.name.or_else(|| key.name.name()) else { continue };
        let mut inspected = Inspected::new(LockInfo::new(name, key.mode, value.client_id));
        if value.info != AgentInfo::default() {
            let known = agents.entry(value.client_id).or_default();
            if **known != value.info {
                *known = Arc::new(value.info);
            }
            inspected.agent = Some(Arc::clone(known));
        }
        let age = wall_millis().saturating_sub(value.since);
        inspected.age = Some(Duration::from_millis(age));
        let is_lock = key.phase == Phase::Held;
        inspected.fencing_token = is_lock.then(|| Grant::marked(kv.made, value.mark).token);
        // The mark of an owner key is no place in a queue.
        let made = match key.phase {
            Phase::Queued => order(kv.made, &kv.value),
            Phase::Held | Phase::Owned => kv.made,
        };
        let answer = if key.phase == Phase::Owned { known(kv, &key) } else { OwnerAnswer::Said };
        let (made, request) = ((made, value.place), key.request);
        let Value { serial, said, .. } = value;
        if !said.why.is_empty() {
            inspected.set_why(&said.why);
        }
        // An owned name is shown as a lock, of which its machine has one for each name.
        let serial = if key.phase == Phase::Owned { unsigned(kv.made) } else { serial };
        inspected.further = further(made, serial);
        // For a lock, these notes do not matter any more.
        if key.phase == Phase::Queued {
            inspected.further.patience = said.patience;
            inspected.further.inside = said.inside.into_iter().map(outer).collect();
        }
        let one = QueryEntry { inspected, lease: kv.lease };
        let found = ((made.0, made.1, request), one);
        match (key.phase, answer) {
            (Phase::Held, _) => held.push(found),
            (Phase::Queued, _) => pending.push(found),
            (Phase::Owned, OwnerAnswer::Unsaid) => {
                held.push(by_owner(found, "it owns the name, and does not say who holds it"));
            }
            (Phase::Owned, OwnerAnswer::Unasked) => {
                owned.push(by_owner(found, "it owns the name, which somebody may hold there"));
            }
            (Phase::Owned, OwnerAnswer::Said) => {}
        }
    }
    let (held, pending, owned) = (in_order(held), in_order(pending), in_order(owned));
    QueryResult { held, pending, owned, left_out: 0 }
}

/// The number of a lock or request, and its place in the order of requests.
fn further((made, place): (i64, u64), serial: u64) -> Further {
    let mut further = Further::default();
    (further.serial, further.order) = (serial, (unsigned(made), place));
    further
}

fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or_default()
}

fn outer(Outer { bucket, name, lock }: Outer) -> LockRef {
    LockRef { bucket: bucket.into(), name: name.to_ref(), id: lock }
}

/// A stray key, shown as the lock or request that it is for transactions.
fn blocking(keys: &BucketKeys, kv: &KeyValue, stray: &Stray) -> Option<(Phase, Found)> {
    let Range { name, phase, mode } = keys.range(&kv.key)?;
    let LockId { client_id, serial } = strays::id(keys, kv)?;
    let mut inspected = Inspected::new(LockInfo::new(name.shown(), mode, client_id));
    let mut agent = AgentInfo::default();
    let why = format!("{stray}; 'navlock evict' removes it");
    (agent.command, agent.why) = ("(no lock)".to_owned(), why);
    inspected.agent = Some(Arc::new(agent));
    inspected.fencing_token = (phase == Phase::Held).then(|| token(kv.made));
    inspected.further = further((kv.made, 0), serial);
    let request = RequestKey { owner: 0, slot: 0 };
    Some((phase, ((kv.made, 0, request), QueryEntry { inspected, lease: kv.lease })))
}

/// An owned name, shown as a lock. It is not known whether the name is held.
fn by_owner((made, mut one): Found, why: &str) -> Found {
    let mut agent = AgentInfo::default();
    if let Some(said) = &one.inspected.agent {
        said.host.clone_into(&mut agent.host);
    }
    "(a machine)".clone_into(&mut agent.command);
    why.clone_into(&mut agent.why);
    one.inspected.agent = Some(Arc::new(agent));
    one.inspected.fencing_token = Some(token(made.0));
    (made, one)
}

fn in_order(mut found: Vec<Found>) -> Vec<QueryEntry> {
    found.sort_by_key(|&(made, _)| made);
    found.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keys::NameKey, values::RequestNotes};

    #[test]
    fn a_name_that_a_machine_keeps_is_shown_by_its_revision_and_host_also_once_somebody_has_asked()
    {
        let keys = BucketKeys::new("n", "b");
        let client_id = ClientId::random();
        let mut info = AgentInfo::default();
        "build-7".clone_into(&mut info.host);
        let value = Value {
            client_id,
            since: 0,
            serial: 0,
            place: 0,
            mark: 1,
            info,
            said: RequestNotes::default(),
            name: None,
        };
        let name = NameKey::new(&"db".try_into().expect("it is one"));
        let key = keys.name(&name).owned(7);
        let kv = KeyValue { key, value: value.encode(), made: 9, written: 12, lease: 1 };
        let shown = seen(&keys, &[kv], |_, _| OwnerAnswer::Unsaid).held;
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].inspected.fencing_token, Some(token(9)));
        assert_eq!(shown[0].inspected.further.order, (9, 0));
        let agent = shown[0].inspected.agent.as_ref().expect("it is shown as somebody");
        assert_eq!((&*agent.command, &*agent.host), ("(a machine)", "build-7"));
    }
}
