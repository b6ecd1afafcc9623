//! Rule 33: buckets and agents are separate.

use navlock_core::UserAgent;

use super::{Waiting, agent, assert_nothing_is_left, exclusive, snapshot, soon};

/// Rule 33.
pub fn buckets_do_not_see_each_other(user_agent: &UserAgent) {
    let (here, there) = (user_agent.lock_manager("here"), user_agent.lock_manager("there"));
    let mine = exclusive(&here, "db");
    let _waiter = Waiting::new(&here, here.lock("db"));
    assert_nothing_is_left(&there);

    let theirs = exclusive(&there, "db");
    let thief = soon(there.lock("db").steal()).unwrap();
    assert!(theirs.is_lost() && !mine.is_lost());
    there.terminate();
    assert!(thief.is_lost() && !mine.is_lost());
    assert_eq!(snapshot(&here).0.len(), 1);
}

/// The internal numbers of ended agents, requests and locks are used again, and nothing else of
/// them.
pub fn a_new_agent_is_no_heir_of_an_old_one(user_agent: &UserAgent) {
    let old = agent(user_agent);
    let stale = exclusive(&old, "db");
    old.terminate();
    drop(old);

    // The stale guard keeps the old agent's number from being given to another agent.
    let new = agent(user_agent);
    let held = exclusive(&new, "db");
    let waiting = Waiting::new(&new, new.lock("db"));
    assert!(stale.is_lost());
    drop(stale);
    assert!(!held.is_lost());
    drop(held);
    drop(waiting.granted());

    // Now nothing keeps the number.
    for _ in 0..3 {
        let next = agent(user_agent);
        drop(exclusive(&next, "db"));
        next.terminate();
        assert!(soon(next.lock("db")).is_err());
    }
    assert_nothing_is_left(&new);
}
