//! The engine's rules, with each party on a machine of its own.

use std::thread;

use navlock_core::{
    LockManager, Lost,
    Mode::{Exclusive, Shared},
};

use super::{exclusive, machines, settle, soon, state, until_waiting};

#[test]
fn requests_are_granted_in_order_over_all_machines() {
    let [a, b, c] = machines();
    let holder = exclusive(&a, "db");
    let order = std::sync::Mutex::new(Vec::new());
    let mut last = holder.fencing_token();
    thread::scope(|scope| {
        for (nth, locks) in [&b, &c, &a, &c, &b].into_iter().enumerate() {
            let order = &order;
            scope.spawn(move || {
                let guard = exclusive(locks, "db");
                order.lock().unwrap().push((nth, guard.fencing_token()));
            });
            until_waiting(&a, nth + 1);
        }
        drop(holder);
    });
    for (nth, (granted, token)) in order.into_inner().unwrap().into_iter().enumerate() {
        assert_eq!(granted, nth);
        assert!(token > last, "tokens grow");
        last = token;
    }
    assert_eq!(state(&b), (vec![], vec![]));
}

#[test]
fn nobody_is_overtaken_while_names_change_hands() {
    let locks: [LockManager; 4] = machines();
    // Written to without a lock of its own: what one holder leaves, the next finds.
    let register = std::sync::atomic::AtomicU64::new(0);
    thread::scope(|scope| {
        for locks in &locks {
            let register = &register;
            scope.spawn(move || {
                for _ in 0..100 {
                    let guard = exclusive(locks, "db");
                    let token = guard.fencing_token().get();
                    let before = register.load(std::sync::atomic::Ordering::SeqCst);
                    assert!(before < token, "a later holder has a larger token");
                    thread::yield_now();
                    let now = register.swap(token, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(now, before, "nobody else held it");
                }
            });
        }
    });
    locks.iter().for_each(settle);
    assert_eq!(state(&locks[0]), (vec![], vec![]));
}

#[test]
fn readers_of_several_machines_hold_together() {
    let [a, b, c] = machines();
    let writer = exclusive(&a, "db");
    thread::scope(|scope| {
        let readers = [&a, &b, &c].map(|locks| scope.spawn(|| soon(locks.lock("db").shared())));
        until_waiting(&b, 3);
        let last = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&b, 4);
        drop(writer);
        let readers = readers.map(|reader| reader.join().unwrap().unwrap());
        assert_eq!(state(&c), (vec![Shared; 3], vec![Exclusive]));
        // Behind the writer.
        assert!(soon(a.lock("db").shared().if_available()).unwrap().is_none());
        drop(readers);
        drop(last.join().unwrap());
    });
    settle(&b);
    assert!(soon(a.lock("db").shared().if_available()).unwrap().is_some());
    settle(&a);
    assert_eq!(state(&c), (vec![], vec![]));
}

#[test]
fn an_abort_on_one_machine_lets_the_readers_of_another_in() {
    let [a, b] = machines();
    let reader = soon(a.lock("db").shared()).unwrap();
    let mut writer = Box::pin(a.lock("db").into_future());
    let waker = std::task::Waker::noop();
    assert!(writer.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    until_waiting(&b, 1);
    thread::scope(|scope| {
        let second = scope.spawn(|| soon(b.lock("db").shared()));
        until_waiting(&b, 2);
        drop(writer);
        drop(second.join().unwrap().unwrap());
    });
    drop(reader);
    settle(&a);
    assert_eq!(state(&b), (vec![], vec![]));
}

#[test]
fn a_thief_robs_the_holders_of_other_machines_and_goes_before_who_waits() {
    let [a, b, c] = machines();
    let victims = [&a, &b].map(|locks| soon(locks.lock("db").shared()).unwrap());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| exclusive(&a, "db"));
        until_waiting(&a, 1);
        let thief = soon(c.lock("db").steal()).unwrap();
        for victim in &victims {
            assert_eq!(soon(victim.lost()), Lost::Stolen);
            assert!(thief.fencing_token() > victim.fencing_token());
        }
        assert_eq!(state(&b), (vec![Exclusive], vec![Exclusive]));
        // What they release is not the thief's.
        drop(victims);
        assert_eq!(state(&b), (vec![Exclusive], vec![Exclusive]));
        let token = thief.fencing_token();
        drop(thief);
        assert!(waiting.join().unwrap().fencing_token() > token);
    });
}

#[test]
fn a_lock_that_a_machine_leaves_is_free_at_once() {
    let [a, b] = machines();
    let guard = exclusive(&a, "db");
    let gone = a.clone();
    drop(a);
    thread::scope(|scope| {
        let successor = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&b, 1);
        gone.terminate();
        assert_eq!(soon(guard.lost()), Lost::Terminated);
        drop(successor.join().unwrap());
    });
}

#[test]
fn an_inspection_tells_who_holds_on_other_machines() {
    let [a, b] = machines();
    let mut info = navlock_core::AgentInfo::default();
    (info.pid, info.host, info.command) = (17, "elsewhere".to_owned(), "make".to_owned());
    info.meta = vec![("url".to_owned(), "http://elsewhere:3000".to_owned())];
    a.describe(&info);
    let guard = exclusive(&a, "db");
    let since = std::time::Instant::now();
    loop {
        let inspection = soon(b.inspect(None)).unwrap();
        let held = &inspection.held[0];
        assert_eq!(held.fencing_token, Some(guard.fencing_token()));
        assert_eq!(held.lock.client_id, a.client_id());
        if held.agent.as_deref() == Some(&info) {
            break;
        }
        assert!(since.elapsed() < crate::server::DEADLINE, "it is never told");
    }
}
