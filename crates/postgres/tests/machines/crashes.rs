//! A PostgreSQL that crashes has lost everything that was locked. The machines put it back.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    ClientId, LockGuard, LockManager, LockManagerSnapshot,
    host::{self, Claim, RequestKind},
};
use navlock_postgres::PostgresOptions;

use super::{exclusive, machines_with, settle, soon, state, until_waiting, witness::Witness};
use crate::{
    proxy::Proxy,
    server::{DEADLINE, Server, connect, options},
};

/// Longer than it takes to start PostgreSQL: no lease ends by the clock.
const LONG: Duration = Duration::from_secs(20);

/// What is held stays held, also by names that a machine owns, and whoever waits waits on, in the same order.
fn a_crash_loses_nothing(taken: u32) {
    let mut server = Server::start();
    let options = server.fresh().time_to_live(LONG).keep_names(taken);
    let [a, b, c] = machines_with(&options);
    let held = exclusive(&a, "db");
    let alone = exclusive(&b, "alone");
    let shared: Vec<LockGuard> =
        [&a, &c].map(|locks| soon(locks.lock("both").shared()).unwrap()).into();
    thread::scope(|scope| {
        let second = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&c, 1);
        let third = scope.spawn(|| exclusive(&c, "db"));
        until_waiting(&c, 2);
        let last = alone.fencing_token();
        server.restart();
        // A look waits for the end of the recovery.
        let seen = soon(b.query()).unwrap();
        assert_eq!((seen.held.len(), seen.pending.len()), (4, 2), "{seen:?}");
        for guard in shared.iter().chain([&held, &alone]) {
            assert!(!guard.is_lost(), "{guard:?}");
        }
        assert!(soon(c.lock("both").if_available()).unwrap().is_none());
        assert!(!second.is_finished() && !third.is_finished());
        drop(held);
        let second = second.join().unwrap();
        assert!(second.fencing_token() > last);
        assert!(!third.is_finished());
        drop(second);
        drop(third.join().unwrap());
    });
    drop((alone, shared));
    drop(exclusive(&a, "both"));
}

#[test]
fn a_crash_of_the_server_loses_no_lock() {
    a_crash_loses_nothing(0);
}

#[test]
fn a_crash_of_the_server_loses_no_name_that_a_machine_owns() {
    a_crash_loses_nothing(1);
}

/// What a machine that is gone has held is free when its lease is over, and nothing is granted or shown before that.
/// Whoever waits for that ends the lease, also somebody who holds nothing.
#[test]
fn a_machine_that_is_gone_is_waited_for_after_a_crash() {
    for is_asking in [true, false] {
        let mut server = Server::start();
        let options = server.fresh().time_to_live(Duration::from_secs(3)).keep_names(0);
        let [locks] = machines_with(&options);
        // Nobody keeps it.
        let begin = "select begin_lease(enlist(3000)::bigint, 3000)";
        let added = server.psql(&format!("set search_path = {}; {begin}", options.schema_name()));
        assert!(added.status.success(), "{added:?}");
        server.restart();
        let since = Instant::now();
        if is_asking {
            drop(exclusive(&locks, "db"));
        } else {
            look(&locks);
        }
        let waited = since.elapsed();
        assert!(waited > Duration::from_millis(2500), "{waited:?}");
    }
}

#[test]
fn a_machine_that_comes_while_the_server_is_started_waits_for_that() {
    let mut server = Server::start();
    let options = server.fresh().timeout(DEADLINE);
    server.kill();
    thread::scope(|scope| {
        let comes = scope.spawn(|| connect(&options).lock_manager("bucket"));
        server.restart();
        drop(exclusive(&comes.join().unwrap(), "db"));
    });
}

/// Ends the work of others when this is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Crash after crash, under load: one holder at a time, no token twice, nobody is stuck, and no lock is lost.
#[test]
fn crash_after_crash_nobody_is_beside_a_holder() {
    for taken in [0, 2] {
        let mut server = Server::start();
        let options = server.fresh().time_to_live(LONG).keep_names(taken);
        let machines: [_; 3] = machines_with(&options);
        let (witness, is_over) = (Witness::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            for locks in &machines {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            witness.enter(exclusive(locks, "db"), Duration::from_millis(1));
                        }
                    });
                }
            }
            // Also if nobody is granted anything any more.
            let over = Over(&is_over);
            for _ in 0..5 {
                witness.until_more(50);
                server.restart();
            }
            drop(over);
        });
        assert_eq!(witness.losses(), 0);
    }
}

