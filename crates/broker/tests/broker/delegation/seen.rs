//! What is seen of names that are owned.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::Duration,
};

use navlock_core::{ClientId, Lost, Mode, host::RequestKind};
use navlock_delegation::Released;
use navlock_wire::{FromDaemon, ToDaemon};

use super::{Client, EXCLUSIVE, Host, SHARED};
use crate::daemon::eventually;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_snapshot_shows_what_is_held_and_not_what_is_owned() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.own(0, "idle", EXCLUSIVE);
    owner.own(1, "taken again", EXCLUSIVE);
    owner.take_in(2, "held", EXCLUSIVE);
    // Two locks that cannot be told apart, of which one is held.
    owner.own(3, "twice", SHARED);
    owner.take_in(4, "twice", SHARED);
    assert!(owner.retake(1).is_some());
    let (held, pending) = other.query();
    assert_eq!((held, pending), (names(&["taken again", "held", "twice"]), names(&[])));
    let (status, _) = other.status();
    assert_eq!((status.numbers.held, status.numbers.pending), (3, 0));
    // To look at the names takes none of them away from the owner.
    assert!(owner.retake(0).is_some());
    assert_eq!(owner.release(1), Released::Kept);
}

#[test]
fn an_inspection_shows_owned_names_apart_and_holds_as_their_map_tells() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.own(0, "idle", EXCLUSIVE);
    for _ in 0..3 {
        assert!(owner.retake(0).is_some());
        assert_eq!(owner.release(0), Released::Kept);
    }
    owner.own(1, "held", SHARED);
    let token = owner.retake(1).unwrap();
    let (held, idle) = other.inspect();
    let [held] = &held[..] else { panic!("{held:?}") };
    assert_eq!(held.lock.name.as_str(), Some("held"));
    assert_eq!(held.fencing_token, Some(token));
    let [idle] = &idle[..] else { panic!("{idle:?}") };
    let entry = &idle.lock;
    assert_eq!((entry.name.as_str(), entry.mode), (Some("idle"), Mode::Exclusive));
    assert_eq!((entry.client_id, idle.taken), (ClientId::from_bytes([1; 16]), 3));
}

#[test]
fn nobody_stands_before_who_asks_for_its_place_in_a_queue_that_is_only_owned() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.own(0, "db", EXCLUSIVE);
    let position = || ToDaemon::Position {
        query: 3,
        bucket: "app".into(),
        name: "db".try_into().unwrap(),
        client_id: [2; 16],
    };
    let holders = |other: &mut Client| {
        other.raw.say(&[position()]);
        let (holders, _) = other.raw.receive_until(|message| match message {
            FromDaemon::Position { position, .. } => {
                Some((position.holders, position.holder.is_some()))
            }
            _ => None,
        });
        holders
    };
    assert_eq!(holders(&mut other), (0, false));
    assert!(owner.retake(0).is_some());
    assert_eq!(holders(&mut other), (1, true));
}

#[test]
fn a_daemon_says_how_often_names_were_taken_without_asking_and_recalled() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    let of = |host: &Host| host.detail("owned names").unwrap();
    assert_eq!(of(&host), "0 (taken again 0 times, recalled 0 times)");
    for slot in 0..3 {
        owner.own(slot, &format!("db {slot}"), EXCLUSIVE);
    }
    for slot in [0, 0, 1] {
        assert!(owner.retake(slot).is_some());
        assert_eq!(owner.release(slot), Released::Kept);
    }
    assert_eq!(of(&host), "3 (taken again 3 times, recalled 0 times)");
    other.take("db 0", EXCLUSIVE);
    assert_eq!(of(&host), "2 (taken again 3 times, recalled 1 times)");
    drop(owner);
    // When this is granted, the daemon has noticed that the owner has gone.
    other.take("db 1", EXCLUSIVE);
    eventually("it is noticed", || of(&host).starts_with("0 (taken again 3 times"));
}

