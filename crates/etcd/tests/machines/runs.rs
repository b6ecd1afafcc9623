//! Several of one machine that are next: it has the name for them, and hands it over among them without etcd.

use std::iter;

use navlock_core::{Inspected, LockFuture, LockGuard, LockManager, Lost};

use super::{
    exclusive,
    owning::{asked, beside, owner_at, poll},
    settle, soon, state, until_waiting,
};
use crate::server::{Server, revision};

type Waiting<'a> = LockFuture<'a, LockGuard, &'a str>;

/// How many of one machine wait, before one of another.
const COUNT: usize = 20;

/// Agents of three machines: two of the first, many of the second, and one of the third.
struct Agents {
    first: [LockManager; 2],
    many: Vec<LockManager>,
    third: LockManager,
}

impl Agents {
    fn new(server: &Server) -> Self {
        let [a, b, third] = [(); 3].map(|()| owner_at(&server.endpoint(), "navlock"));
        let many = iter::repeat_with(|| beside(&b)).take(COUNT).collect();
        Self { first: [beside(&a), a], many, third }
    }

    /// One of the first machine holds the lock, then the many wait for it, and then the other of the first.
    fn queue(&self) -> (LockGuard, Vec<Waiting<'_>>) {
        let [first, last] = &self.first;
        let holder = exclusive(first, "db");
        let mut waiting: Vec<_> = self.many.iter().map(|agent| asked(agent, "db")).collect();
        until_waiting(first, COUNT);
        waiting.push(asked(last, "db"));
        until_waiting(first, COUNT + 1);
        (holder, waiting)
    }

    /// The same once the second of the many has it, whose machine has it for the others as well.
    fn run(&self) -> (LockGuard, Vec<Waiting<'_>>) {
        let (holder, mut waiting) = self.queue();
        let guard = each(holder, waiting.drain(..2));
        (guard, waiting)
    }
}

/// Has these take the lock, each after the one before it. The last of them holds it.
#[track_caller]
fn each<'a>(first: LockGuard, waiting: impl IntoIterator<Item = Waiting<'a>>) -> LockGuard {
    waiting.into_iter().fold(first, |guard, waiting| {
        let before = guard.fencing_token();
        drop(guard);
        let guard = soon(waiting).unwrap();
        assert!(guard.fencing_token() > before, "tokens go back");
        guard
    })
}

#[test]
fn waiters_of_one_machine_hand_a_lock_over_without_etcd() {
    let server = Server::start();
    let agents = Agents::new(&server);
    let (holder, waiting) = agents.queue();
    let before = revision(&server);
    drop(each(holder, waiting));
    settle(&agents.first[1]);
    assert_eq!(state(&agents.third), (vec![], vec![]));
    // To hand it to the first of them, to have it for the others, to give it up, and to end.
    let writes = revision(&server) - before;
    assert!(writes < 8, "{writes} writes for {COUNT} handovers");
}

#[test]
fn a_request_during_a_run_comes_after_waiters_of_other_machines() {
    let server = Server::start();
    let agents = Agents::new(&server);
    let (guard, waiting) = agents.run();
    let late = beside(&agents.many[0]);
    let mut late = asked(&late, "db");
    let last = each(guard, waiting);
    assert!(!poll(&mut late), "it has overtaken one of another machine");
    drop(each(last, [late]));
}

#[test]
fn a_thief_leaves_those_who_wait_their_places() {
    let server = Server::start();
    let agents = Agents::new(&server);
    let (guard, mut waiting) = agents.run();
    let thief = soon(agents.third.lock("db").steal()).unwrap();
    assert_eq!(soon(guard.lost()), Lost::Stolen);
    assert!(waiting.iter_mut().all(|waiting| !poll(waiting)));
    drop(each(thief, waiting));
}

#[test]
fn a_thief_of_the_same_machine_leaves_those_who_wait_their_places() {
    let server = Server::start();
    let agents = Agents::new(&server);
    let (guard, mut waiting) = agents.run();
    let thief = soon(agents.many[0].lock("db").steal()).unwrap();
    assert_eq!(soon(guard.lost()), Lost::Stolen);
    assert!(waiting.iter_mut().all(|waiting| !poll(waiting)));
    drop(each(thief, waiting));
}

#[test]
fn a_looker_sees_the_holder_and_the_waiters_of_a_run_in_their_order() {
    let server = Server::start();
    let agents = Agents::new(&server);
    let (guard, waiting) = agents.run();
    let seen = soon(agents.third.inspect(None)).unwrap();
    let whose =
        |all: &[Inspected]| -> Vec<_> { all.iter().map(|one| one.lock.client_id).collect() };
    assert_eq!(whose(&seen.held), [agents.many[1].client_id()]);
    assert_eq!(seen.held[0].fencing_token, Some(guard.fencing_token()));
    let rest = agents.many[2..].iter().chain([&agents.first[1]]);
    let rest: Vec<_> = rest.map(LockManager::client_id).collect();
    assert_eq!(whose(&seen.pending), rest);
    drop(each(guard, waiting));
}

#[test]
fn an_if_available_request_is_refused_during_a_run_and_nobody_is_asked() {
    let server = Server::start();
    let agents = Agents::new(&server);
    // Each has a lease by now.
    drop(exclusive(&agents.third, "other"));
    let (guard, waiting) = agents.run();
    let before = revision(&server);
    for agent in [&agents.third, &agents.first[0], &agents.many[0]] {
        assert!(soon(agent.lock("db").if_available()).unwrap().is_none());
    }
    assert_eq!(revision(&server), before);
    drop(each(guard, waiting));
}

#[test]
fn readers_behind_a_run_hold_it_at_one_time() {
    let server = Server::start();
    let Agents { first: [first, last], many, .. } = &Agents::new(&server);
    let holder = exclusive(first, "db");
    let writers = [&many[0], &many[1]].map(|agent| asked(agent, "db"));
    let read = |agent| {
        let mut reader = LockManager::lock(agent, "db").shared().into_future();
        assert!(!poll(&mut reader));
        reader
    };
    let here = read(&many[2]);
    until_waiting(first, 3);
    let elsewhere = read(last);
    until_waiting(first, 4);
    drop(each(holder, writers));
    let reader = soon(here).unwrap();
    drop((soon(elsewhere).unwrap(), reader));
}

#[test]
fn a_waiter_of_a_run_that_gives_up_is_passed_over() {
    let server = Server::start();
    let agents = Agents::new(&server);
    let (guard, mut waiting) = agents.run();
    // Up to the last that is of another machine.
    let last = waiting.pop().unwrap();
    drop(waiting);
    let last = each(guard, [last]);
    drop(last);
    assert_eq!(state(&agents.third), (vec![], vec![]));
}

#[test]
fn an_agent_that_ends_with_the_last_of_them_gives_the_name_up() {
    let server = Server::start();
    let agents = Agents::new(&server);
    let (guard, mut waiting) = agents.run();
    let last = waiting.pop().unwrap();
    drop(waiting);
    agents.many[1].terminate();
    assert_eq!(soon(guard.lost()), Lost::Terminated);
    drop(soon(last).unwrap());
}
