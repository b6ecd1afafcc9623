//! What programs see of each other.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    thread,
};

use navlock_core::{Error, Lost, ResourceName};

use crate::daemon::{Daemon, queue, soon};

#[test]
fn a_lock_is_exclusive_between_programs_and_goes_on_when_released() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let held = soon(a.lock("db")).unwrap();
    assert!(soon(b.lock("db").if_available()).unwrap().is_none());
    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    let token = held.fencing_token();
    drop(held);
    assert!(soon(waiting).unwrap().fencing_token() > token);
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let readers = [&a, &b].map(|locks| soon(locks.lock("db").shared()).unwrap());
    let mut writer = pin!(b.lock("db").into_future());
    queue(&b, "db", writer.as_mut());
    // A reader does not overtake the writer.
    assert!(soon(a.lock("db").shared().if_available()).unwrap().is_none());
    drop(readers);
    drop(soon(writer).unwrap());
}

#[test]
fn the_victim_of_a_theft_is_told() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let held = soon(a.lock("db")).unwrap();
    let stolen = soon(b.lock("db").steal()).unwrap();
    assert_eq!(soon(held.lost()), Lost::Stolen);
    assert_eq!(held.stolen_by(), Some(b.client_id()));
    assert!(held.is_lost());
    // When the victim ends its lost lock, the thief's lock stays.
    drop(held);
    assert!(soon(a.lock("db").if_available()).unwrap().is_none());
    drop(stolen);
    assert!(soon(b.lock("db").if_available()).unwrap().is_some());
}

#[test]
fn a_request_after_a_release_finds_the_lock_free() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    for _ in 0..200 {
        let guard = soon(locks.lock("db").if_available()).unwrap();
        assert!(guard.is_some());
    }
}

#[test]
fn a_request_that_is_dropped_leaves_its_queue() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let _reader = soon(a.lock("db").shared()).unwrap();
    {
        let mut writer = pin!(b.lock("db").into_future());
        queue(&b, "db", writer.as_mut());
    }
    assert!(soon(b.query()).unwrap().pending.is_empty());
    drop(soon(b.lock("db").shared()).unwrap());
}

#[test]
fn buckets_do_not_see_each_other() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let (a, b) = (client.lock_manager("a"), client.lock_manager("b"));
    let _held = soon(a.lock("db")).unwrap();
    let _also = soon(b.lock("db")).unwrap();
    for locks in [&a, &b] {
        let state = soon(locks.query()).unwrap();
        let clients: Vec<_> = state.held.iter().map(|info| info.client_id).collect();
        assert_eq!(clients, [locks.client_id()]);
    }
    assert_ne!(a.client_id(), b.client_id());
}

#[test]
fn long_names_and_lone_surrogates_come_back_as_they_were() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let long = ResourceName::try_from("n".repeat(1 << 20)).unwrap();
    let surrogate = ResourceName::from_utf16(&[0x64, 0xD800]).unwrap();
    let other = ResourceName::from_utf16(&[0x64, 0xD801]).unwrap();
    let _guards = [&long, &surrogate, &other].map(|name| soon(a.lock(name)).unwrap());
    let mut names: Vec<_> =
        soon(b.query()).unwrap().held.into_iter().map(|info| info.name).collect();
    names.sort();
    assert!(names == [surrogate, other, long]);

    let longer = "n".repeat((1 << 20) + 1);
    let refused = soon(a.lock(longer));
    assert!(matches!(refused, Err(Error::Refused(why)) if why.message().contains("1048576")));
}

#[test]
fn a_snapshot_longer_than_any_frame_arrives_whole() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let name = |i: usize| format!("{i:05}{}", "x".repeat(10_000));
    let guards: Vec<_> = (0..500).map(|i| soon(locks.lock(name(i))).unwrap()).collect();
    let mut waiting: Vec<_> =
        (0..500).map(|_| Box::pin(locks.lock(name(7)).shared().into_future())).collect();
    for request in &mut waiting {
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let state = soon(locks.query()).unwrap();
    let mut held: Vec<_> = state.held.iter().map(|info| info.name.to_string()).collect();
    held.sort();
    assert!(held == (0..500).map(name).collect::<Vec<_>>());
    assert_eq!(state.pending.len(), 500);
    drop((guards, waiting));
}

