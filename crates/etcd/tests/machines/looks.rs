//! Looks at names that a machine owns, and tries to have them, after which they are the machine's still.

use navlock_core::{Error, LockManager};
use navlock_etcd::EtcdOptions;

use super::{
    exclusive,
    owned::MINUTE,
    owning::{asked, beside, machines, own, owner_at, owning, poll, until},
    soon,
};
use crate::server::{Server, connect, revision};

/// Whether the name is taken without etcd.
pub(super) fn is_own(locks: &LockManager, name: &str) -> bool {
    poll(&mut locks.lock(name).into_future())
}

#[test]
fn a_query_through_the_owner_shows_what_only_it_knows_and_writes_nothing() {
    let server = Server::start();
    let a = owner_at(&server.endpoint(), "navlock");
    let next = beside(&a);
    for name in ["db", "read", "idle"] {
        own(&a, name);
    }
    let guard = exclusive(&a, "db");
    let waiting = asked(&next, "db");
    let readers = [&a, &next].map(|by| soon(by.lock("read").shared()).unwrap());
    let before = revision(&server);
    for _ in 0..3 {
        let seen = soon(a.inspect(None)).unwrap();
        let [held, ..] = &*seen.held else { panic!("{seen:?}") };
        assert_eq!(held.lock.client_id, a.client_id());
        assert_eq!(held.fencing_token, Some(guard.fencing_token()));
        let [pending] = &*seen.pending else { panic!("{seen:?}") };
        assert_eq!(pending.lock.client_id, next.client_id());
        assert_eq!(seen.held.len(), 3, "{seen:?}");
        let snapshot = soon(next.query()).unwrap();
        assert_eq!((snapshot.held.len(), snapshot.pending.len()), (3, 1), "{snapshot:?}");
        let one = soon(next.inspect(Some("read".try_into().unwrap()))).unwrap();
        assert_eq!((one.held.len(), one.pending.len()), (2, 0), "{one:?}");
    }
    drop(guard);
    drop((soon(waiting).unwrap(), readers));
    assert!(["db", "read", "idle"].iter().all(|name| is_own(&a, name)));
    assert_eq!(soon(a.query()).unwrap().held.len(), 0);
    assert_eq!(revision(&server), before);
}

#[test]
fn a_query_sees_what_its_machine_has_just_done_with_names_of_its_own_and_with_others() {
    let [a, b] = owning("own");
    // Etcd has the other name, and revisions that the machine does not hear of at once.
    for nth in 0..30 {
        let outer = exclusive(&a, "own");
        let inner = exclusive(&a, &format!("other-{nth}"));
        drop(exclusive(&b, "noise"));
        // Etcd knows what this machine has released once it has answered.
        soon(b.inspect(Some("noise".try_into().unwrap()))).unwrap();
        assert_eq!(soon(a.query()).unwrap().held.len(), 2);
        drop(outer);
        assert_eq!(soon(a.query()).unwrap().held.len(), 1);
        drop(inner);
        assert_eq!(soon(a.query()).unwrap().held.len(), 0);
    }
    assert!(is_own(&a, "own"));
}

#[test]
fn a_query_during_an_outage_takes_no_name_from_its_owner() {
    let server = Server::start();
    let options = EtcdOptions::new([server.endpoint()]).time_to_live(MINUTE).keep_names(1);
    let a = connect(&options).lock_manager("bucket");
    own(&a, "db");
    let guard = exclusive(&a, "db");
    server.stop();
    let failed = soon(a.query());
    assert!(matches!(failed, Err(Error::Unreachable(_))), "{failed:?}");
    assert!(!guard.is_lost());
    drop(guard);
    assert!((0..10).all(|_| is_own(&a, "db")));
    server.go_on();
    assert_eq!(soon(a.query()).unwrap().held.len(), 0);
    assert!(is_own(&a, "db"));
}

#[test]
fn a_request_that_does_not_wait_leaves_a_name_that_is_held_with_its_owner() {
    let [a, b] = owning("db");
    let other = beside(&b);
    let guard = exclusive(&a, "db");
    for by in [&b, &other, &b] {
        assert!(soon(by.lock("db").if_available()).unwrap().is_none());
        assert!(soon(by.lock("db").shared().if_available()).unwrap().is_none());
        // Whoever was refused asks who holds it.
        let position = soon(by.position("db".try_into().unwrap())).unwrap();
        assert_eq!((position.holders, position.ahead), (1, None));
    }
    assert!(!guard.is_lost());
    drop(guard);
    assert!(is_own(&a, "db"));
    // Once nobody holds it, it is given up. An owner that is slow to say so counts as one who holds it.
    drop(until(|| soon(b.lock("db").if_available()).unwrap()));
}

#[test]
fn a_request_that_does_not_wait_leaves_a_name_that_is_shared_with_its_owner() {
    let [a, b] = owning("db");
    let other = beside(&b);
    let reader = soon(a.lock("db").shared()).unwrap();
    for by in [&b, &other, &b] {
        assert!(soon(by.lock("db").if_available()).unwrap().is_none());
    }
    drop(reader);
    assert!(is_own(&a, "db"));
    // Whoever can share it has it.
    let reader = soon(a.lock("db").shared()).unwrap();
    let beside = until(|| soon(b.lock("db").shared().if_available()).unwrap());
    assert!(soon(other.lock("db").if_available()).unwrap().is_none());
    assert!(!reader.is_lost());
    drop((reader, beside));
}

#[test]
fn many_requests_of_a_machine_that_do_not_wait_ask_the_owner_together() {
    const MANY: u64 = 100;
    let server = Server::start();
    let [a, b] = [(); 2].map(|()| owner_at(&server.endpoint(), "navlock"));
    own(&a, "db");
    let guard = exclusive(&a, "db");
    // The first one gets a lease.
    assert!(soon(b.lock("db").if_available()).unwrap().is_none());
    let before = revision(&server);
    let mut tries: Vec<_> = (0..MANY).map(|_| b.lock("db").if_available().into_future()).collect();
    assert!(tries.iter_mut().all(|tried| !poll(tried)));
    assert!(tries.into_iter().all(|tried| soon(tried).unwrap().is_none()));
    let asked = revision(&server) - before;
    assert!(asked < MANY, "{asked} writes");
    drop(guard);
    assert!(is_own(&a, "db"));
}

#[test]
fn a_request_that_does_not_wait_is_not_told_of_a_lock_that_had_ended_before() {
    let [a, b, c] = machines();
    for nth in 0..20 {
        let name = &*format!("db-{nth}");
        own(&a, name);
        let guard = exclusive(&a, name);
        let mut tries = [&b, &c].map(|by| by.lock(name).if_available().into_future());
        assert!(tries.iter_mut().all(|tried| !poll(tried)));
        drop(guard);
        // These have asked before, and may be told of either.
        let mut had = tries.into_iter().filter_map(|tried| soon(tried).unwrap()).count();
        had += usize::from(soon(b.lock(name).if_available()).unwrap().is_some());
        assert!(had > 0, "{name} is free");
    }
}
