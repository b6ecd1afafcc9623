//! Going on with what a process had that was killed: another connection does so for its clients.

use std::{
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    ClientId, LockFuture, LockGuard, LockManager, Mode, NestedRequest, UserAgent,
    host::{self, Claim, RequestKind},
};

use super::{exclusive, proxy::Proxy, soon, state, until_waiting};
use crate::server::{DEADLINE, Server, connect, options};

const TIME_TO_LIVE: Duration = Duration::from_secs(10);

/// Of each server, which no other test uses.
const NAMESPACE: &str = "navlock";

/// A machine on which a process is killed: to the store it is one that is not heard of any more.
struct Killed {
    client: ClientId,
    cable: Proxy,
    user_agent: UserAgent,
    locks: LockManager,
}

impl Killed {
    fn of(server: &Server) -> Self {
        let (client, cable) = (ClientId::random(), Proxy::to(server.port()));
        let options = options(&cable.endpoint(), NAMESPACE).time_to_live(TIME_TO_LIVE);
        let user_agent = connect(&options);
        let locks = host::lock_manager_as(&user_agent.bucket("bucket"), client);
        Self { client, cable, user_agent, locks }
    }

    /// Another process, for the same client.
    fn next(&self, server: &Server) -> LockManager {
        self.cable.cut();
        host::lock_manager_as(&machine(server).bucket("bucket"), self.client)
    }
}

fn machine(server: &Server) -> UserAgent {
    connect(&options(&server.endpoint(), NAMESPACE).time_to_live(TIME_TO_LIVE))
}

/// Of a lock.
fn claim(guard: &LockGuard) -> Claim {
    let (name, token) = (guard.name().clone(), Some(guard.fencing_token()));
    Claim { serial: guard.id().serial, name, kind: RequestKind::Wait(guard.mode()), token }
}

/// Of a request with this number that waits.
fn claim_waiting(name: &str, serial: u64) -> Claim {
    let (name, kind) = (name.try_into().unwrap(), RequestKind::Wait(Mode::Exclusive));
    Claim { serial, name, kind, token: None }
}

fn reclaim(
    locks: &LockManager,
    claims: Vec<Claim>,
) -> Vec<Option<LockFuture<'static, Option<LockGuard>>>> {
    soon(host::reclaim(locks, claims)).unwrap()
}

#[test]
fn locks_and_places_are_gone_on_with_by_another_process() {
    let server = Server::start();
    let killed = Killed::of(&server);
    let other = machine(&server).lock_manager("bucket");
    let held = host::with_serial(NestedRequest::of(killed.locks.lock("held")), 76);
    let held = soon(held.into_future()).unwrap();
    let taken = exclusive(&other, "taken");
    let waits = host::with_serial(NestedRequest::of(killed.locks.lock("taken")), 77);
    let mut waits = Box::pin(waits.into_future());
    let waker = std::task::Waker::noop();
    assert!(waits.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    until_waiting(&other, 1);

    let next = killed.next(&server);
    let claims = vec![claim(&held), claim_waiting("taken", 77), claim_waiting("never", 78)];
    let [lock, place, nothing] = reclaim(&next, claims).try_into().unwrap();
    assert!(nothing.is_none());
    let again = soon(lock.expect("it is there")).unwrap().unwrap();
    assert_eq!(again.fencing_token(), held.fencing_token());
    assert!(
        host::backend(&next).is_ok_and(|(backend, agent)| backend.ends(agent).is_some())
            && next.term().is_some()
    );

    thread::scope(|scope| {
        let after = scope.spawn(|| exclusive(&other, "taken"));
        until_waiting(&other, 2);
        // Longer than a lease that nobody keeps.
        thread::sleep(TIME_TO_LIVE + Duration::from_secs(2));
        assert!(!again.is_lost());
        assert!(held.is_lost(), "who was killed does not go on");
        drop(taken);
        let place = soon(place.expect("it is there")).unwrap().unwrap();
        assert!(soon(other.lock("held").if_available()).unwrap().is_none());
        drop(place);
        drop(after.join().unwrap());
    });
    drop(again);
    assert!(soon(next.lock("held").if_available()).unwrap().is_some());
    drop((waits, killed.user_agent));
}

#[test]
fn a_lock_that_is_not_claimed_is_free_at_once() {
    let server = Server::start();
    let killed = Killed::of(&server);
    let other = machine(&server).lock_manager("bucket");
    let (kept, _left) = (exclusive(&killed.locks, "kept"), exclusive(&killed.locks, "left"));
    let next = killed.next(&server);
    let since = Instant::now();
    let found = reclaim(&next, vec![claim(&kept)]);
    assert!(found[0].is_some());
    drop(exclusive(&other, "left"));
    assert!(since.elapsed() < TIME_TO_LIVE, "not by the end of the lease");
    drop(found);
    drop(exclusive(&other, "kept"));
    assert_eq!(state(&other), (vec![], vec![]));
}

#[test]
fn a_lock_that_is_reclaimed_for_nobody_is_free_at_once() {
    let server = Server::start();
    let killed = Killed::of(&server);
    let other = machine(&server).lock_manager("bucket");
    let (_kept, held) = (exclusive(&killed.locks, "kept"), exclusive(&killed.locks, "held"));
    killed.cable.cut();
    let next = machine(&server);
    let bucket = next.bucket("bucket");
    let gives_up = host::lock_manager_as(&bucket, killed.client);
    let claims = vec![claim(&held)];
    let mut reclaimed = Box::pin(host::reclaim(&gives_up, claims));
    let waker = std::task::Waker::noop();
    assert!(reclaimed.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    // It is answered before who asks after it is.
    assert!(reclaim(&bucket.lock_manager(), Vec::new()).is_empty());
    drop(reclaimed);
    let since = Instant::now();
    drop(exclusive(&other, "held"));
    assert!(since.elapsed() < TIME_TO_LIVE, "not by the end of the lease");
    // It goes on, and takes nothing from others.
    let ours = exclusive(&bucket.lock_manager(), "ours");
    drop(exclusive(&gives_up, "held"));
    assert!(!ours.is_lost());
}

#[test]
fn a_lock_that_ended_with_its_lease_is_not_found() {
    let server = Server::start();
    let killed = Killed::of(&server);
    let other = machine(&server).lock_manager("bucket");
    let held = exclusive(&killed.locks, "db");
    let next = killed.next(&server);
    drop(exclusive(&other, "db"));
    let found = reclaim(&next, vec![claim(&held)]);
    assert!(found[0].is_none());
    let since = Instant::now();
    while soon(next.lock("db").if_available()).unwrap().is_none() {
        assert!(since.elapsed() < DEADLINE);
    }
}

#[test]
fn a_lease_is_gone_on_with_in_its_last_second() {
    let server = Server::start();
    // Where the machine is busy the lease may be over before that is done.
    let kept = (0..8).any(|_| {
        let killed = Killed::of(&server);
        let held = exclusive(&killed.locks, "db");
        let next = killed.next(&server);
        let (backend, agent) = host::backend(&killed.locks).unwrap();
        let lease = backend.lease(agent).unwrap();
        let lease = i64::from_be_bytes(lease[8..16].try_into().unwrap());
        let since = Instant::now();
        while !server.is_in_its_last_second(lease, NAMESPACE) {
            assert!(since.elapsed() < DEADLINE, "it is renewed");
        }
        let mut found = reclaim(&next, vec![claim(&held)]);
        let lock = found[0].take();
        lock.is_some_and(|lock| soon(lock).is_ok_and(|guard| guard.is_some()))
    });
    assert!(kept, "it was there");
}
