//! Requests that are given up before etcd has answered, beside others of the same connection.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, LockManager};

use super::{exclusive, machines, settle, soon, state, witness::Witness};

/// For how long.
const TIME: Duration = Duration::from_secs(3);

#[test]
fn requests_that_are_given_up_do_not_disturb_others() {
    let [locks, other] = machines();
    let busy = exclusive(&other, "busy");
    let (witnesses, is_over) = ([(); 8].map(|()| Witness::default()), AtomicBool::new(false));
    thread::scope(|scope| {
        let players = witnesses.each_ref().map(|witness| {
            let (locks, is_over) = (&locks, &is_over);
            scope.spawn(move || {
                let name = format!("{witness:p}");
                while !is_over.load(SeqCst) {
                    let guard = if witness.grants() % 3 == 0 {
                        soon(locks.lock(&*name).if_available()).unwrap()
                    } else {
                        Some(exclusive(locks, &name))
                    };
                    witness.enter(guard.expect("nobody else asks for it"), Duration::ZERO);
                }
            })
        });
        let givers = [0, 1, 2].map(|nth| {
            let (locks, is_over) = (&locks, &is_over);
            scope.spawn(move || {
                if nth > 0 {
                    return give_up(locks, is_over, nth);
                }
                while !is_over.load(SeqCst) {
                    let mut request = pin!(locks.lock("busy").if_available().into_future());
                    let _ = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    // Sent, and mostly not answered.
                    thread::sleep(Duration::from_micros(200));
                }
            })
        });
        let since = Instant::now();
        while since.elapsed() < TIME && !players.iter().any(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, SeqCst);
        for giver in givers {
            giver.join().expect("it is told that its time is over");
        }
        for player in players {
            player.join().expect("nobody is disturbed");
        }
    });
    drop(busy);
    [&locks, &other].into_iter().for_each(settle);
    assert_eq!(state(&locks), (vec![], vec![]));
}

/// Waits, and leaves the queue again.
fn give_up(locks: &LockManager, is_over: &AtomicBool, nth: u64) {
    while !is_over.load(SeqCst) {
        let waited = locks.lock("busy").blocking_timeout(Duration::from_micros(nth * 1500));
        assert!(matches!(waited.err(), Some(Error::TimedOut(_))));
    }
}