#[test]
fn a_snapshot_is_of_one_moment_although_owners_never_rest() {
    const ROUNDS: u64 = 50;
    // So many names that the owner goes from one to the next while the daemon looks at them.
    const NAMES: u32 = 60;
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    let own = |owner: &mut Client, slot| owner.own(slot, &format!("{slot}"), EXCLUSIVE);
    let mut requests: Vec<_> = (0..NAMES).map(|slot| own(&mut owner, slot)).collect();
    let (ended, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    for _ in 0..ROUNDS {
        let told = thread::scope(|scope| {
            // Never two at once: the next is taken when this one is released.
            let busy = || {
                let mut slots = (0..NAMES).cycle();
                while !ended.load(SeqCst) {
                    let slot = slots.next().unwrap();
                    let has = owner.retake(slot).is_some();
                    taken.fetch_add(1, SeqCst);
                    if has && owner.release(slot) != Released::Kept {
                        return Some(slot);
                    }
                }
                None
            };
            let busy = scope.spawn(busy);
            let before = taken.load(SeqCst);
            while taken.load(SeqCst) == before && !busy.is_finished() {
                thread::yield_now();
            }
            let (held, _) = other.query();
            ended.store(true, SeqCst);
            assert!(held.len() < 2, "{held:?} were never held together");
            busy.join().unwrap()
        });
        if let Some(slot) = told {
            owner.finish(requests[slot as usize]);
        }
        ended.store(false, SeqCst);
        // Names that were recalled meanwhile are asked for anew.
        for slot in 0..NAMES {
            if owner.look(slot).is_recalled() || owner.look(slot).is_free() {
                owner.slot(slot).word().clear();
                requests[slot as usize] = own(&mut owner, slot);
            }
        }
    }
}

#[test]
fn a_thousand_owned_names_are_none_that_are_held() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    while owner.map.as_ref().unwrap().slots() < 1000 {
        owner.map.as_ref().unwrap().grow().unwrap();
    }
    for slot in 0..1000 {
        owner.own(slot, &format!("{slot}"), EXCLUSIVE);
    }
    assert_eq!(other.query().0.len(), 0);
    assert_eq!(other.inspect().0.len(), 0);
    other.raw.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let inspect = ToDaemon::Inspect { query: 6, bucket: "app".into(), name: None };
    other.raw.say(&[inspect]);
    let (last, parts) = other.raw.receive_until(|message| match message {
        FromDaemon::Inspection { owned, last: true, .. } => Some(owned.len()),
        _ => None,
    });
    let shown = parts.iter().map(|part| match part {
        FromDaemon::Inspection { owned, .. } => owned.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(last + shown.sum::<usize>(), 1000);
    for slot in 0..1000 {
        assert!(owner.retake(slot).is_some());
    }
}

#[test]
fn a_theft_is_told_also_if_somebody_looks_before_the_victim_has_its_turn() {
    let host = Host::start();
    let (mut owner, mut thief) = (host.owner(1), host.owner(2));
    let (held, _) = owner.take_in(0, "db", EXCLUSIVE);
    let (request, name) = (thief.number(), "db".try_into().unwrap());
    let query = ToDaemon::Query { query: 5, bucket: "app".into() };
    thief.raw.say(&[
        ToDaemon::Request { agent: 0, request, name, kind: RequestKind::Steal, slot: Some(0) },
        query,
    ]);
    let (held_by, _) = thief.raw.receive_until(|message| match message {
        FromDaemon::Snapshot { held, .. } => Some(held.clone()),
        _ => None,
    });
    assert_eq!(
        held_by.iter().map(|one| one.client_id).collect::<Vec<_>>(),
        [ClientId::from_bytes([2; 16])]
    );
    let how = (Lost::Stolen, Some(ClientId::from_bytes([2; 16])));
    assert_eq!(owner.raw.receive(), FromDaemon::Lost { request: held, how });
}
