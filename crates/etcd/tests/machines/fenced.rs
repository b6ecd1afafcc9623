//! What fencing tokens are for: workers are stopped between looking at their lock and writing, for
//! longer than their lease. No lock that can end by itself keeps them from writing then.

use std::{thread, time::Duration};

use navlock_core::LockManager;

use super::{
    process::{Line, Process},
    register::{Register, State},
    soon, state,
};
use crate::server::{connect, namespace, options, shared};

/// How many are stopped in the worst moment.
const FAULTS: u64 = 4;

/// A worker: counts the register up under a lock, as well as it can know.
pub(crate) fn work(locks: &LockManager, mut line: Line) {
    while line.ask("done") == "go" {
        // One that was stopped while it waited has lost its place.
        let Ok(guard) = soon(locks.lock("register")) else { continue };
        let token = guard.fencing_token();
        let Ok(value) = line.ask(&format!("read {token}")).parse::<u64>() else { continue };
        if guard.is_lost() {
            continue;
        }
        line.ask(&format!("looked {token}"));
        line.ask(&format!("write {token} {}", value + 1));
    }
}

/// Four workers, of whom some are stopped when it is worst, and one at any time.
fn race(checks_tokens: bool) -> State {
    let namespace = namespace();
    let register = Register::new(checks_tokens, FAULTS);
    let (workers, lines): (Vec<_>, Vec<_>) =
        (0..4).map(|_| Process::start("worker", &namespace)).unzip();
    let bystander = &workers[3];
    thread::scope(|scope| {
        for (worker, line) in workers.iter().zip(lines) {
            // It is stopped by nobody else, who would let it go on too early.
            let victim = (!std::ptr::eq(worker, bystander)).then_some(worker);
            let register = &register;
            scope.spawn(move || register.serve(victim, line));
        }
        for pause in [2500, 100, 3200, 700] {
            bystander.stop();
            thread::sleep(Duration::from_millis(pause));
            bystander.go_on();
            thread::sleep(Duration::from_millis(210));
        }
    });
    workers.into_iter().for_each(Process::end);
    let locks = connect(&options(&shared().endpoint(), &namespace)).lock_manager("bucket");
    assert_eq!(state(&locks), (vec![], vec![]));
    let found = register.state();
    println!("tokens checked: {checks_tokens}; {found:?}, {} updates lost", found.lost_updates());
    assert!(found.writes > 50, "much was written");
    found
}

#[test]
fn a_resource_that_checks_tokens_loses_nothing_to_those_who_are_late() {
    let found = race(true);
    assert_eq!((found.late, found.lost_updates()), (0, 0), "{found:?}");
    assert!(found.refused >= FAULTS, "{found:?}");
}

/// That the one before can fail: without tokens, the same faults do harm.
#[test]
fn a_resource_that_does_not_check_tokens_is_harmed_by_those_who_are_late() {
    let found = race(false);
    assert!(found.late >= FAULTS && found.lost_updates() > 0, "{found:?}");
}
