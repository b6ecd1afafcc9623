//! What happens when something breaks. Each test has an etcd of its own.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, LockManager, LockState, Lost, UserAgent};
use navlock_etcd::EtcdOptions;

use super::{exclusive, proxy::Proxy, settle, soon, state, until_waiting};
use crate::server::{DEADLINE, GrpcProxy, Server, connect};

/// The shortest that etcd keeps to.
pub(super) const TIME_TO_LIVE: Duration = Duration::from_secs(2);

pub(super) fn options(endpoint: String) -> EtcdOptions {
    EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE)
}

/// A machine, and the cable that it is connected by.
pub(super) fn by_cable(server: &Server) -> (LockManager, Proxy) {
    let cable = Proxy::to(server.port());
    (connect(&options(cable.endpoint())).lock_manager("bucket"), cable)
}

pub(super) fn machine(server: &Server) -> UserAgent {
    connect(&options(server.endpoint()))
}

/// Calls `etcdctl` and gives what it prints.
#[track_caller]
pub(super) fn etcdctl(server: &Server, arguments: &[&str]) -> String {
    server.etcdctl(arguments).expect("etcdctl can do it")
}

#[test]
fn a_machine_that_is_cut_off_has_lost_before_another_is_granted() {
    let server = Server::start();
    let (cut_off, cable) = by_cable(&server);
    let other = machine(&server).lock_manager("bucket");
    let guard = exclusive(&cut_off, "db");
    thread::scope(|scope| {
        let successor = scope.spawn(|| {
            let successor = exclusive(&other, "db");
            // It goes by the clock, whether anybody was told or not.
            (successor, guard.is_lost(), Instant::now())
        });
        until_waiting(&other, 1);
        let since = Instant::now();
        cable.cut();
        assert_eq!(soon(guard.lost()), Lost::Disconnected);
        let (successor, was_lost, granted) = successor.join().unwrap();
        assert!(was_lost, "both held it");
        assert!(successor.fencing_token() > guard.fencing_token());
        let took = granted - since;
        // Etcd looks for leases that have ended twice in a second.
        assert!(took < TIME_TO_LIVE + Duration::from_secs(20), "freed after {took:?}");
    });
    // What it asks for fails, and does not hang; with the cable mended it can lock again.
    let failed = soon(cut_off.lock("other"));
    assert!(matches!(failed, Err(Error::Unreachable(_))), "{failed:?}");
    cable.mend();
    let since = Instant::now();
    while let Err(error) = soon(cut_off.lock("other")) {
        assert!(since.elapsed() < DEADLINE, "{error}");
    }
}

#[test]
fn a_holder_is_told_when_etcd_is_away_for_longer_than_the_lease() {
    let server = Server::start();
    let (a, b) = (machine(&server).lock_manager("bucket"), machine(&server).lock_manager("bucket"));
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let successor = scope.spawn(|| {
            // It loses its place as well: it asks until it is granted.
            loop {
                if let Ok(successor) = soon(b.lock("db")) {
                    return (successor, Instant::now());
                }
            }
        });
        until_waiting(&b, 1);
        let since = Instant::now();
        server.stop();
        assert_eq!(soon(guard.lost()), Lost::Disconnected);
        let lost = Instant::now();
        // The time is the fault: until the lease is over for etcd as well.
        thread::sleep(TIME_TO_LIVE.saturating_sub(since.elapsed()));
        server.go_on();
        let (successor, granted) = successor.join().unwrap();
        assert!(lost < granted);
        assert!(successor.fencing_token() > guard.fencing_token());
    });
}

#[test]
fn work_under_a_lost_lock_has_the_margin_even_if_etcd_is_back_before() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = EtcdOptions::new([cable.endpoint()]).time_to_live(Duration::from_secs(20));
    let cut_off = connect(&options.margin(Duration::from_secs(8))).lock_manager("bucket");
    let other = machine(&server).lock_manager("bucket");
    let guard = exclusive(&cut_off, "db");
    thread::scope(|scope| {
        let successor = scope.spawn(|| (exclusive(&other, "db"), Instant::now()));
        until_waiting(&other, 1);
        cable.cut();
        while !matches!(guard.state(), LockState::Suspended { .. }) {
            assert!(!guard.is_lost(), "it was not told before");
            thread::sleep(Duration::from_millis(2));
        }
        let (now, term) = (Instant::now(), guard.term().unwrap());
        let expires = now + term.expires.saturating_sub(term.now);
        assert_eq!(soon(guard.lost()), Lost::Disconnected);
        cable.mend();
        let (_successor, granted) = successor.join().unwrap();
        assert!(granted >= expires, "{:?} too early", expires - granted);
        assert!(granted < expires + Duration::from_secs(15), "{:?} late", granted - expires);
    });
}

