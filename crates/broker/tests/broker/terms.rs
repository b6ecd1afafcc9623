//! How holders see locks that end by themselves.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_broker::{BrokerReach, ConnectOptions, Place};
use navlock_core::{
    Error, LockGuard, LockManager, LockState, Lost, UserAgent, blocking::block_on_timeout,
};
use navlock_engine::RequestId;
use navlock_platform::socket::Listener;
use navlock_wire::{BootTime, FromDaemon, TermBounds, ToDaemon};

use crate::{
    daemon::{LONG, soon},
    leased::in_time,
    raw::RawDaemon,
};

const SHORT: Duration = Duration::from_millis(400);

/// Long enough for all that a test does before the term ends.
const SOON: Duration = Duration::from_secs(3);

/// A lock manager of a daemon that a test plays.
struct Played {
    directory: tempfile::TempDir,
    locks: LockManager,
    daemon: RawDaemon,
}

impl Played {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let listener = Listener::bind(place.socket()).unwrap();
        let options = ConnectOptions::default().place(place).program("/nonexistent");
        let reach = BrokerReach::connect_when_needed(options).unwrap();
        let locks = UserAgent::with_reach(reach).lock_manager("app");
        // The client connects once something is asked for.
        let mut context = Context::from_waker(Waker::noop());
        assert!(Box::pin(locks.query()).as_mut().poll(&mut context).is_pending());
        let mut daemon = RawDaemon::welcome(&listener, Some("a test"));
        daemon.say(&[FromDaemon::Settled]);
        Self { directory, locks, daemon }
    }

    /// Takes a lock whose term ends after this time.
    fn hold(&mut self, name: &'static str, time: Duration) -> (LockGuard, RequestId) {
        let mut request = pin!(self.locks.lock(name).into_future());
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let asked = self.daemon.asked_for(name);
        self.daemon.grant(asked, in_time(time));
        (soon(request).unwrap(), asked)
    }
}

