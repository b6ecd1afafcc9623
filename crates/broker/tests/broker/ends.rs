//! What has ended is on its way to the daemon before whoever has ended it goes on.

use std::{
    future::{Future, IntoFuture},
    io::{ErrorKind, Read},
    net::Shutdown,
    pin::pin,
    sync::mpsc,
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use navlock_broker::{BrokerReach, ConnectOptions, Place};
use navlock_core::{FencingToken, LockFuture, LockGuard, LockManager, ResourceName, UserAgent};
use navlock_engine::RequestId;
use navlock_platform::socket::Listener;
use navlock_wire::{FromDaemon, Sent, ToDaemon, decode};

use crate::{
    daemon::{LONG, soon},
    raw::RawDaemon,
};

/// A client of a daemon that a test plays.
struct Client {
    locks: LockManager,
    daemon: RawDaemon,
    _directory: tempfile::TempDir,
}

impl Client {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let listener = Listener::bind(place.socket()).unwrap();
        let options = ConnectOptions::default().place(place).program("/nonexistent");
        let reach = BrokerReach::connect_when_needed(options.delegate(false)).unwrap();
        let locks = UserAgent::with_reach(reach).lock_manager("app");
        assert!(pin!(locks.query()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let mut daemon = RawDaemon::welcome(&listener, None);
        daemon.say(&[FromDaemon::Settled]);
        Self { locks, daemon, _directory: directory }
    }

    /// Is granted the lock of this name.
    fn lock(&mut self, name: &str) -> (LockGuard, RequestId) {
        let mut request = pin!(self.locks.lock(name).into_future());
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let asked = self.daemon.asked_for(name);
        let token = FencingToken::new(1);
        self.daemon.say(&[FromDaemon::Granted { request: asked, token, in_slot: false }]);
        (soon(request).unwrap(), asked)
    }
}

/// Asks from several threads for more than there is room for in the socket.
fn fill(locks: &LockManager) -> Vec<LockFuture<'_>> {
    let ask = |number: usize| {
        let name = ResourceName::try_from(&*format!("{number:032768}")).unwrap();
        let mut request = locks.lock(name).into_future();
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(&mut request).poll(&mut context).is_pending());
        request
    };
    thread::scope(|scope| {
        let spawn = |first: usize| scope.spawn(move || (first..first + 16).map(ask).collect());
        let threads: [thread::ScopedJoinHandle<'_, Vec<_>>; 4] = [0, 16, 32, 48].map(spawn);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Linux still gives what was in the socket to an end that takes no more.
#[cfg(target_os = "linux")]
#[test]
fn a_release_that_has_returned_is_in_the_socket() {
    // It is waited for no longer than a second. On a machine that is busy, this may take several tries.
    while !is_in_the_socket_in_time() {}
}

/// Whether a release returned in time. If so, asserts that it is in the socket.
#[cfg(target_os = "linux")]
fn is_in_the_socket_in_time() -> bool {
    let mut client = Client::new();
    let (guard, lock) = client.lock("db");
    let manager = client.locks.clone();
    let asked = fill(&manager);
    let (released, is_released) = mpsc::channel();
    let release = thread::spawn(move || {
        let began = Instant::now();
        drop(guard);
        released.send(began.elapsed()).unwrap();
    });
    let stream = &mut client.daemon.stream;
    stream.set_nonblocking(true).unwrap();
    let (mut arrived, mut bytes, mut took) = (BytesMut::new(), [0; 4096], None);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => arrived.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        if took.is_none() {
            took = is_released.try_recv().ok();
            if took.is_some() {
                stream.shutdown(Shutdown::Read).unwrap();
            }
        }
    }
    release.join().unwrap();
    drop((client, asked));
    if took.unwrap() >= Duration::from_secs(1) {
        return false;
    }
    let mut heard = std::iter::from_fn(|| decode::<Sent>(&mut arrived).unwrap());
    assert!(heard.any(|sent| sent.message == ToDaemon::Finish { request: lock }));
    true
}

#[test]
fn a_daemon_that_does_not_read_is_waited_for_once_and_is_told_later() {
    let mut client = Client::new();
    // If each of them were waited for, that would take longer than a test waits.
    let many = usize::try_from(LONG.as_secs()).unwrap() + 5;
    let (guards, locks): (Vec<_>, Vec<_>) =
        (0..many).map(|number| client.lock(&number.to_string())).unzip();
    let manager = client.locks.clone();
    let asked = fill(&manager);
    let (released, are_released) = mpsc::channel();
    let release = thread::spawn(move || {
        drop(guards);
        released.send(()).unwrap();
    });
    are_released.recv_timeout(LONG).unwrap();
    release.join().unwrap();
    for lock in locks {
        client.daemon.until_finished(lock);
    }
    drop((client, asked));
}

#[test]
fn what_was_kept_back_is_sent_when_something_ends() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = Listener::bind(place.socket()).unwrap();
    let daemon = thread::spawn(move || RawDaemon::welcome(&listener, None));
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    let reach = BrokerReach::connect_blocking(options).unwrap();
    drop(UserAgent::with_reach(reach.clone()).lock_manager("app"));
    let closed = |message: &_| matches!(message, ToDaemon::CloseAgent { .. }).then_some(());
    daemon.join().unwrap().receive_until(closed);
    drop(reach);
}
