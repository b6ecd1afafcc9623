//! A machine that does nothing for longer than its lease, and does not know that time has passed.

use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};

use navlock_core::{LockGuard, LockManager, Lost};

use super::{
    exclusive,
    process::{Line, Process},
    soon, state, until_waiting,
};
use crate::server::{DEADLINE, connect, namespace, options, shared};

/// The shortest that a store keeps to.
pub(crate) const TIME_TO_LIVE: Duration = Duration::from_secs(2);

/// By the clock that all processes of the machine have.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_nanos().try_into().unwrap()
}

/// The process that is paused: it holds a lock, and does nothing but look at it.
pub(crate) fn hold(locks: &LockManager, mut line: Line) {
    let guard = exclusive(locks, "db");
    line.say(&format!("held {}", guard.fencing_token()));
    let mut believed = 0;
    loop {
        let looking = now();
        if guard.is_lost() {
            break;
        }
        believed = looking;
        thread::sleep(Duration::from_millis(1));
    }
    line.say(&format!("lost {believed}"));
    assert_eq!(soon(guard.lost()), Lost::Disconnected);
    // What it releases is another's by now.
    drop(guard);
    let again = exclusive(locks, "db");
    line.say(&format!("again {}", again.fencing_token()));
}

#[test]
fn a_holder_that_was_paused_knows_at_its_first_look_that_it_has_lost() {
    let namespace = namespace();
    let (process, mut line) = Process::start("holder", &namespace);
    let other = connect(&options(&shared().endpoint(), &namespace).time_to_live(DEADLINE));
    let other = other.lock_manager("bucket");
    let token = line.read_numbers("held")[0];
    let successor = thread::scope(|scope| {
        let successor = scope.spawn(|| exclusive(&other, "db"));
        until_waiting(&other, 1);
        process.stop();
        freed(&process, &mut line, || successor.join().unwrap())
    });
    goes_on(process, line, token, &other, successor);
}

#[test]
fn a_machine_that_was_paused_knows_that_the_names_it_kept_are_lost() {
    let namespace = namespace();
    let (process, mut line) = Process::start("owner", &namespace);
    let other = connect(&options(&shared().endpoint(), &namespace).time_to_live(DEADLINE));
    let other = other.lock_manager("bucket");
    let token = line.read_numbers("held")[0];
    // Nobody was there before, so the store knows of no lock.
    process.stop();
    let successor = freed(&process, &mut line, || exclusive(&other, "db"));
    goes_on(process, line, token, &other, successor);
}

/// Lets a process go on that was just stopped, once this has its lock.
fn freed(process: &Process, line: &mut Line, successor: impl FnOnce() -> LockGuard) -> LockGuard {
    let (stopped, since) = (now(), Instant::now());
    let successor = successor();
    let took = since.elapsed();
    // A store looks for leases that have ended now and then.
    assert!(took < TIME_TO_LIVE + Duration::from_secs(20), "freed after {took:?}");
    process.go_on();
    let believed = line.read_numbers("lost")[0];
    assert!(believed < stopped, "{} ns after it was stopped", believed - stopped);
    successor
}

/// It asks again, and is granted after its successor.
fn goes_on(
    process: Process,
    mut line: Line,
    token: u64,
    other: &LockManager,
    successor: LockGuard,
) {
    assert!(successor.fencing_token().get() > token);
    until_waiting(other, 1);
    assert!(!successor.is_lost(), "what is released was lost");
    let token = successor.fencing_token().get();
    drop(successor);
    assert!(line.read_numbers("again")[0] > token);
    process.end();
    // It took its leave.
    assert_eq!(state(other), (vec![], vec![]));
}
