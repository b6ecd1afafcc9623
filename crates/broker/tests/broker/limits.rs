//! Clients that ask for too much.

use std::{
    future::Future,
    task::{Context, Waker},
};

use navlock_broker::daemon::Limits;
use navlock_core::Error;

use crate::daemon::{Daemon, soon};

#[test]
fn a_client_that_asks_for_too_much_is_refused_and_the_rest_goes_on() {
    let mut limits = Limits::default();
    limits.requests = 2;
    let daemon = Daemon::with_limits(limits);
    let locks = daemon.locks();
    let _a = soon(locks.lock("a")).unwrap();
    let b = soon(locks.lock("b")).unwrap();
    let refused = soon(locks.lock("c")).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused(why) if why.message().contains("at most 2")),
        "{refused}"
    );
    drop(b);
    drop(soon(locks.lock("c")).unwrap());
}

#[test]
fn only_requests_above_the_limit_are_refused_if_they_were_made_without_a_daemon() {
    let mut limits = Limits::default();
    limits.requests = 2;
    let mut daemon = Daemon::with_limits(limits);
    let locks = daemon.locks();
    let _held = soon(locks.lock("a")).unwrap();
    daemon.stop();
    let mut context = Context::from_waker(Waker::noop());
    let mut asked: Vec<_> =
        ["b", "c", "d"].map(|name| Box::pin(locks.lock(name).into_future())).into();
    for request in &mut asked {
        assert!(request.as_mut().poll(&mut context).is_pending());
    }
    daemon.restart();
    let answers: Vec<_> = asked.into_iter().map(soon).collect();
    let refused = |answer: &&Result<_, Error>| matches!(answer, Err(Error::Refused(_)));
    assert_eq!(answers.iter().filter(refused).count(), 2, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
}

#[test]
fn an_agent_too_many_is_refused_and_the_others_go_on() {
    let mut limits = Limits::default();
    limits.agents = 1;
    let daemon = Daemon::with_limits(limits);
    let client = daemon.client();
    let first = client.lock_manager("app");
    let held = soon(first.lock("a")).unwrap();
    let second = client.lock_manager("app");
    for _ in 0..2 {
        let refused = soon(second.lock("b")).unwrap_err();
        assert!(
            matches!(&refused, Error::Refused(why) if why.message().contains("at most 1")),
            "{refused}"
        );
    }
    second.terminate();
    drop(second);
    assert!(!held.is_lost());
    drop((held, first));
    drop(soon(client.lock_manager("app").lock("b")).unwrap());
}

#[test]
fn the_names_of_buckets_count_as_those_of_locks_do() {
    let mut limits = Limits::default();
    limits.name_bytes = 1000;
    let daemon = Daemon::with_limits(limits);
    let client = daemon.client();
    // Two agents of one bucket: the daemon counts the bucket's name for each of them.
    let bucket = "b".repeat(600);
    let agents = [(); 2].map(|()| client.lock_manager(&bucket));
    let held = soon(agents[0].lock("a"));
    let refused = soon(agents[1].lock("b"));
    assert!(held.is_err() || refused.is_err(), "there is room for 1200 bytes");
    for refused in [held, refused].into_iter().filter_map(Result::err) {
        assert!(
            matches!(&refused, Error::Refused(why) if why.message().contains("1000 bytes")),
            "{refused}"
        );
    }
    drop(agents);
    drop(soon(client.lock_manager(&bucket).lock("a")).unwrap());
    let small = [(); 20].map(|()| client.lock_manager("small"));
    for locks in &small {
        drop(soon(locks.lock("a")).unwrap());
    }
}
