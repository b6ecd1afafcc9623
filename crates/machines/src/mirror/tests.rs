use navlock_core::{AgentInfo, ClientId, Mode::*, ResourceName};

use super::{Phase::*, *};
use crate::{keys::NameKey, values::RequestNotes};

const ME: u128 = 1;
const OTHER: u128 = 2;

fn name() -> NameKey {
    NameKey::new(&ResourceName::try_from("db").unwrap())
}

fn request(owner: u128, slot: u64) -> RequestKey {
    RequestKey { owner, slot }
}

fn put(phase: Phase, mode: Mode, request: RequestKey, revision: i64) -> Event {
    put_at(0, phase, mode, request, revision)
}

fn put_at(place: u64, phase: Phase, mode: Mode, request: RequestKey, revision: i64) -> Event {
    let (client_id, info) = (ClientId::from_bytes([0; 16]), AgentInfo::default());
    let value = Value {
        client_id,
        since: 0,
        serial: 0,
        place,
        mark: 0,
        info,
        said: RequestNotes::default(),
        name: None,
    };
    let put = Put { made: revision, lease: 1, value: value.encode().into() };
    let key = LockKey { name: name(), phase, mode, request };
    Event { key, revision, put: Some(put) }
}

fn delete(phase: Phase, mode: Mode, request: RequestKey, revision: i64) -> Event {
    Event { put: None, ..put(phase, mode, request, revision) }
}

/// The slots of the requests that can be granted.
fn grantable(mirror: &Mirror) -> Vec<u64> {
    mirror.grantable().map(|entry| entry.request.slot).collect()
}

fn successors(mirror: &Mirror, of: RequestKey) -> Vec<u64> {
    mirror.successors(of).map(|entry| entry.request.slot).collect()
}

fn mirror(events: impl IntoIterator<Item = Event>) -> Mirror {
    let mut mirror = Mirror::default();
    for event in events {
        assert!(mirror.apply(event));
    }
    mirror
}

#[test]
fn only_the_first_is_granted() {
    let mirror = mirror([
        put(Queued, Exclusive, request(OTHER, 9), 1),
        put(Queued, Exclusive, request(ME, 3), 2),
    ]);
    assert_eq!(grantable(&mirror), [9]);
}

#[test]
fn requests_of_one_revision_come_in_the_order_in_which_they_were_made() {
    let mut mirror = mirror([
        put_at(7, Queued, Exclusive, request(ME, 2), 1),
        put_at(6, Queued, Exclusive, request(ME, 3), 1),
    ]);
    assert_eq!(grantable(&mirror), [3]);
    mirror.apply(delete(Queued, Exclusive, request(ME, 3), 2));
    assert_eq!(grantable(&mirror), [2]);
}

#[test]
fn readers_at_the_head_are_granted_together_up_to_the_first_writer() {
    let mut mirror = mirror([
        put(Held, Shared, request(OTHER, 1), 1),
        put(Queued, Shared, request(ME, 2), 2),
        put(Queued, Shared, request(OTHER, 3), 3),
        put(Queued, Shared, request(ME, 4), 4),
        put(Queued, Exclusive, request(ME, 5), 5),
        put(Queued, Shared, request(ME, 6), 6),
    ]);
    assert_eq!(grantable(&mirror), [2, 3, 4]);
    // A thief holds the lock.
    mirror.apply(put(Held, Exclusive, request(OTHER, 7), 7));
    assert_eq!(grantable(&mirror), []);
}

#[test]
fn a_writer_waits_until_nobody_holds() {
    let mut mirror = mirror([
        put(Held, Shared, request(OTHER, 1), 1),
        put(Queued, Exclusive, request(ME, 2), 2),
    ]);
    assert_eq!(grantable(&mirror), []);
    mirror.apply(delete(Held, Shared, request(OTHER, 1), 3));
    assert_eq!(grantable(&mirror), [2]);
}

#[test]
fn the_last_holder_has_heirs() {
    let mut mirror = mirror([
        put(Held, Shared, request(ME, 1), 1),
        put(Held, Shared, request(OTHER, 2), 2),
        put(Queued, Exclusive, request(OTHER, 3), 3),
        put(Queued, Exclusive, request(ME, 4), 4),
    ]);
    assert_eq!(successors(&mirror, request(ME, 1)), []);
    mirror.apply(delete(Held, Shared, request(OTHER, 2), 5));
    assert_eq!(successors(&mirror, request(ME, 1)), [3]);
    assert_eq!(successors(&mirror, request(ME, 9)), []);
}

#[test]
fn an_event_that_a_list_has_told_is_not_told_again_by_the_watch() {
    let mut mirror = Mirror::default();
    mirror.reset([put(Queued, Exclusive, request(ME, 1), 3)], 7);
    assert!(!mirror.apply(put(Held, Exclusive, request(OTHER, 2), 5)));
    assert!(!mirror.apply(delete(Queued, Exclusive, request(ME, 1), 7)));
    assert_eq!(grantable(&mirror), [1]);
    assert!(mirror.apply(delete(Queued, Exclusive, request(ME, 1), 8)));
    // A list that is older than the watch's events says nothing new.
    mirror.reset([put(Queued, Exclusive, request(ME, 1), 3)], 7);
    assert_eq!(grantable(&mirror), []);
    assert_eq!(mirror.revision(), 8);
}

