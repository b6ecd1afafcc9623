//! What a machine costs: what it uses, and not what there is.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{LockManager, Lost, Mode};
use navlock_etcd::EtcdOptions;

use super::{exclusive, proxy::Proxy, settle, soon, state, until_waiting};
use crate::server::{DEADLINE, Server, connect};

/// How many lists etcd has been asked for.
fn lists(server: &Server) -> u64 {
    handled(server, "KV", "Range")
}

fn handled(server: &Server, service: &str, method: &str) -> u64 {
    server.metric(&format!(
        "grpc_server_handled_total{{grpc_code=\"OK\",grpc_method=\"{method}\",\
         grpc_service=\"etcdserverpb.{service}\",grpc_type=\"unary\"}}"
    ))
}

/// How many watches etcd serves.
fn watches(server: &Server) -> u64 {
    server.metric("etcd_debugging_mvcc_watcher_total")
}

fn machine(server: &Server) -> LockManager {
    connect(&EtcdOptions::new([server.endpoint()])).lock_manager("bucket")
}

/// A machine whose cable counts.
fn counted(server: &Server) -> (LockManager, Proxy) {
    let cable = Proxy::to(server.port());
    (connect(&EtcdOptions::new([cable.endpoint()])).lock_manager("bucket"), cable)
}

#[test]
fn nothing_is_listed_for_who_finds_its_name_free() {
    let server = Server::start();
    let locks = machine(&server);
    // It has a lease then, and etcd has been asked for its format.
    drop(exclusive(&locks, "warm"));
    settle(&locks);
    let before = lists(&server);
    for nth in 0..10 {
        drop(exclusive(&locks, &format!("name-{nth}")));
        drop(soon(locks.lock(&*format!("shared-{nth}")).shared()).unwrap());
        drop(soon(locks.lock(&*format!("tried-{nth}")).if_available()).unwrap().unwrap());
    }
    assert_eq!(lists(&server), before);
}

#[test]
fn events_of_other_names_are_not_told() {
    const TIMES: u64 = 300;
    let server = Server::start();
    let (locks, cable) = counted(&server);
    let other = machine(&server);
    let guard = exclusive(&locks, "ours");
    drop(exclusive(&locks, "ours a moment ago"));
    settle(&locks);
    let before = cable.received();
    for nth in 0..TIMES {
        drop(exclusive(&other, &format!("theirs-{}", nth % 7)));
    }
    settle(&other);
    // A lease is renewed now and then, and looked at. Of each event, more than 200 bytes would be told.
    let received = cable.received() - before;
    assert!(received < TIMES * 40, "{received} bytes for nothing");
    assert!(!guard.is_lost());
}

#[test]
fn locks_of_other_names_are_not_read() {
    const NAMES: u64 = 1000;
    let server = Server::start();
    let other = machine(&server);
    let held: Vec<_> = (0..NAMES).map(|nth| exclusive(&other, &format!("name-{nth}"))).collect();
    let (locks, cable) = counted(&server);
    let before = cable.received();
    let wait = |name: &str| {
        thread::scope(|scope| {
            let first = exclusive(&locks, name);
            let second = scope.spawn(|| exclusive(&locks, name));
            let since = Instant::now();
            while soon(locks.inspect(Some(name.try_into().unwrap()))).unwrap().pending.is_empty() {
                assert!(since.elapsed() < DEADLINE, "it never waits");
                thread::sleep(Duration::from_millis(5));
            }
            drop(first);
            drop(second.join().unwrap());
        });
    };
    wait("ours");
    wait("also ours");
    let received = cable.received() - before;
    assert!(received < NAMES * 40, "{received} bytes for nothing");
    drop(held);
}

