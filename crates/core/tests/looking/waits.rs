//! What a looker sees of requests that wait for each other, or that may give up.

use std::{
    future::{IntoFuture, poll_fn},
    mem,
    pin::pin,
    task::{Context, Poll, Waker},
};

use navlock_core::{
    LockManager, LockOptions, UserAgent,
    look::{Looker, Patience, deadlocks},
};

use super::{begin_all, fold::name, poll, take_events};

#[test]
fn agents_that_wait_for_each_other_are_seen_whenever_the_look_began() {
    let user_agent = UserAgent::new();
    let locks = [(); 2].map(|()| user_agent.lock_manager("app"));
    let mut early = begin_all(&user_agent);
    let mut one = pin!(hold_both(&locks[0], "a", "b"));
    let mut two = pin!(hold_both(&locks[1], "b", "a"));
    for _ in 0..2 {
        assert!(!poll(one.as_mut()));
        assert!(!poll(two.as_mut()));
    }
    let assert_told = |looker: &Looker| {
        let found = deadlocks(looker.overview());
        assert_eq!(found.len(), 1, "{:#?}", looker.overview());
        assert!(found[0].is_certain);
        assert_eq!(found[0].gives_way().client_id, locks[1].client_id());
    };
    take_events(&mut early);
    assert_told(&early);
    drop(early);
    // This look begins after the deadlock has come about.
    assert_told(&begin_all(&user_agent));
}

/// Takes one lock, lets others run, and then asks for the other lock inside the first.
async fn hold_both(locks: &LockManager, mine: &str, others: &str) {
    let work = async |_| {
        let mut is_first = true;
        let turn = |_: &mut Context<'_>| {
            if mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
        };
        poll_fn(turn).await;
        locks.request(others, async |_| ()).await
    };
    let _ = locks.request(mine, work).await;
}

#[test]
fn a_request_that_may_give_up_is_seen_to_whenever_the_look_began() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let mut early = begin_all(&user_agent);
    let held = locks.lock("a").blocking().unwrap();
    let options = LockOptions { signal: true, ..LockOptions::default() };
    let mut waits = pin!(locks.lock_with("a", options).into_future());
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    take_events(&mut early);
    let late = begin_all(&user_agent);
    for looker in [&early, &late] {
        let queue = &looker.overview().queues[&name("app", "a")];
        assert!(
            queue.pending[0].patience == Patience::MayGiveUp
                && queue.held[0].patience == Patience::Endless
        );
    }
    // A lock does not give up, even if its request could.
    drop(held);
    take_events(&mut early);
    assert_eq!(early.overview().queues[&name("app", "a")].held[0].patience, Patience::Endless);
}