#[test]
fn a_removed_entry_is_forgotten() {
    let mut mirror =
        mirror([put(Held, Exclusive, request(ME, 1), 1), put(Queued, Shared, request(ME, 2), 2)]);
    assert_eq!(mirror.entries().count(), 2);
    assert_eq!(mirror.get(Held, request(ME, 1)).map(|lock| lock.made), Some(1));
    mirror.apply(delete(Held, Exclusive, request(ME, 1), 3));
    mirror.apply(delete(Queued, Shared, request(ME, 2), 3));
    assert_eq!(mirror.entries().count(), 0);
    assert!(mirror.places.is_empty());
}

#[test]
fn only_another_holder_is_evidence_of_a_theft() {
    let mut mirror = mirror([put(Held, Exclusive, request(ME, 1), 1)]);
    mirror.apply(delete(Held, Exclusive, request(ME, 1), 2));
    assert_eq!(mirror.why_gone(crate::tokens::token(1)), Lost::Removed);
    mirror.apply(put(Held, Exclusive, request(OTHER, 2), 3));
    assert_eq!(mirror.why_gone(crate::tokens::token(1)), Lost::Stolen);
}

#[test]
fn an_event_that_is_older_than_an_outcome_does_not_undo_it() {
    let of = request(ME, 1);
    let mut mirror = mirror([put(Queued, Exclusive, of, 1)]);
    mirror.take_own(vec![delete(Queued, Exclusive, of, 5), put(Held, Exclusive, of, 5)]);
    // The request has said something more before it was granted.
    assert!(mirror.apply(put(Queued, Exclusive, of, 3)));
    mirror.settle();
    assert!(mirror.get(Held, of).is_some() && mirror.get(Queued, of).is_none());
    mirror.take_own(vec![delete(Held, Exclusive, of, 6)]);
    for event in [delete(Queued, Exclusive, of, 5), put(Held, Exclusive, of, 5)] {
        mirror.apply(event);
    }
    mirror.settle();
    assert!(mirror.entries().count() == 0 && !mirror.ahead.is_empty());
    mirror.apply(delete(Held, Exclusive, of, 6));
    mirror.settle();
    assert!(mirror.ahead.is_empty());
    mirror.apply(put(Held, Exclusive, of, 7));
    assert!(mirror.get(Held, of).is_some());
}

#[test]
fn an_outcome_that_is_later_than_a_list_stays() {
    let (of, gone) = (request(ME, 1), request(ME, 2));
    let mut mirror = Mirror::default();
    mirror.take_own(vec![put(Held, Exclusive, of, 8), delete(Queued, Shared, gone, 8)]);
    mirror.reset([put(Queued, Shared, gone, 3)], 7);
    assert!(mirror.get(Held, of).is_some() && mirror.get(Queued, gone).is_none());
    mirror.reset([put(Queued, Shared, gone, 9)], 9);
    assert!(mirror.get(Held, of).is_none() && mirror.get(Queued, gone).is_some());
}

#[test]
fn a_request_is_first_when_all_before_it_were_told() {
    let mut mirror = Mirror::default();
    mirror.reset([], 1);
    mirror.take_own(vec![put(Queued, Exclusive, request(ME, 1), 5)]);
    assert_eq!(grantable(&mirror), []);
    mirror.apply(put(Queued, Exclusive, request(OTHER, 2), 4));
    assert_eq!(grantable(&mirror), [2]);
    mirror.apply(delete(Queued, Exclusive, request(OTHER, 2), 6));
    assert_eq!(grantable(&mirror), [1]);
}

#[test]
fn a_mirror_is_behind_if_a_change_is_not_told_for_long_and_not_if_there_is_always_one_untold() {
    let (mut mirror, patience) = (Mirror::default(), Duration::from_secs(3));
    let mut now = Duration::from_secs(100);
    let mut pass = || {
        now += Duration::from_secs(2);
        crate::clock::simulation::to(now);
    };
    for at in 1..=5 {
        pass();
        let lock = |at: i64| put(Held, Shared, request(ME, at.unsigned_abs()), at);
        mirror.take_own(vec![lock(at)]);
        // The watch has come as far as the change before this one.
        mirror.apply(lock(at - 1));
        mirror.settle();
        assert!(!mirror.ahead.is_empty() && !mirror.is_behind(patience), "{at}");
    }
    pass();
    pass();
    assert!(mirror.is_behind(patience));
}

#[test]
fn who_has_its_place_again_is_first_although_the_watch_has_not_come_so_far() {
    let mut mirror = mirror([put(Queued, Exclusive, request(OTHER, 1), 3)]);
    mirror.apply(delete(Queued, Exclusive, request(OTHER, 1), 5));
    let mut again = put(Queued, Exclusive, request(ME, 2), 9);
    let put_again = again.put.as_mut().unwrap();
    put_again.value = Value::marked(&put_again.value, 4).into();
    mirror.take_own(vec![again, put(Queued, Exclusive, request(ME, 3), 10)]);
    assert_eq!(mirror.first().map(|entry| entry.request.slot).collect::<Vec<_>>(), [2]);
}
