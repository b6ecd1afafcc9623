//! Rules 25 and 26: the end of agents.

use navlock_core::{Error, Lost, UserAgent};

use super::{Waiting, agent, assert_nothing_is_left, exclusive, shared, soon};

/// Rule 25: no request of the dying agent is granted on the way.
pub fn termination_ends_requests_then_locks_then_wakes(user_agent: &UserAgent) {
    let (dying, heir) = (agent(user_agent), agent(user_agent));
    let held = exclusive(&dying, "db");
    let own_request = Waiting::new(&dying, dying.lock("db"));
    let heirs_request = Waiting::new(&heir, heir.lock("db"));
    // Shared by both; the dying agent's writer keeps the heir's reader out.
    let (own_reader, _heirs_reader) = (shared(&dying, "log"), shared(&heir, "log"));
    let own_writer = Waiting::new(&dying, dying.lock("log"));
    let heirs_second_reader = Waiting::new(&heir, heir.lock("log").shared());

    dying.terminate();
    assert_eq!(own_request.failed(), Error::Terminated);
    assert_eq!(own_writer.failed(), Error::Terminated);
    assert_eq!(soon(held.lost()), Lost::Terminated);
    assert!(own_reader.is_lost());
    let heirs = heirs_request.granted();
    drop(heirs_second_reader.granted());

    // What the dead agent drops later is not the heir's.
    drop(held);
    assert!(!heirs.is_lost());
}

/// After the end.
pub fn a_terminated_agent_gets_nothing_any_more(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let clone = locks.clone();
    locks.terminate();
    locks.terminate();
    assert_eq!(soon(clone.lock("db")).unwrap_err(), Error::Terminated);
    assert_eq!(soon(clone.lock("-")).unwrap_err().dom_exception_name(), "InvalidStateError");
    assert_eq!(soon(clone.query()), Err(Error::Terminated));
    drop(exclusive(&locks.bucket().lock_manager(), "db"));
}

/// A guard from a temporary handle stays good.
pub fn an_agent_lives_as_long_as_a_guard(user_agent: &UserAgent) {
    let guard = exclusive(&agent(user_agent), "db");
    let others = agent(user_agent);
    let mut waiter = Waiting::new(&others, others.lock("db"));
    assert!(!guard.is_lost());
    assert!(waiter.still(&others));
    drop(guard);
    drop(waiter.granted());
}

/// Rule 25, as Rust programs end.
pub fn dropping_everything_frees_everything(user_agent: &UserAgent) {
    let (dying, heir) = (agent(user_agent), agent(user_agent));
    let held = exclusive(&dying, "db");
    let request = Waiting::new(&dying, dying.lock("db"));
    let heirs_request = Waiting::new(&heir, heir.lock("db"));
    drop(request);
    drop((dying, held));
    drop(heirs_request.granted());
    assert_nothing_is_left(&heir);
}

/// The end of a user agent.
pub fn closing_a_user_agent_ends_all_of_it(user_agent: &UserAgent) {
    let (a, b) = (agent(user_agent), user_agent.lock_manager("another bucket"));
    let held = exclusive(&a, "db");
    let waiting = Waiting::new(&a, a.lock("db"));
    let elsewhere = exclusive(&b, "db");

    user_agent.close();
    user_agent.close();
    assert_eq!(waiting.failed(), Error::Closed);
    assert_eq!(soon(held.lost()), Lost::Closed);
    assert_eq!(soon(elsewhere.lost()), Lost::Closed);
    for locks in [a, b, agent(user_agent), user_agent.lock_manager("a third")] {
        assert_eq!(soon(locks.lock("db")).unwrap_err(), Error::Closed);
        assert_eq!(soon(locks.query()), Err(Error::Closed));
    }
}
