//! Keys that are no locks, and locks whose keys somebody removes.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    FencingToken, Inspected, LockManager, Lost,
    Mode::Exclusive,
    UserAgent,
    blocking::block_on_timeout,
    host::{self, Eviction},
};
use navlock_etcd::{EtcdOptions, Evict, evict, strays};

use super::{
    exclusive,
    owning::{asked, own, owner_at, poll},
    settle, soon, state, until_waiting,
};
use crate::server::{DEADLINE, connect, namespace, shared};

/// A namespace of one's own, and an agent in it.
fn alone() -> (String, EtcdOptions, LockManager) {
    let namespace = namespace();
    let options = EtcdOptions::new([shared().endpoint()]).namespace(&*namespace);
    let locks = connect(&options).lock_manager("bucket");
    (namespace, options, locks)
}

#[track_caller]
fn put(key: &str, value: &str) {
    shared().etcdctl(&["put", key, value]).expect("etcdctl can do it");
}

fn held(locks: &LockManager) -> Vec<Inspected> {
    soon(locks.inspect(None)).unwrap().held
}

#[test]
fn a_key_that_is_neither_a_lock_nor_a_request_is_in_nobodys_way() {
    let (namespace, _, locks) = alone();
    for rest in ["a", "h-", "i/x/mine", "k", "r", ""] {
        put(&format!("{namespace}/6/bucket/l/db/{rest}"), "");
    }
    for _ in 0..2 {
        let guard = soon(locks.lock("db").if_available()).unwrap();
        assert!(guard.is_some_and(|guard| !guard.is_lost()));
    }
    assert!(held(&locks).is_empty());
}

#[test]
fn a_key_that_is_no_lock_is_shown_as_a_holder_and_can_be_evicted() {
    let (namespace, options, locks) = alone();
    let slot = "0".repeat(32) + "-00000000";
    let below = |name: &str, rest: &str| format!("{namespace}/6/bucket/l/{name}/{rest}");
    // Of two names: who keeps one does not look for such keys.
    for (name, key, value, why) in [
        // By hand.
        ("db", below("db", "h/x/mine"), "", "navlock writes no such key"),
        // Of another kind of value, or without a lease.
        ("other", below("other", &format!("h/x/{slot}")), "?", "no lease"),
    ] {
        put(&key, value);
        let [found] = held(&locks).try_into().expect("it is shown");
        assert_eq!((found.lock.name.to_string().as_str(), found.lock.mode), (name, Exclusive));
        let said = &found.agent.as_ref().unwrap().why;
        assert!(said.contains(&key) && said.contains(why), "{said}");
        assert!(soon(locks.lock(name).if_available()).unwrap().is_none());
        let [stray] = strays(&options).unwrap().try_into().expect("it is named");
        assert_eq!(stray.spelled(), key);
        assert!(stray.blocks.as_ref().is_some_and(|blocked| blocked.is_held), "{stray:?}");
        thread::scope(|scope| {
            let waits = scope.spawn(|| exclusive(&locks, name));
            until_waiting(&locks, 1);
            let (bucket, client_id) = ("bucket", found.lock.client_id);
            let what = Evict::Client { bucket, name: &found.lock.name, client_id };
            assert_eq!(evict(&options, &what).unwrap(), [key.as_bytes()]);
            drop(waits.join().unwrap());
            assert!(evict(&options, &what).is_err(), "there is no such thing any more");
        });
        settle(&locks);
        assert_eq!(strays(&options).unwrap(), []);
    }
}

#[test]
fn nobody_is_granted_a_name_that_its_owner_gives_up_beside_a_key_that_is_no_lock() {
    let (namespace, options, other) = alone();
    let locks = owner_at(&shared().endpoint(), &namespace);
    own(&locks, "db");
    let held = format!("{namespace}/6/bucket/l/db/h/");
    let key = format!("{held}x/mine");
    put(&key, "");
    let mut waits = asked(&other, "db");
    let since = Instant::now();
    while shared().etcdctl(&["get", "--prefix", "--keys-only", &held]).unwrap().trim() != key {
        assert!(since.elapsed() < DEADLINE, "it is never given up");
    }
    assert_eq!(state(&other), (vec![Exclusive], vec![Exclusive]));
    assert!(!poll(&mut waits));
    assert_eq!(evict(&options, &Evict::Key(key.as_bytes())).unwrap(), [key.as_bytes()]);
    drop(soon(waits).unwrap());
}

#[test]
fn a_key_that_is_no_request_is_shown_as_one_and_lets_others_pass() {
    let (namespace, options, locks) = alone();
    let key = format!("{namespace}/6/bucket/l/db/q/x/mine");
    put(&key, "");
    assert_eq!(state(&locks), (vec![], vec![Exclusive]));
    drop(exclusive(&locks, "db"));
    assert_eq!(evict(&options, &Evict::Key(key.as_bytes())).unwrap(), [key.as_bytes()]);
    assert_eq!(state(&locks), (vec![], vec![]));
    // What is in nobody's way is named as well.
    put(&format!("{namespace}/x/something"), "");
    let [stray] = strays(&options).unwrap().try_into().unwrap();
    assert_eq!(stray.blocks, None);
    assert!(evict(&options, &Evict::Key(b"elsewhere")).is_err());
}

