//! What locks are for, as their requests say it.

use std::{
    future::IntoFuture,
    pin::{Pin, pin},
    task::{Context, Waker},
};

use navlock_broker::{BrokerReach, ConnectOptions, Look, LookOptions, News, daemon::Limits};
use navlock_core::{
    AgentInfo, Error, Inspected, LockManager, ResourceName, UserAgent, look::Entry,
};

use super::Host;
use crate::daemon::{Daemon, LONG, eventually, queue, soon};

fn why(one: &Inspected) -> String {
    one.agent.as_ref().unwrap().why.clone()
}

/// Checks that this is shown of who holds "db" and "log" and who waits for "db", by all ways to look.
fn check(host: &Host, asker: &LockManager, expected: [&str; 3]) {
    let db = || ResourceName::try_from("db").unwrap();
    let position = soon(asker.position(db())).unwrap();
    assert_eq!(why(&position.holder.unwrap()), expected[0]);
    let seen = soon(asker.inspect(None)).unwrap();
    let held = |name: &str| why(seen.held.iter().find(|held| held.lock.name == *name).unwrap());
    assert_eq!([held("db"), held("log"), why(&seen.pending[0])], expected);
    let one = soon(asker.inspect(Some(db()))).unwrap();
    assert_eq!([why(&one.held[0]), why(&one.pending[0])], [expected[0], expected[2]]);

    let mut look = Look::new(host.place(), LookOptions::default());
    assert_eq!(look.next(Some(LONG)).unwrap(), Some(News::Anew { missed: 0 }));
    let overview = look.overview();
    let queue = |name: &str| overview.queues.iter().find(|(of, _)| of.name == *name).unwrap().1;
    let why = |entry: &Entry| overview.info_of(entry).unwrap().why.clone();
    let [db, log] = ["db", "log"].map(queue);
    assert_eq!([why(&db.held[0]), why(&log.held[0]), why(&db.pending[0])], expected);
}

#[test]
fn what_a_request_is_for_is_shown_and_the_next_daemon_knows_it() {
    let mut host = Host::with(|options| options.recovery_time = LONG);
    let options = || ConnectOptions::default().place(host.place()).program("/nonexistent");
    let [(reach, locks), (_, other)] = [(); 2].map(|()| {
        let reach = soon(BrokerReach::connect(options())).unwrap();
        (reach.clone(), UserAgent::with_reach(reach).lock_manager("app"))
    });
    let mut info = AgentInfo::default();
    (info.pid, info.why) = (7, "service".to_owned());
    locks.describe(&info);
    // The client owns the name from here on, and need not ask for it.
    eventually("the name is owned", || {
        drop(soon(locks.lock("db")).unwrap());
        reach.owned() > 0
    });
    let held = soon(locks.lock("db").why("backup")).unwrap();
    let log = soon(locks.lock("log")).unwrap();
    let mut waits = pin!(other.lock("db").why("x".repeat(1000)).into_future());
    queue(&other, "db", waits.as_mut());
    let cut = "x".repeat(512);
    let expected = ["backup", "service", &cut];
    check(&host, &other, expected);
    host.kill();
    host.begin();
    eventually("all is claimed", || {
        let seen = soon(other.inspect(None)).unwrap();
        (seen.held.len(), seen.pending.len()) == (2, 1)
    });
    check(&host, &other, expected);
    drop((held, log));
    drop(soon(waits.as_mut()).unwrap());
    let _held = soon(locks.lock("db")).unwrap();
    assert_eq!(why(&soon(other.inspect(None)).unwrap().held[0]), "service");
}

#[test]
fn what_locks_are_for_counts_as_names_do_until_the_locks_have_ended() {
    let mut limits = Limits::default();
    limits.name_bytes = 100;
    let daemon = Daemon::with_limits(limits);
    let locks = daemon.locks();
    let held = soon(locks.lock("db").why("x".repeat(60))).unwrap();
    for _ in 0..10 {
        let refused = soon(locks.lock("log").why("x".repeat(60)));
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    drop(held);
    let held = soon(locks.lock("db").why("first")).unwrap();
    for _ in 0..100 {
        let unavailable = soon(locks.lock("db").if_available().why("second")).unwrap();
        assert!(unavailable.is_none());
        let mut aborted = Box::pin(locks.lock("db").why("third").into_future());
        let context = &mut Context::from_waker(Waker::noop());
        assert!(Future::poll(Pin::new(&mut aborted), context).is_pending());
    }
    drop(held);
    drop(soon(locks.lock("db").why("last")).unwrap());
}