#[test]
fn etcd_does_not_hang_up_on_who_is_quiet() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let machine = connect(&options(cable.endpoint()));
    let locks = machine.lock_manager("bucket");
    drop(exclusive(&locks, "db"));
    settle(&locks);
    // The machine stays, with nothing to do.
    drop(locks);
    let before = cable.history();
    // Etcd counts two pings too many in this time, if there is one in each eighth of the time to live.
    thread::sleep(TIME_TO_LIVE * 2);
    assert_eq!(cable.history(), before, "connections, and whether one has ended");
    drop(machine);
}

#[test]
fn a_waiter_behind_a_release_that_etcd_does_not_answer_is_told_of_the_outage() {
    let server = Server::start();
    let (locks, cable) = by_cable(&server);
    let (guard, other) = (exclusive(&locks, "db"), exclusive(&locks, "other"));
    cable.cut();
    // It is tried again until etcd is back.
    drop(guard);
    let before = locks.lock("db").into_future();
    assert_eq!(soon(other.lost()), Lost::Disconnected);
    let unreachable = |error| matches!(error, Error::Unreachable(_));
    assert!(soon(before).is_err_and(unreachable));
    assert!(soon(locks.lock("db")).is_err_and(unreachable));
    cable.mend();
    drop(exclusive(&locks, "db"));
}

#[test]
fn a_holder_is_warned_before_its_lock_is_lost() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = EtcdOptions::new([cable.endpoint()]).time_to_live(Duration::from_secs(15));
    let locks = connect(&options).lock_manager("bucket");
    let guard = exclusive(&locks, "db");
    assert_eq!(guard.state(), LockState::Held);
    let until = |wanted: fn(&LockState) -> bool| {
        let since = Instant::now();
        while !wanted(&guard.state()) {
            assert!(!guard.is_lost(), "it was not told before");
            assert!(since.elapsed() < DEADLINE, "{:?}", guard.state());
            thread::sleep(Duration::from_millis(2));
        }
    };
    cable.cut();
    until(|state| matches!(state, LockState::Suspended { .. }));
    // It may recover.
    cable.mend();
    until(|state| *state == LockState::Held);
    cable.cut();
    until(|state| matches!(state, LockState::Suspended { .. }));
    let term = guard.term().unwrap();
    assert!(term.expires >= term.ends + Duration::from_millis(990), "{term:?}");
    assert_eq!(soon(guard.lost()), Lost::Disconnected);
    assert_eq!(guard.state(), LockState::Lost(Lost::Disconnected));
}

#[test]
fn locks_and_places_outlive_a_restart_of_etcd() {
    let mut server = Server::start();
    let [a, b] =
        [(); 2].map(|()| connect(&EtcdOptions::new([server.endpoint()])).lock_manager("bucket"));
    let guard = exclusive(&a, "db");
    let token = guard.fencing_token();
    thread::scope(|scope| {
        let first = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&a, 1);
        let second = scope.spawn(|| exclusive(&a, "db"));
        until_waiting(&a, 2);
        server.restart();
        assert!(!guard.is_lost());
        drop(guard);
        let first = first.join().unwrap();
        assert!(first.fencing_token() > token);
        let token = first.fencing_token();
        drop(first);
        assert!(second.join().unwrap().fencing_token() > token);
    });
    assert_eq!(state(&a), (vec![], vec![]));
}

#[test]
fn a_compaction_stops_nobody() {
    let server = Server::start();
    let (a, cable) = by_cable(&server);
    let b = machine(&server).lock_manager("bucket");
    for round in 0..3 {
        let guard = exclusive(&a, "db");
        thread::scope(|scope| {
            let successor = scope.spawn(|| exclusive(&b, "db"));
            until_waiting(&a, 1);
            // All that the watch of the one would need to go on from where it was.
            if round > 0 {
                cable.end_connections();
            }
            for name in ["x", "y", "z"] {
                drop(exclusive(&b, name));
            }
            let status = etcdctl(&server, &["endpoint", "status", "--write-out=json"]);
            let at = status.find("\"revision\":").expect("there is a revision") + 11;
            let revision: String = status[at..].chars().take_while(char::is_ascii_digit).collect();
            etcdctl(&server, &["compact", &revision]);
            drop(guard);
            drop(successor.join().unwrap());
        });
        drop(exclusive(&a, "db"));
    }
    assert_eq!(state(&a), (vec![], vec![]));
}

