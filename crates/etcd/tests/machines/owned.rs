//! Names that a machine owns: what its agents do with them costs etcd nothing, and others get them when
//! they ask.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{LockGuard, Mode, host};
use navlock_etcd::EtcdOptions;

use super::{
    exclusive,
    owning::{asked, beside, machines, own, owner_at, owning, poll, until},
    proxy::Proxy,
    settle, soon, state, until_waiting,
};
use crate::server::{DEADLINE, Server, connect, namespace, revision, shared};

pub(super) const TIME_TO_LIVE: Duration = Duration::from_secs(10);

/// So long that nothing ends it here.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_name_that_nobody_else_uses_costs_etcd_nothing() {
    let server = Server::start();
    let locks = owner_at(&server.endpoint(), "navlock");
    own(&locks, "db");
    let (before, other) = (revision(&server), beside(&locks));
    let mut last = exclusive(&locks, "db").fencing_token();
    for nth in 0..1000 {
        let by = if nth % 2 == 0 { &locks } else { &other };
        let guard = exclusive(by, "db");
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
    }
    let readers = [&locks, &other].map(|by| soon(by.lock("db").shared()).unwrap());
    assert!(soon(locks.lock("db").if_available()).unwrap().is_none());
    let mut writer = asked(&other, "db");
    let thief = soon(locks.lock("db").steal()).unwrap();
    assert!(readers.iter().all(LockGuard::is_lost));
    assert!(!poll(&mut writer));
    let last = thief.fencing_token();
    drop(thief);
    assert!(soon(writer).unwrap().fencing_token() > last);
    assert_eq!(revision(&server), before);
}

#[test]
fn a_request_on_another_machine_gets_an_idle_name() {
    let [a, b] = owning("db");
    let last = exclusive(&a, "db").fencing_token();
    let guard = exclusive(&b, "db");
    assert!(guard.fencing_token() > last);
    drop(guard);
    own(&a, "tried");
    // An owner that is slow to say so counts as one who holds it.
    drop(until(|| soon(b.lock("tried").if_available()).unwrap()));
    own(&a, "read");
    drop(soon(b.lock("read").shared()).unwrap());
    own(&a, "stolen");
    drop(soon(b.lock("stolen").steal()).unwrap());
    drop(exclusive(&a, "stolen"));
}

#[test]
fn nobody_is_preferred_who_asks_after_another_machine() {
    let [a, b] = owning("db");
    let (before, after) = (beside(&a), beside(&a));
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let first = asked(&before, "db");
        let first = scope.spawn(|| soon(first).unwrap());
        let second = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&b, 2);
        let third = scope.spawn(|| exclusive(&after, "db"));
        until_waiting(&b, 3);
        let mut last = guard.fencing_token();
        drop(guard);
        for next in [first, second, third] {
            let guard = next.join().unwrap();
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
        }
    });
    settle(&a);
    assert_eq!(state(&b), (vec![], vec![]));
}

#[test]
fn an_if_available_request_is_told_of_locks_that_only_the_owner_knows() {
    let [a, b] = owning("db");
    let guard = exclusive(&a, "db");
    assert!(soon(b.lock("db").if_available()).unwrap().is_none());
    assert!(!guard.is_lost());
    drop(guard);
    own(&a, "read");
    let reader = soon(a.lock("read").shared()).unwrap();
    let other = until(|| soon(b.lock("read").shared().if_available()).unwrap());
    assert!(soon(b.lock("read").if_available()).unwrap().is_none());
    drop((reader, other));
}

#[test]
fn an_owner_grants_nothing_any_more_once_it_is_stolen_from() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let (a, b) = (owner_at(&cable.endpoint(), "navlock"), owner_at(&server.endpoint(), "navlock"));
    own(&a, "idle");
    own(&a, "held");
    let (guard, next) = (exclusive(&a, "held"), beside(&a));
    // It hears of others later than they of each other.
    cable.delay(Duration::from_millis(100));
    let thief = soon(b.lock("idle").steal()).unwrap();
    let after = asked(&a, "idle");
    let robber = soon(b.lock("held").steal()).unwrap();
    assert!(robber.fencing_token() > guard.fencing_token());
    // Who has held it hears of that later, and nobody has it meanwhile.
    drop(guard);
    let then = asked(&next, "held");
    cable.delay(Duration::ZERO);
    assert!(!thief.is_lost() && !robber.is_lost());
    drop((thief, robber));
    drop((soon(after).unwrap(), soon(then).unwrap()));
}

#[test]
fn a_name_that_is_taken_all_the_time_is_shown_at_once_and_in_pictures_as_the_machines() {
    let [a, b] = owning("db");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                drop(exclusive(&a, "db"));
            }
        });
        for _ in 0..5 {
            let seen = soon(b.inspect(None)).unwrap();
            let by = |held: &navlock_core::Inspected| held.lock.client_id;
            assert!(seen.held.iter().all(|held| by(held) == a.client_id()), "{seen:?}");
        }
        // Who looks again and again asks nobody, and the name stays what it is.
        own(&a, "owned");
        let guard = exclusive(&a, "owned");
        let seen = soon(host::backend(&b).unwrap().0.look(None, true)).unwrap();
        let is_it = |one: &&navlock_core::Inspected| one.lock.name == "owned";
        assert_eq!(seen.owned.iter().filter(is_it).count(), 1, "{seen:?}");
        assert_eq!(seen.held.iter().filter(is_it).count(), 0, "{seen:?}");
        drop(guard);
        assert!(poll(&mut a.lock("owned").into_future()), "to look has taken it");
        is_over.store(true, SeqCst);
    });
}