#[test]
fn a_lock_that_somebody_removes_is_not_said_to_be_stolen() {
    let (_, options, locks) = alone();
    let other = connect(&options).lock_manager("bucket");
    let (removed, kept) = (exclusive(&locks, "removed"), exclusive(&locks, "kept"));
    thread::scope(|scope| {
        let successor = scope.spawn(|| exclusive(&other, "removed"));
        until_waiting(&other, 1);
        let (bucket, client_id) = ("bucket", locks.client_id());
        let name = &"removed".try_into().unwrap();
        evict(&options, &Evict::Client { bucket, name, client_id }).unwrap();
        assert_eq!(soon(removed.lost()), Lost::Removed);
        drop(successor.join().unwrap());
    });
    // Of its agent it is the only one.
    assert!(!kept.is_lost());
    drop(kept);
    // Also of one that has nothing else.
    let guard = exclusive(&other, "db");
    let (bucket, client_id) = ("bucket", other.client_id());
    evict(&options, &Evict::Client { bucket, name: &"db".try_into().unwrap(), client_id }).unwrap();
    assert_eq!(soon(guard.lost()), Lost::Removed);
    drop(exclusive(&other, "db"));
}

/// Takes the name from these, as somebody does who has seen them.
fn take(from: &UserAgent, name: &str, seen: &[&Inspected]) -> Eviction {
    let seen = seen.iter().map(|one| (one.lock.client_id, one.fencing_token.unwrap())).collect();
    soon(host::reach(from).evict("bucket", &name.try_into().unwrap(), seen)).unwrap()
}

#[test]
fn a_name_is_taken_from_those_alone_who_were_seen_to_hold_it() {
    let (_, options, locks) = alone();
    takes_what_was_seen(&connect(&options), &locks, "db");
}

#[test]
fn a_name_is_taken_from_what_is_no_lock_though_its_key_is_spelled_like_one() {
    let (namespace, options, locks) = alone();
    // It has no lease, and what stands there cannot be read.
    for (nth, value) in ["x".repeat(60), String::new()].iter().enumerate() {
        let name = format!("db-{nth}");
        put(&format!("{namespace}/6/bucket/l/{name}/h/x/{:032x}-00000000", 7), value);
        let seen = held(&locks);
        let [one] = &*seen else { panic!("{seen:?}") };
        assert_eq!(take(&connect(&options), &name, &[one]), Eviction::From(1));
        drop(exclusive(&locks, &name));
    }
}

/// Takes what the agent holds by another connection, which is to the same bucket.
pub(crate) fn takes_what_was_seen(by: &UserAgent, locks: &LockManager, name: &str) {
    assert_eq!(take(by, name, &[]), Eviction::Free);
    let readers = [(); 2].map(|()| soon(locks.lock(name).shared()).unwrap());
    let seen = held(locks);
    let [one, other] = &*seen else { panic!("{seen:?}") };
    assert_eq!(take(by, name, &[one]), Eviction::HeldByOthers);
    let mut wrong = one.clone();
    wrong.fencing_token = Some(FencingToken::new(one.fencing_token.unwrap().get() + 1_000));
    assert_eq!(take(by, name, &[&wrong, other]), Eviction::HeldByOthers);
    assert!(readers.iter().all(|guard| !guard.is_lost()));
    thread::scope(|scope| {
        let next = scope.spawn(|| exclusive(locks, name));
        until_waiting(locks, 1);
        assert_eq!(take(by, name, &[other, one]), Eviction::From(2));
        for guard in &readers {
            assert_eq!(soon(guard.lost()), Lost::Removed);
        }
        let guard = next.join().unwrap();
        // That is another lock, of the same agent.
        assert_eq!(take(by, name, &[one, other]), Eviction::HeldByOthers);
        assert!(!guard.is_lost());
    });
    // One who was seen has let go of it, and is none of those from whom it is taken.
    let readers = [(); 2].map(|()| soon(locks.lock(name).shared()).unwrap());
    let seen = held(locks);
    let [gone, stays] = readers;
    drop(gone);
    while held(locks).len() > 1 {}
    assert_eq!(take(by, name, &seen.iter().collect::<Vec<_>>()), Eviction::From(1));
    assert_eq!(soon(stays.lost()), Lost::Removed);
}

#[test]
fn nobody_is_robbed_who_was_not_seen_however_often_the_name_changes_hands_meanwhile() {
    let (_, options, locks) = alone();
    let machines = [locks, connect(&options).lock_manager("bucket")];
    let (by, watcher) = (connect(&options), connect(&options).lock_manager("bucket"));
    let (is_over, robbed) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let mut named = HashSet::new();
    thread::scope(|scope| {
        // The one holds for so short that it hardly ever hears that it was robbed, so that the name
        // changes hands; the other for long enough.
        for (locks, time) in machines.iter().zip([1, 20].map(Duration::from_millis)) {
            let (is_over, robbed) = (&is_over, &robbed);
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    // It may be removed before it is known here that it was had.
                    let Ok(guard) = soon(locks.lock("db")) else { continue };
                    if block_on_timeout(guard.lost(), time).is_some() {
                        robbed.lock().unwrap().push(guard.fencing_token());
                    }
                }
            });
        }
        let mut taken = 0;
        while taken < 200 {
            let seen = held(&watcher);
            named.extend(seen.iter().map(|one| one.fencing_token.unwrap()));
            let all: Vec<_> = seen.iter().collect();
            taken += u32::from(matches!(take(&by, "db", &all), Eviction::From(_)));
        }
        is_over.store(true, SeqCst);
    });
    let robbed = robbed.into_inner().unwrap();
    assert!(!robbed.is_empty());
    assert!(robbed.iter().all(|token| named.contains(token)), "{robbed:?}");
}
