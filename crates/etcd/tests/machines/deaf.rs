//! Owners that do not hear what others want: whoever wants a name of theirs waits, and nobody holds the
//! name beside another.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{LockManager, blocking::block_on_timeout};
use navlock_etcd::EtcdOptions;

use super::{
    exclusive,
    owning::{beside, own, until},
    proxy::Proxy,
    soon, until_waiting,
};
use crate::server::{DEADLINE, Server, connect, revision};

/// A look at an owner that cannot hear takes less than half of this. So a thief that does not wait for the
/// end of the term comes while the owner still grants.
const TIME_TO_LIVE: Duration = Duration::from_secs(6);

/// An owner behind a cable, and another machine.
fn owner_and_other(server: &Server, cable: &Proxy) -> [LockManager; 2] {
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE);
    let owner = connect(&options(cable.endpoint()).keep_names(1));
    let other = connect(&options(server.endpoint()).keep_names(0));
    [owner, other].map(|machine| machine.lock_manager("bucket"))
}

/// Takes a name that its machine owns as often as it can, until somebody else has held it for a while.
/// Nobody holds it beside another.
fn take_until_stolen(locks: &LockManager, is_held: &AtomicBool, is_stolen: &AtomicBool) {
    let (mut taken, mut afterwards) = (0, 0);
    while afterwards < 1000 {
        afterwards += u32::from(is_stolen.load(SeqCst));
        // A machine that has lost its lease and is cut off does not answer.
        let tried = block_on_timeout(locks.lock("db").if_available(), Duration::from_millis(1));
        let Some(Ok(Some(guard))) = tried else { continue };
        assert!(!is_held.swap(true, SeqCst), "it is granted beside the thief");
        taken += 1;
        is_held.store(false, SeqCst);
        drop(guard);
    }
    assert!(taken > 0, "it is never taken");
}

/// Steals a name that its owner takes all the time.
#[track_caller]
fn steal_from(owner: &LockManager, other: &LockManager) {
    let (is_held, is_stolen) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let taking = scope.spawn(|| take_until_stolen(&beside(owner), &is_held, &is_stolen));
        let thief = soon(other.lock("db").steal()).unwrap();
        // Whoever takes it from now on holds it beside the thief.
        while is_held.swap(true, SeqCst) {}
        is_stolen.store(true, SeqCst);
        taking.join().unwrap();
        assert!(!thief.is_lost());
    });
}

#[test]
fn nobody_holds_a_name_beside_the_thief_of_an_owner_that_is_cut_off() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let [a, b] = owner_and_other(&server, &cable);
    own(&a, "db");
    own(&a, "held");
    let held = exclusive(&a, "held");
    cable.cut();
    thread::scope(|scope| {
        let robbing = scope.spawn(|| {
            let robber = soon(b.lock("held").steal()).unwrap();
            assert!(held.is_lost(), "it is told after its thief");
            assert!(robber.fencing_token() > held.fencing_token());
        });
        steal_from(&a, &b);
        robbing.join().unwrap();
    });
}

#[test]
fn nobody_holds_a_name_beside_the_thief_of_an_owner_whose_watch_hangs() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let [a, b] = owner_and_other(&server, &cable);
    own(&a, "db");
    cable.hang_watches();
    steal_from(&a, &b);
}

#[test]
fn an_owner_whose_watch_hangs_gives_up_what_others_wait_for() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let [a, b] = owner_and_other(&server, &cable);
    own(&a, "db");
    let guard = exclusive(&a, "db");
    cable.hang_watches();
    let before = revision(&server);
    thread::scope(|scope| {
        let waits = scope.spawn(|| exclusive(&b, "db"));
        // The request, the question and the answer to it.
        until(|| (revision(&server) >= before + 3).then_some(()));
        let token = guard.fencing_token();
        drop(guard);
        assert!(waits.join().unwrap().fencing_token() > token);
    });
}

/// Takes a name again and again until this is over. Counts the grants of which etcd was asked.
fn take_until(locks: &LockManager, is_over: &AtomicBool, asked: &AtomicU64) {
    let mut request = locks.lock("db").into_future();
    while !is_over.load(SeqCst) {
        // The request is kept: one that is dropped leaves the queue.
        let Some(guard) = block_on_timeout(&mut request, Duration::from_millis(20)) else {
            continue;
        };
        // What an owner grants has a number behind the revision.
        let is_etcds = guard.unwrap().fencing_token().get().trailing_zeros() >= 20;
        asked.fetch_add(u64::from(is_etcds), SeqCst);
        request = locks.lock("db").into_future();
    }
}

#[test]
fn an_owner_whose_watch_hangs_overtakes_only_with_what_was_asked_before() {
    const CLIENTS: u64 = 5;
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let [a, b] = owner_and_other(&server, &cable);
    own(&a, "db");
    cable.hang_watches();
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| take_until(&beside(&a), &is_over, &asked));
        }
        // The owner reads its mailbox in each third of its time to live.
        let (since, most) = (Instant::now(), 2 * TIME_TO_LIVE);
        let granted = block_on_timeout(b.lock("db"), DEADLINE);
        let (waited, before) = (since.elapsed(), asked.load(SeqCst));
        is_over.store(true, SeqCst);
        drop(granted.expect("it is granted").unwrap());
        assert!(waited < most, "it has waited for {waited:?}");
        assert!(before <= CLIENTS, "{before} have overtaken it");
    });
}

#[test]
fn a_machine_whose_watch_hangs_finds_that_its_request_is_the_next() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE).keep_names(0);
    let [a, b] = [cable.endpoint(), server.endpoint()].map(|endpoint| connect(&options(endpoint)));
    let [a, b] = [a, b].map(|machine| machine.lock_manager("bucket"));
    let guard = exclusive(&a, "db");
    cable.hang_watches();
    thread::scope(|scope| {
        let next = scope.spawn(|| exclusive(&beside(&a), "db"));
        until_waiting(&b, 1);
        let last = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&b, 2);
        let since = Instant::now();
        drop(guard);
        drop(next.join().unwrap());
        drop(last.join().unwrap());
        let waited = since.elapsed();
        assert!(waited < TIME_TO_LIVE, "it has waited for {waited:?}");
    });
}

#[test]
fn a_request_that_does_not_wait_is_answered_beside_a_thief_that_does() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let [a, b] = owner_and_other(&server, &cable);
    own(&a, "db");
    let before = revision(&server);
    cable.cut();
    thread::scope(|scope| {
        let robbing = scope.spawn(|| soon(b.lock("db").steal()).unwrap());
        // The thief has asked the owner.
        until(|| (revision(&server) > before).then_some(()));
        assert!(soon(b.lock("db").if_available()).unwrap().is_none());
        assert!(!robbing.is_finished(), "it is told after the thief");
        drop(robbing.join().unwrap());
    });
}
