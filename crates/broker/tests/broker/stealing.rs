//! Takes a name from the holders that were seen, and from nobody else.

use std::{future::IntoFuture, pin::pin};

use navlock_broker::{Control, Look, LookOptions, News, NotStolen, Place};
use navlock_core::{
    AgentInfo, FencingToken, LockGuard, LockManager, Lost,
    look::{Change, LockId, LockName},
};

use crate::{
    daemon::{Daemon, LONG, queue, soon},
    leased::LeasedDaemon,
};

fn db() -> LockName {
    LockName::new("app", "db".try_into().unwrap())
}

/// The locks by which `db` is seen to be held.
fn seen(place: &Place) -> Vec<(LockId, FencingToken)> {
    let overview = Look::once(place.clone(), LookOptions::default()).unwrap();
    let held = overview.queues.get(&db()).map_or(&[][..], |queue| &queue.held);
    held.iter().map(|held| (held.id, held.token.unwrap())).collect()
}

fn steal(place: &Place, from: &[(LockId, FencingToken)]) -> Result<usize, NotStolen> {
    let mut info = AgentInfo::default();
    "a hand".clone_into(&mut info.command);
    Control::connect(place).unwrap().steal(&db(), from, &info).unwrap()
}

fn held(locks: &LockManager) -> LockGuard {
    soon(locks.lock("db")).unwrap()
}

#[test]
fn a_holder_that_was_seen_loses_the_lock_to_the_next_in_the_queue() {
    let daemon = Daemon::start();
    let (one, two) = (daemon.locks(), daemon.locks());
    let victim = held(&one);
    let mut next = pin!(two.lock("db").into_future());
    queue(&two, "db", next.as_mut());
    let from = seen(&daemon.place());
    assert_eq!(steal(&daemon.place(), &from), Ok(1));
    assert_eq!(soon(victim.lost()), Lost::Stolen);
    assert!(victim.stolen_by().is_some());
    let next = soon(next).unwrap();
    assert!(!next.is_lost());
    // Even if the victim does not know of the theft yet, it holds nothing.
    assert_eq!(steal(&daemon.place(), &from), Err(NotStolen::HeldByOthers));
    drop(next);
    soon(two.query()).unwrap();
    assert_eq!(steal(&daemon.place(), &from), Err(NotStolen::Free));
}

#[test]
fn a_holder_that_came_after_the_look_keeps_the_lock() {
    let daemon = Daemon::start();
    let (one, two) = (daemon.locks(), daemon.locks());
    let first = held(&one);
    let from = seen(&daemon.place());
    drop(first);
    let other = held(&two);
    assert_eq!(steal(&daemon.place(), &from), Err(NotStolen::HeldByOthers));
    drop(other);
    // The name is not taken from the same agent either, if it holds the name by a later lock.
    let again = held(&one);
    assert_eq!(steal(&daemon.place(), &from), Err(NotStolen::HeldByOthers));
    soon(one.query()).unwrap();
    assert!(!again.is_lost());
}

#[test]
fn of_several_who_share_it_all_must_have_been_seen() {
    let daemon = Daemon::start();
    let agents = [(); 3].map(|()| daemon.locks());
    let share = |locks: &LockManager| soon(locks.lock("db").shared()).unwrap();
    let mut all = vec![share(&agents[0]), share(&agents[1])];
    let two = seen(&daemon.place());
    all.push(share(&agents[2]));
    assert_eq!(steal(&daemon.place(), &two), Err(NotStolen::HeldByOthers));
    let three = seen(&daemon.place());
    // It does no harm that one of these holders has gone.
    drop(all.remove(1));
    soon(agents[1].query()).unwrap();
    assert_eq!(steal(&daemon.place(), &three), Ok(2));
    for victim in all {
        assert_eq!(soon(victim.lost()), Lost::Stolen);
    }
}

#[test]
fn lookers_see_the_thief() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let victim = held(&locks);
    let mut look = Look::new(daemon.place(), LookOptions::default());
    look.next(Some(LONG)).unwrap();
    assert_eq!(steal(&daemon.place(), &seen(&daemon.place())), Ok(1));
    soon(victim.lost());
    let thief = victim.stolen_by().unwrap();
    let mut known = None;
    while known.is_none() || !look.overview().queues.is_empty() {
        match look.next(Some(LONG)).unwrap() {
            Some(News::Events(events)) => {
                known = known.or_else(|| {
                    events.into_iter().find_map(|event| match event.change {
                        // Looked for among the events, because the thief is gone from the overview at once.
                        Change::AgentCame { agent, details }
                            if agent == thief && !details.info.command.is_empty() =>
                        {
                            Some(details.info.command.clone())
                        }
                        _ => None,
                    })
                });
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(known.as_deref(), Some("a hand"));
}

#[test]
fn where_a_reach_cannot_compare_who_holds_it_is_refused_in_words() {
    let daemon = LeasedDaemon::started();
    let locks = daemon.locks();
    let victim = held(&locks);
    let refused = steal(&daemon.place(), &[(victim.id(), victim.fencing_token())]);
    let Err(NotStolen::Refused(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("a test's world") && why.contains("another agent may hold"), "{why}");
    assert!(!victim.is_lost());
}

#[test]
fn a_broker_says_in_which_pid_namespace_it_sees_processes() {
    let daemon = Daemon::start();
    let mut control = Control::connect(&daemon.place()).unwrap();
    let status = control.status().unwrap();
    let mut look = Look::new(daemon.place(), LookOptions::default());
    assert_eq!(look.pid_namespace(), None);
    look.next(Some(LONG)).unwrap();
    // The daemon runs in this process.
    let here = navlock_broker::pid_namespace();
    assert_eq!((status.pid_namespace, look.pid_namespace()), (here, here));
    assert_eq!(here.is_some(), cfg!(target_os = "linux"));
}
