//! Those who wait for each other, each in a program of its own.

use std::{
    future::{Future, IntoFuture, poll_fn},
    io::Read,
    pin::{Pin, pin},
    sync::mpsc,
    task::{Context, Poll, Waker},
    thread,
};

use bytes::BytesMut;
use navlock_broker::{BrokerReach, ConnectOptions, Place};
use navlock_core::{
    ClientId, Error, Grant, LockFuture, LockGuard, LockManager, LockOptions, Named, UserAgent,
    look::{InDeadlock as Told, LockId},
};
use navlock_platform::socket::Listener;
use navlock_wire::{FromDaemon, Sent, ToDaemon, decode};

use crate::{
    daemon::{Daemon, LONG, queue, soon},
    raw::RawDaemon,
};

fn held(locks: &LockManager, name: &str) -> LockGuard {
    soon(locks.lock(name)).unwrap()
}

/// Waits until a request is told of a deadlock.
async fn told<G: Grant, N: Named>(mut request: Pin<&mut LockFuture<'_, G, N>>) -> Told {
    poll_fn(|context| {
        assert!(request.as_mut().poll(context).is_pending(), "it was granted");
        request.deadlock().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

#[test]
fn the_last_one_of_a_cycle_fails_if_it_has_asked_for_that() {
    let daemon = Daemon::start();
    let (one, two) = (daemon.locks(), daemon.locks());
    let (a, b) = (held(&one, "a"), held(&two, "b"));
    let mut first = pin!(one.lock("b").inside(&a).fail_on_deadlock().into_future());
    queue(&one, "b", first.as_mut());
    let failed = soon(two.lock("a").inside(&b).fail_on_deadlock());
    let Err(Error::Deadlock(told)) = failed else { panic!("{failed:?}") };
    assert!(told.starts_with("deadlock: ") && told.lines().count() == 3, "{told}");
    // Nothing else has happened.
    assert!(!a.is_lost() && !b.is_lost());
    drop(b);
    drop(soon(first).unwrap());
}

#[test]
fn the_one_that_has_asked_for_that_fails_whoever_was_last() {
    let daemon = Daemon::start();
    let (one, two) = (daemon.locks(), daemon.locks());
    let (a, b) = (held(&one, "a"), held(&two, "b"));
    let mut first = pin!(one.lock("b").inside(&a).fail_on_deadlock().into_future());
    queue(&one, "b", first.as_mut());
    let mut last = pin!(two.lock("a").inside(&b).into_future());
    queue(&two, "a", last.as_mut());
    assert!(matches!(soon(first), Err(Error::Deadlock(_))));
    drop(a);
    drop(soon(last).unwrap());
}

#[test]
fn all_of_a_cycle_are_told_and_nobody_who_only_waits_long() {
    let daemon = Daemon::start();
    let agents = [(); 6].map(|()| daemon.locks());
    let guards =
        ["a", "b", "c", "d", "e"].iter().zip(&agents).map(|(name, locks)| held(locks, name));
    let guards: Vec<_> = guards.collect();
    // These two wait for each other, but not inside their locks as far as anybody has said: this may be
    // a deadlock or not.
    let mut might = pin!(agents[3].lock("e").into_future());
    queue(&agents[3], "e", might.as_mut());
    let mut might_too = pin!(agents[4].lock("d").into_future());
    queue(&agents[4], "d", might_too.as_mut());
    let mut behind = pin!(agents[5].lock("a").into_future());
    queue(&agents[5], "a", behind.as_mut());
    let cycle = ["b", "c", "a"].iter().enumerate().map(|(at, name)| {
        let mut request = Box::pin(agents[at].lock(*name).inside(&guards[at]).into_future());
        queue(&agents[at], name, request.as_mut());
        request
    });
    let mut cycle: Vec<_> = cycle.collect();
    let told: Vec<_> = cycle.iter_mut().map(|request| soon(told(request.as_mut()))).collect();
    assert_eq!(told.iter().map(|told| told.gives_way).collect::<Vec<_>>(), [false, false, true]);
    assert!(told.iter().all(|it| it.told == told[0].told));
    // The last request of the cycle waits behind `behind`, whose agent holds nothing, and which
    // therefore is no part of the cycle.
    assert_eq!(told[0].told.lines().count(), 4, "{}", told[0].told);
    assert_eq!((might.deadlock(), might_too.deadlock(), behind.deadlock()), (None, None, None));
}

#[test]
fn nobody_is_told_of_a_cycle_that_ends_when_somebody_gives_up() {
    let mut daemon = Daemon::start();
    let agents = [(); 6].map(|()| daemon.locks());
    let (a, b) = (soon(agents[0].lock("a").shared()).unwrap(), held(&agents[1], "b"));
    let options = LockOptions { signal: true, ..LockOptions::default() };
    let mut between = Box::pin(agents[2].lock_with("a", options).into_future());
    queue(&agents[2], "a", between.as_mut());
    let mut behind = pin!(agents[1].lock("a").shared().inside(&b).fail_on_deadlock().into_future());
    queue(&agents[1], "a", behind.as_mut());
    let mut last = pin!(agents[0].lock("b").inside(&a).fail_on_deadlock().into_future());
    queue(&agents[0], "b", last.as_mut());
    // Another cycle, which is closed later, is told. So by then this one would have been told, if it
    // were a cycle.
    let others_are_told = |of: &'static str, with: &'static str| {
        let (c, d) = (held(&agents[4], of), held(&agents[5], with));
        let mut first = pin!(agents[4].lock(with).inside(&c).into_future());
        queue(&agents[4], with, first.as_mut());
        let failed = soon(agents[5].lock(of).inside(&d).fail_on_deadlock());
        assert!(matches!(failed, Err(Error::Deadlock(_))), "{failed:?}");
    };
    others_are_told("c", "d");
    assert_eq!((behind.deadlock(), last.deadlock()), (None, None));
    // The same holds for the next broker.
    daemon.give_way();
    others_are_told("e", "f");
    assert_eq!((behind.deadlock(), last.deadlock()), (None, None));
    drop(between);
    drop((soon(behind).unwrap(), b));
    drop(soon(last).unwrap());
}

#[test]
fn a_name_that_is_owned_is_known_by_what_its_guard_is_known_by() {
    let daemon = Daemon::with(|options| options.delegate = true);
    let (one, two) = (daemon.locks(), daemon.locks());
    // From the second time on the locks are taken without a message.
    for _ in 0..2 {
        drop((held(&one, "a"), held(&two, "b")));
    }
    let (a, b) = (held(&one, "a"), held(&two, "b"));
    let mut first = pin!(one.lock("b").inside(&a).into_future());
    queue(&one, "b", first.as_mut());
    let failed = soon(two.lock("a").inside(&b).fail_on_deadlock());
    assert!(matches!(failed, Err(Error::Deadlock(_))), "{failed:?}");
}

#[test]
fn a_request_that_is_put_inside_a_lock_while_it_waits_can_close_a_cycle() {
    let daemon = Daemon::start();
    let (one, two) = (daemon.locks(), daemon.locks());
    let (a, b) = (held(&one, "a"), held(&two, "b"));
    let mut first = pin!(one.lock("b").fail_on_deadlock().into_future());
    queue(&one, "b", first.as_mut());
    let mut second = pin!(two.lock("a").inside(&b).fail_on_deadlock().into_future());
    queue(&two, "a", second.as_mut());
    first.put_inside(a.id());
    // The request that was made last fails, whichever of them was put inside a lock last.
    assert!(matches!(soon(second), Err(Error::Deadlock(_))));
    drop(b);
    drop(soon(first).unwrap());
}

#[test]
fn a_daemon_hears_of_a_request_and_what_it_is_inside_of_in_one_piece() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = Listener::bind(place.socket()).unwrap();
    // Without delegation, so that the client does not announce a map in between.
    let options = ConnectOptions::default().place(place).program("/nonexistent").delegate(false);
    let reach = BrokerReach::connect_when_needed(options).unwrap();
    let locks = UserAgent::with_reach(reach).lock_manager("app");
    let mut context = Context::from_waker(Waker::noop());
    let mut query = pin!(locks.query());
    assert!(query.as_mut().poll(&mut context).is_pending());
    let mut daemon = RawDaemon::welcome(&listener, None);
    daemon.say(&[FromDaemon::Settled]);
    // Until the client is connected, another of its threads may send at any moment what was left to be
    // sent.
    let mut first = pin!(locks.lock("first").into_future());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let request = daemon.asked_for("first");
    daemon.say(&[FromDaemon::Granted {
        request,
        token: navlock_core::FencingToken::new(1),
        in_slot: false,
    }]);
    drop(soon(first).unwrap());
    let mut stream = daemon.stream.try_clone().unwrap();
    let (heard, pieces) = mpsc::channel();
    // The reader waits all the time, so what arrives in one read was sent in one piece.
    let reader = thread::spawn(move || {
        let (mut bytes, mut arrived) = ([0; 4096], BytesMut::new());
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            arrived.extend_from_slice(&bytes[..length]);
            let mut piece = Vec::new();
            while let Ok(Some(sent)) = decode::<Sent>(&mut arrived) {
                piece.push(sent.message);
            }
            let _ = heard.send(piece);
        }
    });
    let [one, two, three] =
        [7, 8, 9].map(|serial| LockId { client_id: ClientId::random(), serial });
    for number in 0..200 {
        let name = format!("{number}");
        let request = locks.lock(name.as_str()).inside(one).inside(two).inside(three);
        let mut request = pin!(request.into_future());
        assert!(request.as_mut().poll(&mut context).is_pending());
        let asks = |message: &ToDaemon| matches!(message, ToDaemon::Request { .. });
        let piece = loop {
            let piece: Vec<ToDaemon> = pieces.recv_timeout(LONG).unwrap();
            if piece.iter().any(asks) {
                break piece;
            }
        };
        let is_inside = |message: &ToDaemon| matches!(message, ToDaemon::Inside { .. });
        assert_eq!(piece.iter().filter(|message| is_inside(message)).count(), 3, "{piece:?}");
    }
    daemon.stream.shutdown(std::net::Shutdown::Both).unwrap();
    reader.join().unwrap();
}
