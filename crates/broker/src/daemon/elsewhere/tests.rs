//! Tests of `elsewhere.rs`.

use navlock_core::{
    FencingToken, LockInfo, Mode,
    host::{LockRef, NameRef},
    look::{Agent, Change, Event, Patience},
};

use super::{listing::further_buckets, *};

fn name() -> ResourceName {
    "db".try_into().unwrap()
}

/// The id of a lock or request of this client.
fn lock_id(client: u8, serial: u64) -> LockId {
    LockId { client_id: ClientId::from_bytes([client; 16]), serial }
}

/// A lock or request of this client. Its key has this revision.
fn one(client: u8, serial: u64, revision: u64, is_held: bool) -> Inspected {
    let client_id = lock_id(client, serial).client_id;
    let mut one = Inspected::new(LockInfo::new(name(), Mode::Exclusive, client_id));
    one.fencing_token = is_held.then(|| FencingToken::new(revision));
    (one.further.serial, one.further.order) = (serial, (revision, 0));
    one
}

fn outer(id: LockId) -> LockRef {
    LockRef { bucket: "default".into(), name: NameRef(b"db"[..].into()), id }
}

fn elsewhere(held: Vec<Inspected>, pending: Vec<Inspected>) -> Elsewhere {
    Elsewhere::new(vec![("default".to_owned(), Inspection::new(held, pending))])
}

/// The events that this daemon reports of a client: of its locks by serial number and token, and of its requests by
/// serial number.
fn ours(client: u8, locks: &[(u64, u64)], serials: &[u64]) -> Vec<Event> {
    let at = std::time::Instant::now();
    let entry = |serial| Entry::new(lock_id(client, serial), Mode::Exclusive);
    let name = || LockName::new("default", name());
    let details = Agent::new("default".into(), std::sync::Arc::default(), Some(1));
    let came = Change::AgentCame { agent: lock_id(client, 0).client_id, details };
    let granted = locks.iter().map(|(serial, token)| {
        let mut entry = entry(*serial);
        entry.token = Some(FencingToken::new(*token));
        Change::Granted { name: name(), entry }
    });
    let requested =
        serials.iter().map(|serial| Change::Requested { name: name(), entry: entry(*serial) });
    [came].into_iter().chain(granted).chain(requested).map(|change| Event { at, change }).collect()
}

/// The one queue that is left, as client and serial number or token, and order.
fn settled(elsewhere: &Elsewhere, events: &[Event]) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut overview = Overview::default();
    for event in events {
        overview.apply(event);
    }
    elsewhere.settle(&mut overview);
    let Some(queue) = overview.queues.values().next() else { return Default::default() };
    let tokens = queue.held.iter().map(|entry| entry.token.unwrap().get()).collect();
    let orders = queue.pending.iter().map(|entry| (entry.id.serial, entry.order)).collect();
    (tokens, orders)
}

#[test]
fn own_locks_and_requests_count_as_etcd_has_them() {
    let found = elsewhere(vec![one(1, 5, 10, true)], vec![one(2, 7, 11, false)]);
    assert_eq!(settled(&found, &ours(1, &[(5, 10)], &[])), (vec![10], vec![]));
    // In etcd, a lock is lost, or a request is granted or given up, and this daemon has not heard
    // of it yet.
    assert_eq!(settled(&found, &ours(1, &[(5, 9)], &[])), (vec![], vec![]));
    assert_eq!(settled(&found, &ours(1, &[(4, 10)], &[])), (vec![], vec![]));
    assert_eq!(settled(&found, &ours(1, &[(5, 10)], &[3])), (vec![10], vec![]));
    assert_eq!(settled(&found, &ours(2, &[], &[7])), (vec![], vec![(7, 1)]));
    assert_eq!(settled(&found, &ours(2, &[], &[3, 7])), (vec![], vec![(7, 1)]));
}

#[test]
fn own_locks_stay_as_known_where_not_all_of_a_name_was_seen() {
    let mut seen = Inspection::new(vec![one(1, 5, 10, true)], vec![one(2, 7, 11, false)]);
    seen.left_out = 1;
    let found = Elsewhere::new(vec![("default".to_owned(), seen)]);
    assert_eq!(settled(&found, &ours(3, &[(1, 9)], &[2])), (vec![9], vec![(2, 0)]));
    // The queue stays the same if nothing was read from etcd at all.
    let nothing = Elsewhere::default();
    assert_eq!(settled(&nothing, &ours(3, &[(1, 9)], &[2])), (vec![9], vec![(2, 0)]));
}

