//! The in-memory backend under a scheduler that tries interleavings. The backend's locks and
//! atomics are replaced by those that the scheduler controls (`src/sync.rs`).
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p navlock-core --test shuttle` runs these tests, and so
//! does `cargo xtask test`. Without the flag, this file is empty.

#![cfg(shuttle)]

use std::{
    collections::BTreeSet,
    future::{Future, IntoFuture},
    pin::pin,
    task::{Context, Waker},
};

use navlock_core::{
    Error, LockManager, Lost, UserAgent,
    host::MemoryReach,
    look::{Change, Entry, LockId, LookOptions, News, Overview, Queue},
};
use shuttle::{
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    sync::{Mutex, mpsc},
    thread,
};

/// How many interleavings of each scenario each scheduler tries.
const TRIES: usize = 20_000;

/// Runs the scenario in many interleavings. A panic is a failure, and so is a deadlock, to which a
/// lost wake-up leads.
fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) {
        shuttle::Runner::new(scheduler, shuttle::Config::default()).run(scenario);
    }
    run(RandomScheduler::new(TRIES), scenario);
    run(PctScheduler::new(3, TRIES), scenario);
}

fn block_on<F: IntoFuture>(future: F) -> F::Output {
    shuttle::future::block_on(future.into_future())
}

/// A user agent with one shard, in which all agents meet.
fn user_agent() -> UserAgent {
    UserAgent::with_memory(MemoryReach::default().with_shards(1))
}

fn poll_once(future: impl Future) {
    let mut future = pin!(future);
    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

fn assert_empty(locks: &LockManager) {
    let state = block_on(locks.query()).unwrap();
    assert!(state.held.is_empty() && state.pending.is_empty());
}

#[test]
fn nobody_is_left_waiting_and_nobody_is_let_in_twice() {
    explore(|| {
        let locks = user_agent().lock_manager("app");
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let locks = locks.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let guard = block_on(locks.lock("db")).unwrap();
                        let held = block_on(locks.query()).unwrap().held;
                        assert_eq!(held.len(), 1);
                        drop(guard);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_empty(&locks);
    });
}

#[test]
fn a_grant_that_races_its_cancellation_goes_to_the_next() {
    explore(|| {
        let locks = user_agent().lock_manager("app");
        let holder = block_on(locks.lock("db")).unwrap();
        let (cancelled, next) = (locks.clone(), locks.clone());
        let cancelled = thread::spawn(move || poll_once(cancelled.lock("db").into_future()));
        let next = thread::spawn(move || drop(block_on(next.lock("db")).unwrap()));
        drop(holder);
        cancelled.join().unwrap();
        next.join().unwrap();
        assert_empty(&locks);
    });
}

#[test]
fn an_agent_that_ends_while_it_is_granted_leaves_the_lock_to_others() {
    explore(|| {
        let bucket = user_agent().bucket("app");
        let (holding, dying, heir) =
            (bucket.lock_manager(), bucket.lock_manager(), bucket.lock_manager());
        let holder = block_on(holding.lock("db")).unwrap();
        let onlooker = bucket.lock_manager();
        let (dying_too, killer) = (dying.clone(), dying);
        let dying = thread::spawn(move || match block_on(dying_too.lock("db")) {
            Ok(guard) => drop(guard),
            Err(error) => assert_eq!(error, Error::Terminated),
        });
        let killer = thread::spawn(move || {
            killer.terminate();
            // From this point on, the agent has nothing and gets nothing.
            let state = block_on(onlooker.query()).unwrap();
            let all = state.held.iter().chain(&state.pending);
            assert!(all.into_iter().all(|info| info.client_id != killer.client_id()));
        });
        let heir = thread::spawn(move || drop(block_on(heir.lock("db")).unwrap()));
        drop(holder);
        for thread in [dying, killer, heir] {
            thread.join().unwrap();
        }
        assert_empty(&holding);
    });
}

#[test]
fn every_call_that_terminates_an_agent_returns_when_the_agent_has_ended() {
    explore(|| {
        let bucket = user_agent().bucket("app");
        let (dying, onlooker) = (bucket.lock_manager(), bucket.lock_manager());
        let guard = block_on(dying.lock("db")).unwrap();
        let also_dying = dying.clone();
        let other = thread::spawn(move || also_dying.terminate());
        dying.terminate();
        assert_empty(&onlooker);
        other.join().unwrap();
        drop(guard);
    });
}

#[test]
fn a_theft_that_races_the_release_ends_with_one_holder() {
    explore(|| {
        let locks = user_agent().lock_manager("app");
        let victim = block_on(locks.lock("db")).unwrap();
        let (thief, waiter) = (locks.clone(), locks.clone());
        let thief = thread::spawn(move || {
            let stolen = block_on(thief.lock("db").steal()).unwrap();
            let held = block_on(thief.query()).unwrap().held;
            assert_eq!(held.len(), 1);
            assert!(!stolen.is_lost());
        });
        let waiter = thread::spawn(move || {
            let result = block_on(waiter.request("db", async |_| ()));
            // The request may be granted before the theft and told after it. Then its callback
            // never runs.
            assert!(matches!(result, Ok(()) | Err(Error::Lost(Lost::Stolen))));
        });
        drop(victim);
        thief.join().unwrap();
        waiter.join().unwrap();
        assert_empty(&locks);
    });
}

#[test]
fn a_victim_is_told_however_the_theft_falls() {
    explore(|| {
        let locks = user_agent().lock_manager("app");
        let thief = locks.clone();
        let guard = block_on(locks.lock("db")).unwrap();
        let thief = thread::spawn(move || drop(block_on(thief.lock("db").steal()).unwrap()));
        assert_eq!(block_on(guard.lost()), Lost::Stolen);
        thief.join().unwrap();
        drop(guard);
        assert_empty(&locks);
    });
}

#[test]
fn an_agent_whose_handle_goes_holds_on_until_its_guard_goes() {
    explore(|| {
        let bucket = user_agent().bucket("app");
        let (handle, others) = (bucket.lock_manager(), bucket.lock_manager());
        let onlooker = bucket.lock_manager();
        let guard = block_on(handle.lock("db")).unwrap();
        let token = guard.fencing_token();
        let waits = thread::spawn(move || block_on(others.lock("db")).unwrap().fencing_token());
        let goes = thread::spawn(move || drop(handle));
        assert!(!guard.is_lost());
        drop(guard);
        goes.join().unwrap();
        assert!(waits.join().unwrap() > token);
        assert_empty(&onlooker);
    });
}

#[test]
fn a_snapshot_is_one_moment_of_all_shards() {
    explore(|| {
        let reach = MemoryReach::default().with_shards(8);
        let locks = UserAgent::with_memory(reach).lock_manager("app");
        let walker = locks.clone();
        let mut held = block_on(walker.lock("0")).unwrap();
        let walker = thread::spawn(move || {
            // The walker takes the next lock before it releases the last one. So it always has a
            // lock.
            for name in ["1", "2", "3"] {
                held = block_on(walker.lock(name)).unwrap();
            }
            held
        });
        for _ in 0..3 {
            assert!(!block_on(locks.query()).unwrap().held.is_empty());
        }
        drop(walker.join().unwrap());
        assert_empty(&locks);
    });
}

#[test]
fn an_agent_ends_in_all_shards_at_one_moment() {
    explore(|| {
        let reach = MemoryReach::default().with_shards(4);
        let user_agent = UserAgent::with_memory(reach);
        let [dying, onlooker] = [(); 2].map(|()| user_agent.lock_manager("app"));
        let held = ["0", "1", "2", "3", "4", "5"].map(|name| block_on(dying.lock(name)).unwrap());
        let onlooker = thread::spawn(move || {
            for _ in 0..2 {
                let seen = block_on(onlooker.query()).unwrap().held.len();
                assert!(seen == 0 || seen == 6, "half of an agent: {seen} locks");
            }
        });
        dying.terminate();
        onlooker.join().unwrap();
        drop(held);
    });
}

/// The ids of all held locks, or of all pending requests.
fn all(overview: &Overview, which: fn(&Queue) -> &Vec<Entry>) -> BTreeSet<LockId> {
    overview.queues.values().flat_map(which).map(|entry| entry.id).collect()
}

#[test]
fn a_looker_that_begins_during_changes_sees_each_change_once() {
    explore(|| {
        let user_agent = user_agent();
        let workers = [["a", "b"], ["a", "a"]].map(|names| {
            let locks = user_agent.lock_manager("app");
            thread::spawn(move || {
                for name in names {
                    drop(block_on(locks.lock(name)).unwrap());
                }
            })
        });
        let looks = user_agent.clone();
        let (begins, begun) = mpsc::channel();
        // The looker waits without a timeout, because the model has no clock. So it has to
        // recognise the last lock.
        let looker = thread::spawn(move || {
            let mut looker = looks.look(LookOptions::default()).unwrap();
            assert_eq!(looker.next(None), Ok(Some(News::Anew { missed: 0 })));
            let mut held = all(looker.overview(), |queue| &queue.held);
            let mut pending = all(looker.overview(), |queue| &queue.pending);
            begins.send(()).unwrap();
            let (mut is_last, mut is_over) = (false, false);
            while !is_over {
                let Ok(Some(News::Events(events))) = looker.next(None) else { panic!() };
                for event in events {
                    match event.change {
                        Change::Requested { entry, .. } => assert!(pending.insert(entry.id)),
                        Change::Granted { entry, name } => {
                            pending.remove(&entry.id);
                            assert!(held.insert(entry.id));
                            is_last |= &name.name == "last";
                        }
                        Change::Released { id, .. } => {
                            assert!(held.remove(&id));
                            is_over = is_last && held.is_empty();
                        }
                        _ => {}
                    }
                    let held_of = looker.overview().queues.values().map(|queue| queue.held.len());
                    assert!(held_of.max().is_none_or(|most| most <= 1));
                }
            }
            assert!(pending.is_empty() && looker.overview().queues.is_empty());
        });
        for worker in workers {
            worker.join().unwrap();
        }
        begun.recv().unwrap();
        drop(block_on(user_agent.lock_manager("app").lock("last")).unwrap());
        looker.join().unwrap();
    });
}

#[test]
fn closing_reaches_agents_that_open_meanwhile() {
    explore(|| {
        let user_agent = user_agent();
        let closer = user_agent.clone();
        let closer = thread::spawn(move || closer.close());
        let locks = user_agent.lock_manager("app");
        match block_on(locks.lock("db")) {
            Ok(guard) => assert_eq!(block_on(guard.lost()), Lost::Closed),
            Err(error) => assert_eq!(error, Error::Closed),
        }
        closer.join().unwrap();
        assert_eq!(block_on(locks.lock("db")).unwrap_err(), Error::Closed);
    });
}

#[test]
fn closing_grants_nothing_to_whom_it_closes() {
    explore(|| {
        let user_agent = user_agent();
        let [holder, waiter] = [(); 2].map(|()| user_agent.lock_manager("app"));
        let guard = block_on(holder.lock("db")).unwrap();
        let waiter = thread::spawn(move || {
            assert_eq!(block_on(waiter.lock("db")).unwrap_err(), Error::Closed);
        });
        user_agent.close();
        waiter.join().unwrap();
        assert_eq!(block_on(guard.lost()), Lost::Closed);
    });
}

#[test]
fn tokens_grow_however_a_bucket_comes_and_goes() {
    explore(|| {
        let user_agent = user_agent();
        let last = std::sync::Arc::new(Mutex::new(None));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (user_agent, last) = (user_agent.clone(), last.clone());
                thread::spawn(move || {
                    // Only this thread uses the bucket, or other threads use it as well.
                    let guard = block_on(user_agent.lock_manager("app").lock("db")).unwrap();
                    let token = Some(guard.fencing_token());
                    let before = std::mem::replace(&mut *last.lock().unwrap(), token);
                    assert!(token > before, "{token:?} after {before:?}");
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