#[test]
fn requests_whose_outcome_is_not_known_are_made_once() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    // Longer than anything here takes: it is not about leases.
    let [a, b] = [cable.endpoint(), server.endpoint()]
        .map(|endpoint| connect(&options(endpoint).time_to_live(DEADLINE)).lock_manager("bucket"));
    let mut last = 0;
    thread::scope(|scope| {
        // Its end is heard also if what follows fails.
        let (next_round, rounds) = mpsc::channel();
        scope.spawn(move || {
            // Shorter than a round takes; longer each time, so that a busy machine comes to its end.
            let first = Duration::from_millis(23);
            let mut pause = first;
            loop {
                pause = match rounds.recv_timeout(pause) {
                    Ok(()) => first,
                    Err(RecvTimeoutError::Timeout) => 2 * pause,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                cable.end_connections();
            }
        });
        for round in 0..60 {
            let (one, other) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
            let guard = match round % 3 {
                0 => soon(one.lock("db").steal()).unwrap(),
                _ => exclusive(one, "db"),
            };
            assert!(guard.fencing_token().get() > last);
            last = guard.fencing_token().get();
            assert!(soon(other.lock("db").if_available()).unwrap().is_none());
            assert!(!guard.is_lost());
            next_round.send(()).unwrap();
        }
    });
    // What a late try may have left goes with the next list.
    let since = Instant::now();
    while state(&b) != (vec![], vec![]) {
        assert!(since.elapsed() < DEADLINE, "something is left: {:?}", state(&b));
    }
}

#[test]
fn an_agent_whose_lease_was_revoked_is_told() {
    let server = Server::start();
    let (a, b) = (machine(&server).lock_manager("bucket"), machine(&server).lock_manager("bucket"));
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| soon(a.lock("db")));
        until_waiting(&b, 1);
        let leases = etcdctl(&server, &["lease", "list"]);
        let id = leases.lines().last().unwrap();
        etcdctl(&server, &["lease", "revoke", id]);
        assert_eq!(soon(guard.lost()), Lost::Disconnected);
        // Who waits asks again, under another lease.
        assert!(!waiting.join().unwrap().unwrap().is_lost());
    });
    drop(exclusive(&b, "db"));
    // Its next request has a new one.
    drop(exclusive(&a, "db"));
}

#[test]
fn readers_are_granted_together_although_the_first_of_them_is_cut_off() {
    let server = Server::start();
    let a = machine(&server).lock_manager("bucket");
    let writer = exclusive(&a, "db");
    let leases = etcdctl(&server, &["lease", "list"]);
    let lease = leases.lines().last().unwrap();
    let cable = Proxy::to(server.port());
    // For long enough to be away for a while.
    let b = connect(&EtcdOptions::new([cable.endpoint()])).lock_manager("bucket");
    let c = machine(&server).lock_manager("bucket");
    thread::scope(|scope| {
        let first = scope.spawn(|| soon(b.lock("db").shared()).unwrap());
        until_waiting(&c, 1);
        let second = scope.spawn(|| soon(c.lock("db").shared()).unwrap());
        until_waiting(&c, 2);
        cable.cut();
        // Nobody hands it over.
        etcdctl(&server, &["lease", "revoke", lease]);
        let second = second.join().unwrap();
        cable.mend();
        let first = first.join().unwrap();
        assert_eq!(first.fencing_token(), second.fencing_token());
        assert!(first.fencing_token() > writer.fencing_token());
    });
}

#[test]
fn no_etcd_is_an_error_that_says_where() {
    let since = Instant::now();
    let nowhere = EtcdOptions::new(["127.0.0.1:1"]).timeout(Duration::from_secs(1));
    let error = soon(navlock_etcd::etcd(nowhere)).unwrap_err();
    assert!(error.to_string().contains("cannot reach etcd at 127.0.0.1:1"), "{error}");
    assert!(since.elapsed() < Duration::from_secs(10));
    let none = soon(navlock_etcd::etcd(EtcdOptions::new([""; 0]))).unwrap_err();
    assert!(matches!(none, Error::Refused(_)));
}

#[test]
fn behind_etcds_own_proxy_each_watch_tells_of_its_own_name() {
    let server = Server::start();
    let proxy = GrpcProxy::of(&server);
    let (holder, waiter) = (machine(&server), connect(&options(proxy.endpoint())));
    let (holder, waiter) = (holder.lock_manager("bucket"), waiter.lock_manager("bucket"));
    let names: Vec<String> = (0..8).map(|nth| format!("name-{nth}")).collect();
    let held: Vec<_> = names.iter().map(|name| exclusive(&holder, name)).collect();
    thread::scope(|scope| {
        let since = Instant::now();
        let waiting: Vec<_> =
            names.iter().map(|name| scope.spawn(|| exclusive(&waiter, name))).collect();
        until_waiting(&holder, names.len());
        drop(held);
        for successor in waiting {
            drop(successor.join().unwrap());
        }
        assert!(since.elapsed() < Duration::from_secs(10), "a watch has told nothing");
    });
    let victim = exclusive(&waiter, "name-0");
    let thief = soon(holder.lock("name-0").steal()).unwrap();
    assert_eq!(soon(victim.lost()), Lost::Stolen);
    assert!(thief.fencing_token() > victim.fencing_token());
}