/// What a process had that was killed, and with which another one goes on, is that one's to put back.
#[test]
fn a_crash_loses_nothing_of_what_another_process_has_gone_on_with() {
    let mut server = Server::start();
    let (client, cable) = (ClientId::random(), Proxy::to(server.port()));
    let machine =
        |endpoint: &str| connect(&options(endpoint, "navlock").time_to_live(LONG).keep_names(0));
    let killed = machine(&cable.endpoint());
    let locks = host::lock_manager_as(&killed.bucket("bucket"), client);
    let held = exclusive(&locks, "db");
    cable.cut();
    let next = host::lock_manager_as(&machine(&server.endpoint()).bucket("bucket"), client);
    let (name, token) = (held.name().clone(), Some(held.fencing_token()));
    let kind = RequestKind::Wait(held.mode());
    let claim = Claim { serial: held.id().serial, name, kind, token };
    let mut found = soon(host::reclaim(&next, vec![claim])).unwrap();
    let again = soon(found.remove(0).expect("it is there")).unwrap().unwrap();
    server.restart();
    let [other] = machines_with(&options(&server.endpoint(), "navlock").time_to_live(LONG));
    assert_eq!(look(&other).held.len(), 1);
    assert!(!again.is_lost());
    assert!(soon(other.lock("db").if_available()).unwrap().is_none());
    drop((again, killed));
}

/// A lock of whose grant nobody has heard at first is found by the next try, and put back like any other.
#[test]
fn a_crash_loses_no_lock_whose_answer_was_lost() {
    let mut server = Server::start();
    let cable = Proxy::to(server.port());
    let options = |endpoint: &str| options(endpoint, "navlock").time_to_live(LONG).keep_names(0);
    let [locks] = machines_with(&options(&cable.endpoint()));
    let [other] = machines_with(&options(&server.endpoint()));
    // It has a lease.
    drop(exclusive(&locks, "before"));
    settle(&locks);
    cable.lose_answers(true);
    let held = thread::scope(|scope| {
        let held = scope.spawn(|| exclusive(&locks, "db"));
        let since = Instant::now();
        while state(&other).0.is_empty() {
            assert!(since.elapsed() < DEADLINE, "it is never asked for");
        }
        cable.lose_answers(false);
        held.join().unwrap()
    });
    server.restart();
    assert_eq!(look(&other).held.len(), 1);
    assert!(!held.is_lost());
    assert!(soon(other.lock("db").if_available()).unwrap().is_none());
}

/// A replica of this server, and the options by which machines reach whichever of both is the primary.
fn replicated(server: &Server) -> (Server, PostgresOptions) {
    let options = server.fresh();
    let replica = server.replica();
    let url = format!(
        "postgres://navlock@{},{}/postgres?target_session_attrs=read-write",
        server.endpoint(),
        replica.endpoint()
    );
    let options = PostgresOptions::new(url)
        .schema(options.schema_name())
        .time_to_live(Duration::from_secs(8))
        .keep_names(0);
    (replica, options)
}

fn promote(replica: &Server) {
    let promoted = replica.psql("select pg_promote()");
    assert!(promoted.status.success(), "{promoted:?}");
}

/// Looks until the recovery is over: a look does not wait as long as that.
#[track_caller]
fn look(locks: &LockManager) -> LockManagerSnapshot {
    let since = Instant::now();
    loop {
        match soon(locks.query()) {
            Ok(seen) => return seen,
            Err(error) => assert!(since.elapsed() < DEADLINE, "{error}"),
        }
    }
}

/// A replica that is promoted has nothing of what was locked, and may not know of all machines.
#[test]
fn a_replica_that_is_promoted_goes_on_with_all_locks() {
    let mut server = Server::start();
    let (mut replica, options) = replicated(&server);
    let [a] = machines_with(&options);
    let held = exclusive(&a, "db");
    let before = held.fencing_token();
    // From here on it hears of nothing, and so not of this machine.
    replica.kill();
    let [b] = machines_with(&options);
    let unknown = exclusive(&b, "of whom it does not know");
    thread::scope(|scope| {
        let next = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&a, 1);
        server.kill();
        replica.restart();
        promote(&replica);
        let since = Instant::now();
        let seen = look(&b);
        // Somebody of whom it does not know may hold something.
        let waited = since.elapsed();
        assert!(waited > Duration::from_secs(7), "{waited:?}");
        assert_eq!((seen.held.len(), seen.pending.len()), (2, 1), "{seen:?}");
        assert!(!held.is_lost() && !unknown.is_lost() && !next.is_finished());
        drop(held);
        let next = next.join().unwrap();
        assert!(next.fencing_token() > before);
    });
}

/// It has not become one that knows all machines by a crash.
#[test]
fn a_replica_that_is_promoted_and_crashes_waits_for_whom_it_does_not_know() {
    let mut server = Server::start();
    let (mut replica, options) = replicated(&server);
    let [a] = machines_with(&options);
    let held = exclusive(&a, "db");
    server.kill();
    promote(&replica);
    // A recovery has begun once somebody has asked.
    let _ = soon(a.query());
    replica.restart();
    let since = Instant::now();
    let seen = look(&a);
    assert!(since.elapsed() > Duration::from_secs(7), "{:?}", since.elapsed());
    assert_eq!(seen.held.len(), 1, "{seen:?}");
    assert!(!held.is_lost());
}
