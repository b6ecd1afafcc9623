//! Rules 1 to 6: the queue.

use navlock_core::UserAgent;

use super::{Waiting, agent, assert_nothing_is_left, exclusive, shared, snapshot, soon};

/// Rule 3.
pub fn requests_of_one_name_are_granted_in_order(user_agent: &UserAgent) {
    let (a, b, c) = (agent(user_agent), agent(user_agent), agent(user_agent));
    let first = exclusive(&a, "db");
    let second = Waiting::new(&b, b.lock("db"));
    let mut third = Waiting::new(&c, c.lock("db"));

    drop(first);
    let second = second.granted();
    assert!(third.still(&c));
    drop(second);
    drop(third.granted());
    assert_nothing_is_left(&a);
}

/// Rule 1.
pub fn an_aborted_writer_lets_the_readers_behind_it_in(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let _reader = shared(&locks, "db");
    let writer = Waiting::new(&locks, locks.lock("db"));
    let second_reader = Waiting::new(&locks, locks.lock("db").shared());

    drop(writer);
    drop(second_reader.granted());
}

/// Rule 2.
pub fn if_available_does_not_overtake_a_waiter(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let reader = shared(&locks, "db");
    let writer = Waiting::new(&locks, locks.lock("db"));

    assert!(soon(locks.lock("db").shared().if_available()).unwrap().is_none());
    drop(reader);
    drop(writer.granted());
    assert!(soon(locks.lock("db").shared().if_available()).unwrap().is_some());
}

/// Rule 3.
pub fn a_reader_does_not_overtake_a_waiting_writer(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let reader = shared(&locks, "db");
    let writer = Waiting::new(&locks, locks.lock("db"));
    let mut second_reader = Waiting::new(&locks, locks.lock("db").shared());

    drop(reader);
    let writer = writer.granted();
    assert!(second_reader.still(&locks));
    drop(writer);
    drop(second_reader.granted());
}

/// Rule 4.
pub fn readers_at_the_head_are_granted_together(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let writer = exclusive(&locks, "db");
    let readers: Vec<_> = (0..3).map(|_| Waiting::new(&locks, locks.lock("db").shared())).collect();
    let mut last = Waiting::new(&locks, locks.lock("db"));

    drop(writer);
    let readers: Vec<_> = readers.into_iter().map(Waiting::granted).collect();
    assert_eq!(snapshot(&locks).0.len(), 3);
    assert!(last.still(&locks));
    drop(readers);
    drop(last.granted());
}

/// Rule 5.
pub fn twenty_thousand_waiters_drain_in_order(user_agent: &UserAgent) {
    use std::{
        future::{Future, IntoFuture},
        task::{Context, Waker},
    };

    let locks = agent(user_agent);
    let mut turn = exclusive(&locks, "db");
    let mut waiters: Vec<_> =
        (0..20_000).map(|_| Box::pin(locks.lock("db").into_future())).collect();
    for waiter in &mut waiters {
        assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    for waiter in waiters {
        let before = turn.fencing_token();
        drop(turn);
        turn = soon(waiter).unwrap();
        assert!(turn.fencing_token() > before);
    }
    drop(turn);
    assert_nothing_is_left(&locks);
}

/// Rule 6.
pub fn names_do_not_wait_for_each_other(user_agent: &UserAgent) {
    let (a, b) = (agent(user_agent), agent(user_agent));
    let _one = exclusive(&a, "one");
    let _waiter = Waiting::new(&b, b.lock("one"));
    drop(exclusive(&b, "another"));
    drop(shared(&a, ""));
}
