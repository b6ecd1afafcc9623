//! Tests of `elsewhere.rs`.

use navlock_core::host::NameRef;
use navlock_core::{
    Mode,
    look::{Agent, Change, Event, Patience},
};

use super::{listing::further_buckets, *};

fn name() -> ResourceName {
    "db".try_into().unwrap()
}

/// A lock or request of this client. It was asked for at `asked`, and its key has this revision.
fn one(client: u8, asked: u64, revision: u64, is_held: bool) -> Inspected {
    let client_id = ClientId::from_bytes([client; 16]);
    let mut one = Inspected::new(LockInfo::new(name(), Mode::Exclusive, client_id));
    one.fencing_token = is_held.then(|| FencingToken::new(revision));
    (one.further.serial, one.further.order) = (asked, (revision, 0));
    one.further.called = is_held.then(|| called(revision));
    one
}

fn called(revision: u64) -> LockRef {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&revision.to_be_bytes());
    LockRef { bucket: "default".into(), name: NameRef(b"db"[..].into()), bytes }
}

fn elsewhere(held: Vec<Inspected>, pending: Vec<Inspected>) -> Elsewhere {
    Elsewhere::new(vec![("default".to_owned(), Inspection::new(held, pending))])
}

/// The events that this daemon reports of a client. The client's locks are given by their tokens,
/// its requests by their serial numbers.
fn ours(client: u8, tokens: &[u64], serials: &[u64]) -> Vec<Event> {
    let (client_id, at) = (ClientId::from_bytes([client; 16]), std::time::Instant::now());
    let entry = |serial| Entry::new(LockId { client_id, serial }, Mode::Exclusive);
    let name = || LockName::new("default", name());
    let details = Agent::new("default".into(), std::sync::Arc::default(), Some(1));
    let came = Change::AgentCame { agent: client_id, details };
    let granted = tokens.iter().map(|token| {
        let mut entry = entry(1000 + token);
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
    assert_eq!(settled(&found, &ours(1, &[10], &[])), (vec![10], vec![]));
    // In etcd, a lock is lost, or a request is granted or given up, and this daemon has not heard
    // of it yet.
    assert_eq!(settled(&found, &ours(1, &[9], &[])), (vec![], vec![]));
    assert_eq!(settled(&found, &ours(1, &[10], &[3])), (vec![10], vec![]));
    assert_eq!(settled(&found, &ours(2, &[], &[3])), (vec![], vec![(3, 1)]));
    // It is not known which of the two etcd has.
    assert_eq!(settled(&found, &ours(2, &[], &[3, 4])), (vec![], vec![]));
}

#[test]
fn own_locks_stay_as_known_where_not_all_of_a_name_was_seen() {
    let mut seen = Inspection::new(vec![one(1, 5, 10, true)], vec![one(2, 7, 11, false)]);
    seen.left_out = 1;
    let found = Elsewhere::new(vec![("default".to_owned(), seen)]);
    assert_eq!(settled(&found, &ours(3, &[9], &[2])), (vec![9], vec![(2, 0)]));
    // The queue stays the same if nothing was read from etcd at all.
    let nothing = Elsewhere::default();
    assert_eq!(settled(&nothing, &ours(3, &[9], &[2])), (vec![9], vec![(2, 0)]));
}

#[test]
fn numbers_are_soon_found_however_many_say_the_same() {
    const COUNT: u64 = 100_000;
    // In the first case, all entries were asked for at the same time. In the second case, each time
    // was used twice.
    let of = |agent, serial| LockId { client_id: ClientId::from_bytes([agent; 16]), serial };
    let same = (0..COUNT).map(|_| 5);
    let again = (0..COUNT / 2).chain(0..COUNT / 2);
    for serials in [same.collect::<Vec<_>>(), again.collect()] {
        let mut next = HashMap::new();
        let serials = serials.into_iter().map(|serial| serial | LockId::MADE_UP);
        let numbers = serials.map(|serial| first_free(of(1, serial), &mut next));
        let numbers: HashSet<u64> = numbers.collect();
        assert_eq!(numbers.len() as u64, COUNT);
        assert!(numbers.iter().all(|number| number & LockId::MADE_UP != 0));
        assert_eq!(first_free(of(2, 5 | LockId::MADE_UP), &mut next), 5 | LockId::MADE_UP);
    }
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
    let pending = vec![one(2, 7, 11, false), one(3, 1, 12, false), one(2, 8, 14, false)];
    let found = elsewhere(Vec::new(), pending);
    // An agent's requests are queued in the order of the agent's calls, in whatever order this
    // daemon hears of them.
    assert_eq!(settled(&found, &ours(2, &[], &[9, 4])), (vec![], vec![(4, 1), (9, 3)]));
}

#[test]
fn locks_of_others_are_known_by_numbers_of_their_own_and_by_the_locks_around_them() {
    // The first two were asked for in one tick of a clock.
    let held = vec![one(1, 5, 10, true), one(1, 5, 11, true), one(2, 6, 12, true)];
    let mut nested = one(3, 9, 13, false);
    nested.further.inside = vec![called(11), called(12), called(8)];
    let elsewhere = elsewhere(held, vec![nested]);
    let two = [ClientId::from_bytes([2; 16])];
    let mut known = Entry::new(LockId { client_id: two[0], serial: 77 }, Mode::Exclusive);
    known.token = Some(FencingToken::new(12));
    let granted = |entry| {
        let name = LockName::new("default", name());
        LookEvent { at: 0, change: Change::Granted { name, entry } }
    };
    let inside = |known: &[LookEvent]| {
        let ours = HashSet::from(two);
        let named = elsewhere.named(&ours, known, |_, _| true);
        let events = elsewhere.events(&ours, &named);
        let mut ids = HashSet::new();
        let mut inside = Vec::new();
        for event in events {
            if let Change::Granted { entry, .. } | Change::Requested { entry, .. } = event.change {
                assert!(ids.insert(entry.id));
                inside.extend(entry.inside);
            }
        }
        assert_eq!(ids.len(), 3);
        assert!(inside[..1].iter().all(|id| ids.contains(id)), "{inside:?}");
        inside
    };
    assert_eq!(inside(&[granted(known.clone())])[1..], [known.id]);
    // If the same change has granted two locks, it is not known which of them is meant.
    let mut other = known.clone();
    other.id.serial = 78;
    assert_eq!(inside(&[granted(known), granted(other)]).len(), 1);
    assert_eq!(further_buckets(&elsewhere.seen), HashSet::new());
}

#[test]
fn names_for_which_others_wait_inside_a_lock_count_and_lead_to_further_buckets() {
    let other = |bytes: &str| {
        let mut other = called(20);
        other.bucket = bytes.into();
        other
    };
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
    let mut last = asks(3, "db", Some(called(11)));
    last.further.patience = Patience::MayGiveUp;
    let pending = vec![
        asks(2, "ours", Some(called(10))),
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
    // One request waits inside a lock of a name that is not looked at. The lock is known
    // nevertheless.
    let (endless, last) = (Patience::Endless, Patience::MayGiveUp);
    let expected = [("db", endless, 0), ("theirs", endless, 0), ("db", last, 1)];
    assert_eq!(found, expected.map(|(name, patience, inside)| (name.to_owned(), patience, inside)));
}