#[test]
fn only_names_in_use_are_watched() {
    let server = Server::start();
    let (a, b) = (machine(&server), machine(&server));
    assert_eq!(watches(&server), 0);
    let (one, other) = (exclusive(&a, "one"), exclusive(&b, "other"));
    thread::scope(|scope| {
        let waits = scope.spawn(|| exclusive(&b, "one"));
        until_waiting(&a, 1);
        // Who holds it, and who waits for it.
        until(|| watches(&server) == 3);
        drop(one);
        drop(waits.join().unwrap());
    });
    drop(other);
    // They stay for a while, and their machine's end ends them.
    assert_eq!(watches(&server), 3);
    drop((a, b));
    until(|| watches(&server) == 0);
}

#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < DEADLINE, "it never is");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_watch_that_begins_while_much_happens_misses_nothing() {
    let server = Server::start();
    let (holder, waiter) = (machine(&server), machine(&server));
    let busy = machine(&server);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut nth = 0;
            while !is_over.load(SeqCst) {
                nth = (nth + 1) % 50;
                drop(exclusive(&busy, &format!("busy-{nth}")));
            }
        });
        // Each name for the first time: its watch begins in the past.
        for nth in 0..30 {
            let since = Instant::now();
            let name = &*format!("name-{nth}");
            let victim = exclusive(&holder, name);
            if nth % 3 == 0 {
                let thief = soon(waiter.lock(name).steal()).unwrap();
                assert_eq!(soon(victim.lost()), Lost::Stolen);
                assert!(thief.fencing_token() > victim.fencing_token());
            } else {
                thread::scope(|scope| {
                    let successor = scope.spawn(|| exclusive(&waiter, name));
                    if nth % 3 == 1 {
                        until(|| state(&waiter).1 == [Mode::Exclusive]);
                    }
                    drop(victim);
                    drop(successor.join().unwrap());
                });
            }
            // What nobody has told is found every 15 s.
            assert!(since.elapsed() < Duration::from_secs(10), "{name}: something was missed");
        }
        is_over.store(true, SeqCst);
    });
}

#[test]
fn an_inspection_is_bounded_and_says_what_it_leaves_out() {
    const WAITING: usize = 12_000;
    let server = Server::start();
    let locks = machine(&server);
    let _held = exclusive(&locks, "db");
    let mut waiting: Vec<_> =
        (0..WAITING).map(|_| Box::pin(locks.lock("db").into_future())).collect();
    let mut context = Context::from_waker(Waker::noop());
    for request in &mut waiting {
        assert!(request.as_mut().poll(&mut context).is_pending());
    }
    let since = Instant::now();
    let inspection = loop {
        match soon(locks.inspect(None)) {
            Ok(inspection) => break inspection,
            // Where the machine is busy, all that comes before may take longer than an answer may.
            Err(error) => assert!(since.elapsed() < DEADLINE, "{error}"),
        }
    };
    let shown = inspection.held.len() + inspection.pending.len();
    assert!((10_000..WAITING).contains(&shown), "{shown} are shown");
    assert_eq!(inspection.left_out, (1 + WAITING - shown) as u64);
    // A snapshot has no place to say that, and has more room.
    let snapshot = loop {
        match soon(locks.query()) {
            Ok(snapshot) => break snapshot,
            Err(error) => assert!(since.elapsed() < 2 * DEADLINE, "{error}"),
        }
    };
    assert_eq!(snapshot.pending.len(), WAITING);
}

#[test]
fn an_agent_that_asks_about_one_name_loses_no_place_in_another() {
    let server = Server::start();
    let (locks, other) = (machine(&server), machine(&server));
    let held = [exclusive(&other, "one"), exclusive(&other, "two")];
    thread::scope(|scope| {
        let locks = &locks;
        let waits = ["one", "two"].map(|name| scope.spawn(move || exclusive(locks, name)));
        until_waiting(locks, 2);
        for name in ["one", "two", "three"] {
            let found = soon(locks.inspect(Some(name.try_into().unwrap()))).unwrap();
            assert_eq!(found.pending.len(), usize::from(name != "three"));
            assert!(found.held.iter().all(|held| held.lock.name == name));
        }
        assert_eq!(state(&other).1.len(), 2);
        drop(held);
        for granted in waits {
            drop(granted.join().unwrap());
        }
    });
}