#[test]
fn what_is_a_lock_waits_no_more() {
    let late = elsewhere(vec![one(1, 5, 10, true)], vec![one(1, 5, 11, false)]);
    assert_eq!(late.all().map(|(_, how, _)| how).collect::<Vec<_>>(), [How::Held]);
}

#[test]
fn a_looker_is_told_how_much_is_left_out() {
    let mut seen = Inspection::new(vec![one(1, 5, 10, true)], Vec::new());
    seen.left_out = 7;
    let of = |seen: &Inspection| Elsewhere::new(vec![("default".to_owned(), seen.clone())]);
    let (some, ours) = (of(&seen), HashSet::new());
    let last = some.add_to(Vec::new()).pop().unwrap().change;
    assert_eq!(last, Change::LeftOut { count: 7 });
    seen.left_out = 0;
    let all = of(&seen);
    let mut events = all.add_to(Vec::new()).into_iter();
    assert!(!events.any(|event| matches!(event.change, Change::LeftOut { .. })));
    assert!(!all.is_same(&some, &ours) && all.is_same(&all, &ours));
}

#[test]
fn requests_of_all_machines_have_one_order() {
    let pending = vec![one(2, 9, 11, false), one(3, 1, 12, false), one(2, 4, 14, false)];
    let found = elsewhere(Vec::new(), pending);
    assert_eq!(settled(&found, &ours(2, &[], &[4, 9])), (vec![], vec![(9, 1), (4, 3)]));
}

#[test]
fn all_know_a_lock_by_one_number_also_where_a_request_was_made_inside_it() {
    let mut nested = one(3, 9, 13, false);
    let around = [lock_id(1, 5), lock_id(2, 6)];
    nested.further.inside = around.map(outer).to_vec();
    let elsewhere = elsewhere(vec![one(1, 5, 10, true), one(2, 6, 12, true)], vec![nested]);
    let events = elsewhere.events(&HashSet::from([around[1].client_id]));
    let entries: Vec<_> = events
        .into_iter()
        .filter_map(|event| match event.change {
            Change::Granted { entry, .. } | Change::Requested { entry, .. } => Some(entry),
            _ => None,
        })
        .collect();
    assert_eq!(entries.iter().map(|of| of.id).collect::<Vec<_>>(), [around[0], lock_id(3, 9)]);
    assert_eq!(entries[1].inside, around);
    assert_eq!(further_buckets(&elsewhere.seen), HashSet::new());
}

#[test]
fn names_for_which_others_wait_inside_a_lock_count_and_lead_to_further_buckets() {
    let other = |bytes: &str| LockRef { bucket: bytes.into(), ..outer(lock_id(9, 20)) };
    let with_name = |mut one: Inspected, name: &str| {
        one.lock.name = name.try_into().unwrap();
        one
    };
    let asks = |client, name: &str, inside: Option<LockRef>| {
        let mut one = with_name(one(client, 9, 13, false), name);
        one.further.inside.extend(inside);
        one
    };
    let held = vec![one(1, 5, 10, true), with_name(one(1, 6, 11, true), "idle")];
    let mut last = asks(3, "db", Some(outer(lock_id(1, 6))));
    last.further.serial = 10;
    last.further.patience = Patience::MayGiveUp;
    let pending = vec![
        asks(2, "ours", Some(outer(lock_id(1, 5)))),
        asks(3, "theirs", Some(other("far"))),
        asks(4, "plain", None),
        last,
    ];
    let mut elsewhere = elsewhere(held, pending);
    assert_eq!(further_buckets(&elsewhere.seen), HashSet::from(["far".to_owned()]));
    let ours = HashSet::from([ClientId::from_bytes([2; 16])]);
    let mut names = Names::default();
    elsewhere.nested(&ours, &mut names);
    let is_nested =
        |bucket: &str, name: &ResourceName| names.has(bucket, name) && bucket == "default";
    let all = ["db", "theirs", "ours", "plain", "idle"];
    let counts = all.map(|name| is_nested("default", &name.try_into().unwrap()));
    assert_eq!(counts, [true, true, false, false, false]);
    let events = elsewhere.add_some_to(Vec::new(), &ours, is_nested);
    let found: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.change {
            Change::Granted { name, entry } | Change::Requested { name, entry } => {
                Some((name.name.to_string(), entry.patience, entry.inside.len()))
            }
            _ => None,
        })
        .collect();
    // Two requests wait inside locks of names that are not looked at. The locks are known nevertheless.
    let (endless, last) = (Patience::Endless, Patience::MayGiveUp);
    let expected = [("db", endless, 0), ("theirs", endless, 1), ("db", last, 1)];
    assert_eq!(found, expected.map(|(name, patience, inside)| (name.to_owned(), patience, inside)));
}