#[test]
fn terminating_an_agent_frees_what_it_has_and_nothing_else() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let (a, b) = (client.lock_manager("app"), client.lock_manager("app"));
    let held = soon(a.lock("mine")).unwrap();
    let theirs = soon(b.lock("theirs")).unwrap();
    let mut waiting = pin!(a.lock("theirs").into_future());
    queue(&a, "theirs", waiting.as_mut());

    a.terminate();
    assert!(held.is_lost());
    assert_eq!(soon(held.lost()), Lost::Terminated);
    assert_eq!(soon(waiting).unwrap_err(), Error::Terminated);
    assert_eq!(soon(a.lock("mine")).unwrap_err(), Error::Terminated);
    drop(soon(b.lock("mine")).unwrap());
    assert!(!theirs.is_lost());
}

#[test]
fn a_handle_that_is_dropped_takes_its_agent_along() {
    let daemon = Daemon::start();
    let client = daemon.client();
    for _ in 0..100 {
        let locks = client.lock_manager("app");
        let _held = soon(locks.lock("db").if_available()).unwrap().unwrap();
    }
}

#[test]
fn a_lock_from_many_threads_is_granted_one_at_a_time() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let counter = std::sync::atomic::AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            let (locks, counter) = (client.lock_manager("app"), &counter);
            scope.spawn(move || {
                for _ in 0..50 {
                    let request = locks.request("db", async |_| {
                        let seen = counter.load(std::sync::atomic::Ordering::Relaxed);
                        thread::yield_now();
                        counter.store(seen + 1, std::sync::atomic::Ordering::Relaxed);
                    });
                    soon(request).unwrap();
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 400);
}

#[test]
fn a_waiter_is_told_of_its_own_queue_however_many_other_names_are_held() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let _others: Vec<_> = (0..50).map(|n| soon(b.lock(format!("other {n}"))).unwrap()).collect();
    let held = [&a, &b].map(|locks| soon(locks.lock("db").shared()).unwrap());
    let mut first = pin!(a.lock("db").into_future());
    queue(&a, "db", first.as_mut());
    let mut second = pin!(b.lock("db").into_future());
    queue(&b, "db", second.as_mut());
    let position = soon(b.position("db".try_into().unwrap())).unwrap();
    assert_eq!((position.holders, position.ahead), (2, Some(1)));
    let holder = position.holder.unwrap();
    assert_eq!(holder.lock.client_id, a.client_id());
    assert_eq!(holder.agent.unwrap().pid, std::process::id());
    assert!(holder.age.is_some());
    // A name that is owned, but not held, has no holder.
    drop(held);
    drop(soon(first).unwrap());
    drop(soon(second).unwrap());
    let position = soon(b.position("db".try_into().unwrap())).unwrap();
    assert_eq!((position.holders, position.ahead), (0, None));
}

/// The thread that keeps the connection has the reader while something waits. It reads what there is for a thread that
/// wants to know whether it has lost its lock, and has the reader again before that thread has their only CPU.
#[cfg(target_os = "linux")]
#[test]
fn a_holder_is_not_kept_by_the_thread_that_reads() {
    use std::time::{Duration, Instant};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let quickest = (0..5).map(|_| {
        let held = soon(locks.lock("db")).unwrap();
        let mut waiting = pin!(locks.lock("db").into_future());
        queue(&locks, "db", waiting.as_mut());
        // After this time, the connection is read before it is said that a lock is held.
        thread::sleep(Duration::from_millis(60));
        let began = Instant::now();
        assert!(!held.is_lost());
        let took = began.elapsed();
        drop(held);
        drop(soon(waiting).unwrap());
        took
    });
    let quickest = quickest.min().unwrap();
    assert!(quickest < Duration::from_millis(400), "{quickest:?}");
}