#[test]
fn an_owner_that_does_not_answer_is_waited_for_once() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(MINUTE).keep_names(1);
    let a = connect(&options(cable.endpoint())).lock_manager("bucket");
    let b = connect(&options(server.endpoint())).lock_manager("bucket");
    own(&a, "db");
    cable.cut();
    let tried = |_| assert!(soon(b.lock("db").if_available()).unwrap().is_none());
    tried(0);
    // As if it was held: it is known by now that the owner does not say so.
    let since = Instant::now();
    (0..20).for_each(tried);
    for _ in 0..5 {
        let seen = soon(b.inspect(None)).unwrap();
        assert_eq!(seen.held.len(), 1, "{seen:?}");
    }
    assert!(since.elapsed() < DEADLINE / 2, "each waits anew");
    cable.mend();
}

#[test]
fn a_query_of_another_machine_shows_who_holds_and_who_waits() {
    let [a, b] = owning("db");
    let next = beside(&a);
    own(&a, "idle");
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let waiting = asked(&next, "db");
        let waiting = scope.spawn(|| soon(waiting).unwrap());
        let seen = until(|| {
            let seen = soon(b.inspect(None)).unwrap();
            let is_said = seen.held.iter().all(|held| held.lock.client_id == a.client_id());
            is_said.then_some(seen)
        });
        let [held] = &*seen.held else { panic!("{seen:?}") };
        assert_eq!(held.fencing_token, Some(guard.fencing_token()));
        assert_eq!(seen.pending.len(), 1);
        assert_eq!(seen.pending[0].lock.client_id, next.client_id());
        drop(guard);
        drop(waiting.join().unwrap());
    });
    own(&a, "db");
    let reader = soon(a.lock("db").shared()).unwrap();
    assert_eq!(state(&a), (vec![Mode::Shared], vec![]));
    drop(reader);
    assert_eq!(state(&a), (vec![], vec![]));
}

#[test]
fn a_reader_elsewhere_joins_readers_here_and_waits_behind_a_writer() {
    let [a, b] = owning("db");
    let (next, last) = (beside(&a), beside(&b));
    let reader = soon(a.lock("db").shared()).unwrap();
    drop(soon(b.lock("db").shared()).unwrap());
    drop(reader);
    own(&a, "db");
    let reader = soon(a.lock("db").shared()).unwrap();
    let mut writer = asked(&next, "db");
    thread::scope(|scope| {
        let behind = scope.spawn(|| soon(last.lock("db").shared()).unwrap());
        until_waiting(&b, 2);
        assert!(!poll(&mut writer));
        drop(reader);
        let writer = soon(writer).unwrap();
        until_waiting(&b, 1);
        let token = writer.fencing_token();
        drop(writer);
        assert!(behind.join().unwrap().fencing_token() > token);
    });
}

#[test]
fn a_request_that_gives_up_while_the_owner_is_asked_leaves_nothing_behind() {
    let [a, b] = machines();
    let next = beside(&a);
    for nth in 0..50 {
        // What others want is owned ever more rarely.
        let name = &*format!("db-{nth}");
        own(&a, name);
        let guard = exclusive(&a, name);
        let waits = (nth % 2 == 0).then(|| asked(&next, name));
        let gives_up = asked(&b, name);
        if nth % 3 == 0 {
            until_waiting(&b, 1 + usize::from(waits.is_some()));
        }
        drop(gives_up);
        drop(guard);
        if let Some(waits) = waits {
            drop(soon(waits).unwrap());
        }
    }
    settle(&a);
    settle(&b);
    assert_eq!(state(&b), (vec![], vec![]));
    drop(exclusive(&b, "db-0"));
}

#[test]
fn machines_that_take_turns_hold_alone_and_their_tokens_grow() {
    const TIMES: usize = 60;
    let [a, b] = machines();
    let last = AtomicU64::new(0);
    let is_held = AtomicBool::new(false);
    thread::scope(|scope| {
        for locks in [&a, &b, &beside(&a), &beside(&b)] {
            let (last, is_held, locks) = (&last, &is_held, locks.clone());
            scope.spawn(move || {
                for nth in 0..TIMES {
                    let guard = if nth % 5 == 4 {
                        loop {
                            if let Some(guard) = soon(locks.lock("db").if_available()).unwrap() {
                                break guard;
                            }
                        }
                    } else {
                        exclusive(&locks, "db")
                    };
                    assert!(!is_held.swap(true, SeqCst), "two hold it");
                    let token = guard.fencing_token().get();
                    assert!(last.swap(token, SeqCst) < token, "tokens go back");
                    is_held.store(false, SeqCst);
                    drop(guard);
                }
            });
        }
    });
    let elsewhere = exclusive(&a, "db");
    assert!(elsewhere.fencing_token().get() > last.load(SeqCst));
}

#[test]
fn tokens_grow_over_machines_that_come_and_go() {
    let namespace = namespace();
    let mut last = None;
    for _ in 0..4 {
        let locks = owner_at(&shared().endpoint(), &namespace);
        own(&locks, "db");
        for _ in 0..3 {
            let token = Some(exclusive(&locks, "db").fencing_token());
            assert!(token > last);
            last = token;
        }
    }
}
