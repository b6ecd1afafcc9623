//! Very many waiters, very many names, a very long name. Each test would overflow its thread's
//! stack if a command recursed, and not end in time if a queue were searched.

use std::iter;

use navlock_engine::{AgentId, Event, LockManager, Mode, RequestId, RequestKind, ResourceName};

const AGENT: AgentId = AgentId::from_index(0);
const OTHER_AGENT: AgentId = AgentId::from_index(1);
const EXCLUSIVE: RequestKind = RequestKind::Wait(Mode::Exclusive);
const SHARED: RequestKind = RequestKind::Wait(Mode::Shared);
const MILLION: usize = 1_000_000;

#[test]
fn a_million_writers_of_one_name_are_granted_one_after_the_other() {
    let mut locks = LockManager::default();
    let db = name("db");
    let writers: Vec<_> = (0..MILLION).map(|_| locks.request_lock(AGENT, &db, EXCLUSIVE)).collect();

    for &writer in &writers {
        assert!(granted(&mut locks).eq([writer]));
        locks.release_lock(writer);
    }
    assert!(locks.is_empty());
}

#[test]
fn a_million_readers_of_one_name_are_granted_in_order_by_one_release() {
    let mut locks = LockManager::default();
    let db = name("db");
    let writer = locks.request_lock(AGENT, &db, EXCLUSIVE);
    let readers: Vec<_> = (0..MILLION).map(|_| locks.request_lock(AGENT, &db, SHARED)).collect();
    assert!(granted(&mut locks).eq([writer]));

    locks.release_lock(writer);
    assert!(granted(&mut locks).eq(readers));
}

#[test]
fn a_million_readers_are_stolen_from_and_their_thief_is_granted() {
    let mut locks = LockManager::default();
    let db = name("db");
    let readers: Vec<_> = (0..MILLION).map(|_| locks.request_lock(AGENT, &db, SHARED)).collect();
    assert!(granted(&mut locks).eq(readers.iter().copied()));

    let thief = locks.request_lock(AGENT, &db, RequestKind::Steal);
    let stolen = readers.into_iter().map(Event::Stolen);
    assert!(events(&mut locks).eq(stolen.chain([Event::Granted(thief)])));
}

#[test]
fn twenty_thousand_readers_and_writers_are_granted_in_the_order_in_which_they_asked() {
    let mut locks = LockManager::default();
    let db = name("db");
    let asked: Vec<_> = [EXCLUSIVE, SHARED, SHARED]
        .into_iter()
        .cycle()
        .take(20_000)
        .map(|kind| locks.request_lock(AGENT, &db, kind))
        .collect();

    let mut order = Vec::new();
    while order.len() < asked.len() {
        let holders: Vec<_> = granted(&mut locks).collect();
        assert!(!holders.is_empty(), "nobody is woken after {order:?}");
        for &holder in &holders {
            locks.release_lock(holder);
        }
        order.extend(holders);
    }
    assert_eq!(order, asked);
    assert!(locks.is_empty());
}

#[test]
fn a_million_names_are_held_and_waited_for_apart() {
    let mut locks = LockManager::default();
    let names: Vec<_> = (0..MILLION).map(|number| name(&number.to_string())).collect();
    let holders: Vec<_> =
        names.iter().map(|name| locks.request_lock(AGENT, name, EXCLUSIVE)).collect();
    assert!(granted(&mut locks).eq(holders.iter().copied()));
    let waiters: Vec<_> =
        names.iter().map(|name| locks.request_lock(OTHER_AGENT, name, EXCLUSIVE)).collect();
    assert_eq!(locks.poll_event(), None);

    for (&holder, &waiter) in holders.iter().zip(&waiters) {
        locks.release_lock(holder);
        assert!(granted(&mut locks).eq([waiter]));
    }
    assert_eq!(locks.snapshot_lock_state().filter(|entry| entry.is_held).count(), MILLION);
}

#[test]
fn the_end_of_an_agent_with_a_million_names_wakes_a_million_waiters() {
    let mut locks = LockManager::default();
    let names: Vec<_> = (0..MILLION).map(|number| name(&number.to_string())).collect();
    let holders: Vec<_> =
        names.iter().map(|name| locks.request_lock(AGENT, name, EXCLUSIVE)).collect();
    let waiters: Vec<_> =
        names.iter().map(|name| locks.request_lock(OTHER_AGENT, name, EXCLUSIVE)).collect();
    assert!(granted(&mut locks).eq(holders.iter().copied()));

    locks.terminate_remaining_locks_and_requests(&[AGENT]);
    let terminated = holders.into_iter().map(Event::Terminated);
    let granted = waiters.into_iter().map(Event::Granted);
    assert!(events(&mut locks).eq(terminated.chain(granted)));
}

#[test]
fn a_name_may_have_a_mebibyte() {
    let mut locks = LockManager::default();
    let long = "n".repeat(1 << 20);
    let (long, longer) = (name(&long), name(&(long.clone() + "n")));

    let holder = locks.request_lock(AGENT, &long, EXCLUSIVE);
    let waiter = locks.request_lock(OTHER_AGENT, &long, EXCLUSIVE);
    let other = locks.request_lock(OTHER_AGENT, &longer, EXCLUSIVE);
    assert!(granted(&mut locks).eq([holder, other]));
    assert!(locks.snapshot_lock_state().any(|entry| !entry.is_held && *entry.name == long));

    locks.release_lock(holder);
    assert!(granted(&mut locks).eq([waiter]));
}

fn name(name: &str) -> ResourceName {
    ResourceName::try_from(name).expect("no hyphen in front")
}

/// What has happened, oldest first.
fn events(locks: &mut LockManager) -> impl Iterator<Item = Event> {
    iter::from_fn(|| locks.poll_event())
}

/// Who was granted a lock, in order, when nothing else has happened.
fn granted(locks: &mut LockManager) -> impl Iterator<Item = RequestId> {
    events(locks).map(|event| match event {
        Event::Granted(id) => id,
        other => panic!("{other:?}"),
    })
}
