//! Rules 19 and 29 to 32: the snapshot.

use std::{
    future::{Future, IntoFuture},
    task::{Context, Waker},
};

use navlock_core::{LockManager, Mode, UserAgent};

use super::{Waiting, agent, exclusive, shared, snapshot, soon};

/// Rules 29 and 31.
pub fn a_snapshot_shows_the_whole_bucket(user_agent: &UserAgent) {
    let (a, b, onlooker) = (agent(user_agent), agent(user_agent), agent(user_agent));
    let _held = (exclusive(&a, "db"), shared(&b, "log"), shared(&a, "log"));
    let _pending = (Waiting::new(&b, b.lock("db")), Waiting::new(&a, a.lock("log")));

    let (mut held, mut pending) = snapshot(&onlooker);
    held.sort_by(|a, b| a.0.cmp(&b.0));
    pending.sort_by(|a, b| a.0.cmp(&b.0));
    let entry = |name: &str, mode| (name.to_owned(), mode);
    assert_eq!(
        held,
        [entry("db", Mode::Exclusive), entry("log", Mode::Shared), entry("log", Mode::Shared)]
    );
    assert_eq!(pending, [entry("db", Mode::Exclusive), entry("log", Mode::Exclusive)]);
}

/// Rule 31: nothing comes between the only poll of a request and the query.
pub fn a_query_right_after_a_request_shows_it(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let mut context = Context::from_waker(Waker::noop());
    for round in 1..=3 {
        let mut requests: Vec<_> =
            (0..round).map(|_| Box::pin(locks.lock("db").into_future())).collect();
        // The guards are kept, because a guard that is dropped releases its lock.
        let _guards: Vec<_> =
            requests.iter_mut().map(|request| request.as_mut().poll(&mut context)).collect();
        let state = soon(locks.query()).unwrap();
        assert_eq!((state.held.len(), state.pending.len()), (1, round - 1));
    }
}

/// Rule 30.
pub fn pending_is_in_the_order_of_the_grants(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let agents: Vec<_> = (0..5).map(|_| agent(user_agent)).collect();
    let holder = exclusive(&locks, "db");
    let waiters: Vec<_> = agents
        .iter()
        .enumerate()
        .map(|(nth, agent)| {
            let request = agent.lock("db");
            Waiting::new(agent, if nth % 2 == 0 { request.shared() } else { request })
        })
        .collect();

    let pending = soon(locks.query()).unwrap().pending;
    let by: Vec<_> = pending.iter().map(|info| info.client_id).collect();
    assert_eq!(by, agents.iter().map(LockManager::client_id).collect::<Vec<_>>());
    let modes: Vec<_> = pending.iter().map(|info| info.mode).collect();
    assert_eq!(modes[..3], [Mode::Shared, Mode::Exclusive, Mode::Shared]);
    drop((holder, waiters));
}

/// Rule 19.
pub fn an_aborted_request_is_gone_at_once(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let _holder = exclusive(&locks, "db");
    let waiter = Waiting::new(&locks, locks.lock("db"));
    assert_eq!(snapshot(&locks).1.len(), 1);
    drop(waiter);
    assert_eq!(snapshot(&locks).1, vec![]);
}

/// Rule 32.
pub fn every_agent_has_one_client_id(user_agent: &UserAgent) {
    let (a, b) = (agent(user_agent), agent(user_agent));
    let _held = (shared(&a, "x"), shared(&a.clone(), "x"), shared(&b, "x"));
    let _pending = Waiting::new(&a, a.lock("x"));

    let state = soon(b.query()).unwrap();
    let held: Vec<_> = state.held.iter().map(|info| info.client_id).collect();
    assert_eq!(held, [a.client_id(), a.client_id(), b.client_id()]);
    assert_eq!(state.pending[0].client_id, a.client_id());
    assert_ne!(a.client_id(), b.client_id());

    // A version 4 UUID: 122 random bits.
    let text = a.client_id().to_string();
    assert_eq!(text.len(), 36);
    assert_eq!(&text[14..15], "4");
    assert!("89ab".contains(&text[19..20]));
    assert_eq!(text.parse(), Ok(a.client_id()));
}