/// A waker that sends a message.
struct Told(mpsc::Sender<()>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_holder_that_hears_nothing_until_its_term_ends_has_lost_its_lock_and_gives_it_up() {
    let mut played = Played::new();
    let (held, asked) = played.hold("db", LONG);
    assert!(!held.is_lost());
    played.daemon.say(&[FromDaemon::Term { agent: 0, ends: in_time(SHORT), bounds: None }]);
    let (tell, told) = mpsc::channel();
    let mut lost = pin!(held.lost());
    let waker = Waker::from(Arc::new(Told(tell)));
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The waker is called by another thread: the one that waits here does not poll meanwhile.
    told.recv_timeout(LONG).unwrap();
    assert_eq!(soon(lost), Lost::Disconnected);
    played.daemon.until_finished(asked);
    // A new term that comes too late does not bring the lock back.
    let ends = in_time(LONG);
    played.daemon.say(&[FromDaemon::Term { agent: 0, ends, bounds: None }]);
    let (other, _) = played.hold("other", LONG);
    assert!(held.is_lost() && !other.is_lost());
}

#[test]
fn a_term_that_is_renewed_goes_on() {
    let mut played = Played::new();
    let began = Instant::now();
    let (held, _) = played.hold("db", SOON);
    played.daemon.say(&[FromDaemon::Term { agent: 0, ends: in_time(LONG), bounds: None }]);
    assert_eq!(block_on_timeout(held.lost(), SOON + SHORT), None);
    assert!(!held.is_lost() && began.elapsed() > SOON);
}

#[test]
fn a_holder_is_warned_before_its_lock_is_lost_and_knows_when_others_may_have_it() {
    let mut played = Played::new();
    let (held, _) = played.hold("db", LONG);
    let (heard, expires) = (in_time(Duration::ZERO), in_time(3 * LONG));
    let say = |due, ends| {
        let bounds = Some(TermBounds { heard, due, expires });
        [FromDaemon::Term { agent: 0, ends, bounds }]
    };
    let until = |wanted: fn(&LockState) -> bool| {
        let since = Instant::now();
        while !wanted(&held.state()) {
            assert!(since.elapsed() < LONG, "{:?}", held.state());
            // Polled, because nobody is woken as long as the lock is held.
            thread::sleep(Duration::from_millis(1));
        }
    };
    assert_eq!(held.state(), LockState::Held);
    // The renewal of the term is overdue.
    played.daemon.say(&say(heard, in_time(2 * LONG)));
    until(|state| matches!(state, LockState::Suspended { .. }));
    let LockState::Suspended { left, .. } = held.state() else { panic!("{:?}", held.state()) };
    assert!(left > LONG && left < 2 * LONG, "{left:?}");
    assert!(!held.is_lost());
    let term = held.term().unwrap();
    assert_eq!(term.expires, Duration::from_nanos(expires.0));
    // The term is renewed, and then it ends.
    played.daemon.say(&say(in_time(2 * LONG), in_time(2 * LONG)));
    until(|state| *state == LockState::Held);
    played.daemon.say(&say(in_time(SHORT), in_time(SHORT)));
    until(|state| *state == LockState::Lost(Lost::Disconnected));
}

#[test]
fn a_lock_granted_for_a_term_that_is_over_was_never_held() {
    let mut played = Played::new();
    let mut request = pin!(played.locks.lock("db").into_future());
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let asked = played.daemon.asked_for("db");
    played.daemon.grant(asked, BootTime(1));
    let lost = soon(request).unwrap_err();
    assert_eq!(lost, Error::Lost(Lost::Disconnected));
    played.daemon.until_finished(asked);
    // Another grant in the same term, which the daemon does not tell again.
    let mut request = pin!(played.locks.lock("db").into_future());
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let asked = played.daemon.asked_for("db");
    let token = navlock_core::FencingToken::new(8);
    played.daemon.say(&[FromDaemon::Granted { request: asked, token, in_slot: false }]);
    assert_eq!(soon(request).unwrap_err(), Error::Lost(Lost::Disconnected));
    played.daemon.until_finished(asked);
}

#[test]
fn a_waiting_request_is_not_lost_with_a_term() {
    let mut played = Played::new();
    let locks = played.locks.clone();
    let mut waiting = pin!(locks.lock("other").into_future());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let other = played.daemon.asked_for("other");
    let (held, _) = played.hold("db", LONG);
    played.daemon.say(&[FromDaemon::Term { agent: 0, ends: in_time(SHORT), bounds: None }]);
    assert_eq!(soon(held.lost()), Lost::Disconnected);
    played.daemon.grant(other, in_time(LONG));
    assert!(!soon(waiting).unwrap().is_lost());
}

#[test]
fn a_thread_that_hears_for_itself_does_not_keep_others_from_losing_their_locks() {
    let Played { directory: _directory, locks, mut daemon } = Played::new();
    let waiting = thread::spawn(move || {
        let a = soon(locks.lock("a")).unwrap();
        drop(soon(locks.lock("b")).unwrap());
        a.is_lost()
    });
    let a = daemon.asked_for("a");
    // After this time only that thread reads: the maintainer leaves the reading to it, at a moment that
    // nobody outside of the client can see.
    thread::sleep(Duration::from_millis(50));
    daemon.grant(a, in_time(LONG));
    let b = daemon.asked_for("b");
    daemon.say(&[FromDaemon::Term { agent: 0, ends: in_time(SHORT), bounds: None }]);
    daemon.until_finished(a);
    daemon.grant(b, in_time(LONG));
    assert!(waiting.join().unwrap());
}

#[test]
fn a_lock_whose_term_ends_without_a_daemon_is_lost_in_time_and_not_claimed_later() {
    let mut played = Played::new();
    let (short, _) = played.hold("short", LONG);
    played.daemon.say(&[FromDaemon::Term { agent: 0, ends: in_time(SOON), bounds: None }]);
    let socket = played.directory.path().join("sock");
    std::fs::remove_file(&socket).unwrap();
    drop(played.daemon);
    let began = Instant::now();
    assert_eq!(soon(short.lost()), Lost::Disconnected);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let listener = Listener::bind(socket).unwrap();
    let mut next = RawDaemon::welcome(&listener, Some("a test"));
    let ((), before) =
        next.receive_until(|message| matches!(message, ToDaemon::Claimed).then_some(()));
    let is_claim = |message: &ToDaemon| matches!(message, ToDaemon::ClaimLock { .. });
    assert!(!before.iter().any(is_claim), "{before:?}");
}

#[test]
fn a_daemon_of_this_machine_only_does_not_know_of_what_others_keep() {
    let mut played = Played::new();
    let (held, _) = played.hold("db", LONG);
    let socket = played.directory.path().join("sock");
    std::fs::remove_file(&socket).unwrap();
    let listener = Listener::bind(socket).unwrap();
    drop(played.daemon);
    let mut next = RawDaemon::welcome(&listener, None);
    let ((), before) =
        next.receive_until(|message| matches!(message, ToDaemon::Claimed).then_some(()));
    assert_eq!(soon(held.lost()), Lost::Disconnected);
    let is_claim = |message: &ToDaemon| matches!(message, ToDaemon::ClaimLock { .. });
    assert!(!before.iter().any(is_claim), "{before:?}");
}
