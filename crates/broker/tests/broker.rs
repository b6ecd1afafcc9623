//! What programs see of each other through one daemon. The daemon runs in this process; its
//! clients reach it by its socket, as they would reach any.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{
    future::Future,
    io::{Read, Write},
    path::PathBuf,
    pin::pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use bytes::BytesMut;
use navlock_broker::{BrokerReach, ConnectOptions, Place, daemon};
use navlock_core::{
    Error, FencingToken, LockManager, Lost, Mode, RequestKind, ResourceName, UserAgent,
    blocking::{block_on, block_on_timeout},
};
use navlock_engine::RequestId;
use navlock_wire::{ClientCodec, DaemonCodec, FromDaemon, ToDaemon, VERSION};
use tokio::{net::UnixListener, sync::oneshot};
use tokio_util::codec::{Decoder, Encoder};

/// What ends a daemon, and what ends with it.
type Running = (Option<oneshot::Sender<()>>, Option<thread::JoinHandle<()>>);

const LONG: Duration = Duration::from_secs(20);

/// A daemon that ends when this is dropped.
struct Daemon {
    directory: tempfile::TempDir,
    limits: daemon::Limits,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Daemon {
    fn start() -> Self {
        Self::with_limits(daemon::Limits::default())
    }

    fn with_limits(limits: daemon::Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (stop, thread) = Self::serve(directory.path().join("sock"), limits);
        Self { directory, limits, stop, thread }
    }

    fn serve(socket: PathBuf, limits: daemon::Limits) -> Running {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = UnixListener::bind(socket).unwrap();
                ready.send(()).unwrap();
                let mut options = daemon::Options::default();
                options.idle = None;
                options.limits = limits;
                let user_agent = daemon::user_agent(FencingToken::new(1));
                tokio::select! {
                    () = daemon::serve(&listener, user_agent, options) => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv_timeout(LONG).unwrap();
        (Some(stop), Some(thread))
    }

    /// Another daemon comes after this one, at the same place. It waits for nobody.
    fn restart(&mut self) {
        self.stop();
        let socket = self.directory.path().join("sock");
        std::fs::remove_file(&socket).unwrap();
        (self.stop, self.thread) = Self::serve(socket, self.limits);
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// What another program would have.
    fn client(&self) -> UserAgent {
        UserAgent::with_reach(self.reach())
    }

    fn reach(&self) -> BrokerReach {
        let place = Place::at(self.directory.path().join("sock"));
        // Nothing is to be started here.
        let options = ConnectOptions::default().place(place).program("/nonexistent");
        soon(BrokerReach::connect(options)).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

fn soon<F: Future>(future: F) -> F::Output {
    block_on_timeout(future, LONG).expect("in good time")
}

/// Makes a request and waits until the daemon has it in its queue.
fn queue<T>(
    locks: &LockManager,
    name: &str,
    mut request: std::pin::Pin<&mut impl Future<Output = T>>,
) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending());
    let state = soon(locks.query()).unwrap();
    assert!(state.pending.iter().any(|info| info.name.as_str() == Some(name)), "{state:?}");
}

#[test]
fn a_lock_is_exclusive_between_programs_and_goes_on_when_released() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.client().lock_manager("app"), daemon.client().lock_manager("app"));
    let held = soon(a.lock("db").into_future()).unwrap();
    assert!(soon(b.lock("db").if_available().into_future()).unwrap().is_none());
    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    let token = held.fencing_token();
    drop(held);
    assert!(soon(waiting).unwrap().fencing_token() > token);
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.client().lock_manager("app"), daemon.client().lock_manager("app"));
    let readers = [&a, &b].map(|locks| soon(locks.lock("db").shared().into_future()).unwrap());
    let mut writer = pin!(b.lock("db").into_future());
    queue(&b, "db", writer.as_mut());
    // Nobody overtakes.
    assert!(soon(a.lock("db").shared().if_available().into_future()).unwrap().is_none());
    drop(readers);
    drop(soon(writer).unwrap());
}

#[test]
fn who_is_stolen_from_is_told() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.client().lock_manager("app"), daemon.client().lock_manager("app"));
    let held = soon(a.lock("db").into_future()).unwrap();
    let stolen = soon(b.lock("db").steal().into_future()).unwrap();
    assert_eq!(soon(held.lost()), Lost::Stolen);
    assert!(held.is_lost());
    // The victim's end is not the thief's.
    drop(held);
    assert!(soon(a.lock("db").if_available().into_future()).unwrap().is_none());
    drop(stolen);
    assert!(soon(b.lock("db").if_available().into_future()).unwrap().is_some());
}

#[test]
fn a_request_after_a_release_finds_the_lock_free() {
    let daemon = Daemon::start();
    let locks = daemon.client().lock_manager("app");
    for _ in 0..200 {
        let guard = soon(locks.lock("db").if_available().into_future()).unwrap();
        assert!(guard.is_some());
    }
}

#[test]
fn a_request_that_is_dropped_leaves_its_queue() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.client().lock_manager("app"), daemon.client().lock_manager("app"));
    let _reader = soon(a.lock("db").shared().into_future()).unwrap();
    {
        let mut writer = pin!(b.lock("db").into_future());
        queue(&b, "db", writer.as_mut());
    }
    assert!(soon(b.query()).unwrap().pending.is_empty());
    drop(soon(b.lock("db").shared().into_future()).unwrap());
}

#[test]
fn buckets_do_not_see_each_other() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let (a, b) = (client.lock_manager("a"), client.lock_manager("b"));
    let _held = soon(a.lock("db").into_future()).unwrap();
    let _also = soon(b.lock("db").into_future()).unwrap();
    for locks in [&a, &b] {
        let state = soon(locks.query()).unwrap();
        let clients: Vec<_> = state.held.iter().map(|info| info.client_id).collect();
        assert_eq!(clients, [locks.client_id()]);
    }
    assert_ne!(a.client_id(), b.client_id());
}

#[test]
fn long_names_and_lone_surrogates_come_back_as_they_were() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.client().lock_manager("app"), daemon.client().lock_manager("app"));
    let long = ResourceName::try_from("n".repeat(1 << 20)).unwrap();
    let surrogate = ResourceName::from_utf16(&[0x64, 0xD800]).unwrap();
    let other = ResourceName::from_utf16(&[0x64, 0xD801]).unwrap();
    let _guards = [&long, &surrogate, &other].map(|name| soon(a.lock(name).into_future()).unwrap());
    let mut names: Vec<_> =
        soon(b.query()).unwrap().held.into_iter().map(|info| info.name).collect();
    names.sort();
    assert!(names == [surrogate, other, long]);

    let longer = "n".repeat((1 << 20) + 1);
    let refused = soon(a.lock(longer).into_future());
    assert!(matches!(refused, Err(Error::Refused(why)) if why.contains("1048576")));
}

#[test]
fn a_snapshot_longer_than_any_frame_arrives_whole() {
    let daemon = Daemon::start();
    let locks = daemon.client().lock_manager("app");
    let name = |i: usize| format!("{i:05}{}", "x".repeat(10_000));
    let guards: Vec<_> =
        (0..500).map(|i| soon(locks.lock(name(i)).into_future()).unwrap()).collect();
    let mut waiting: Vec<_> =
        (0..500).map(|_| Box::pin(locks.lock(name(7)).shared().into_future())).collect();
    for request in &mut waiting {
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let state = soon(locks.query()).unwrap();
    let mut held: Vec<_> = state.held.iter().map(|info| info.name.to_string()).collect();
    held.sort();
    assert!(held == (0..500).map(name).collect::<Vec<_>>());
    assert_eq!(state.pending.len(), 500);
    drop((guards, waiting));
}

#[test]
fn terminating_an_agent_frees_what_it_has_and_nothing_else() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let (a, b) = (client.lock_manager("app"), client.lock_manager("app"));
    let held = soon(a.lock("mine").into_future()).unwrap();
    let theirs = soon(b.lock("theirs").into_future()).unwrap();
    let mut waiting = pin!(a.lock("theirs").into_future());
    queue(&a, "theirs", waiting.as_mut());

    a.terminate();
    assert!(held.is_lost());
    assert_eq!(soon(held.lost()), Lost::Terminated);
    assert_eq!(soon(waiting).unwrap_err(), Error::Terminated);
    assert_eq!(soon(a.lock("mine").into_future()).unwrap_err(), Error::Terminated);
    drop(soon(b.lock("mine").into_future()).unwrap());
    assert!(!theirs.is_lost());
}

/// A client that speaks the protocol by hand.
struct Raw {
    stream: std::os::unix::net::UnixStream,
    codec: ClientCodec,
    heard: BytesMut,
}

impl Raw {
    fn connect(daemon: &Daemon, messages: &[ToDaemon]) -> Self {
        let stream = std::os::unix::net::UnixStream::connect(daemon.directory.path().join("sock"));
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut raw = Self { stream, codec: ClientCodec::default(), heard: BytesMut::new() };
        raw.say(messages);
        raw
    }

    fn say(&mut self, messages: &[ToDaemon]) {
        let mut bytes = BytesMut::new();
        for message in messages {
            self.codec.encode(message, &mut bytes).unwrap();
        }
        self.stream.write_all(&bytes).unwrap();
    }

    fn hear(&mut self) -> FromDaemon {
        loop {
            if let Some(message) = self.codec.decode(&mut self.heard).unwrap() {
                return message;
            }
            let mut bytes = [0; 512];
            let length = self.stream.read(&mut bytes).unwrap();
            assert_ne!(length, 0, "the daemon hung up");
            self.heard.extend_from_slice(&bytes[..length]);
        }
    }
}

/// What a client of the first version says to have a lock.
fn ask_as_version_1(newest: u16) -> [ToDaemon; 3] {
    [
        ToDaemon::Hello { oldest: 1, newest },
        ToDaemon::OpenAgent { agent: 0, client_id: [1; 16], bucket: "app".to_owned() },
        ToDaemon::Request {
            agent: 0,
            request: RequestId::from_parts(0, 0),
            name: "db".try_into().unwrap(),
            kind: RequestKind::Wait(Mode::Exclusive),
        },
    ]
}

#[test]
fn an_old_client_is_served_and_when_it_is_gone_it_holds_nothing() {
    let daemon = Daemon::start();
    let locks = daemon.client().lock_manager("app");
    let mut old = Raw::connect(&daemon, &ask_as_version_1(1));
    assert_eq!(old.hear(), FromDaemon::Welcome { version: 1 });
    assert!(matches!(old.hear(), FromDaemon::Granted { .. }));
    let mut waiting = pin!(locks.lock("db").into_future());
    queue(&locks, "db", waiting.as_mut());
    drop(old);
    drop(soon(waiting).unwrap());
}

#[test]
fn a_client_of_the_future_is_spoken_to_in_words_that_both_know() {
    let daemon = Daemon::start();
    let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION + 7 };
    assert_eq!(Raw::connect(&daemon, &[hello]).hear(), FromDaemon::Welcome { version: VERSION });
    let hello = ToDaemon::Hello { oldest: VERSION + 1, newest: VERSION + 7 };
    let refused = Raw::connect(&daemon, &[hello]).hear();
    let FromDaemon::Refused { reason } = refused else { panic!("{refused:?}") };
    assert!(reason.contains("versions 1 to 2"), "{reason}");
}

#[test]
fn a_client_that_does_not_introduce_itself_is_hung_up_on() {
    let daemon = Daemon::start();
    let mut raw = Raw::connect(&daemon, &ask_as_version_1(VERSION));
    assert_eq!(raw.hear(), FromDaemon::Welcome { version: VERSION });
    assert_eq!(raw.stream.read(&mut [0; 64]).unwrap_or(0), 0);
}

#[test]
fn who_comes_back_to_a_daemon_that_did_not_wait_has_lost_its_locks_and_waits_anew() {
    let mut daemon = Daemon::start();
    let (a, b) = (daemon.client().lock_manager("app"), daemon.client().lock_manager("app"));
    let held = soon(a.lock("db").into_future()).unwrap();
    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    daemon.restart();
    assert_eq!(soon(held.lost()), Lost::Disconnected);
    let next = soon(waiting).unwrap();
    assert!(!next.is_lost());
    // And what was lost is not lost to all eternity.
    drop(next);
    drop(soon(a.lock("db").into_future()).unwrap());
}

#[test]
fn a_handle_that_is_dropped_takes_its_agent_along() {
    let daemon = Daemon::start();
    let client = daemon.client();
    for _ in 0..100 {
        let locks = client.lock_manager("app");
        let _held = soon(locks.lock("db").if_available().into_future()).unwrap().unwrap();
    }
}

#[test]
fn when_the_daemon_dies_everybody_is_told() {
    let mut daemon = Daemon::start();
    let (a, b) = (daemon.client().lock_manager("app"), daemon.client().lock_manager("app"));
    let held = soon(a.lock("db").into_future()).unwrap();
    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    daemon.stop();
    assert_eq!(soon(held.lost()), Lost::Disconnected);
    for error in [
        soon(waiting).unwrap_err(),
        soon(a.lock("other").into_future()).unwrap_err(),
        soon(a.query()).unwrap_err(),
    ] {
        assert!(matches!(&error, Error::Unreachable(why) if why.contains("sock")), "{error}");
    }
}

#[test]
fn a_client_that_asks_for_too_much_is_refused_and_the_rest_goes_on() {
    let mut limits = daemon::Limits::default();
    limits.requests = 2;
    let daemon = Daemon::with_limits(limits);
    let locks = daemon.client().lock_manager("app");
    let _a = soon(locks.lock("a").into_future()).unwrap();
    let b = soon(locks.lock("b").into_future()).unwrap();
    let refused = soon(locks.lock("c").into_future()).unwrap_err();
    assert!(matches!(&refused, Error::Refused(why) if why.contains("at most 2")), "{refused}");
    drop(b);
    drop(soon(locks.lock("c").into_future()).unwrap());
}

#[test]
fn who_asked_for_too_much_while_there_was_no_daemon_is_refused_that_and_no_more() {
    let mut limits = daemon::Limits::default();
    limits.requests = 2;
    let mut daemon = Daemon::with_limits(limits);
    let locks = daemon.client().lock_manager("app");
    let _held = soon(locks.lock("a").into_future()).unwrap();
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
    let mut limits = daemon::Limits::default();
    limits.agents = 1;
    let daemon = Daemon::with_limits(limits);
    let client = daemon.client();
    let first = client.lock_manager("app");
    let held = soon(first.lock("a").into_future()).unwrap();
    let second = client.lock_manager("app");
    for _ in 0..2 {
        let refused = soon(second.lock("b").into_future()).unwrap_err();
        assert!(matches!(&refused, Error::Refused(why) if why.contains("at most 1")), "{refused}");
    }
    second.terminate();
    drop(second);
    assert!(!held.is_lost());
    drop((held, first));
    drop(soon(client.lock_manager("app").lock("b").into_future()).unwrap());
}

#[test]
fn a_connection_that_makes_no_sense_is_closed_for_the_other_end_too() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    let daemon = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut bytes = BytesMut::new();
        let welcome = FromDaemon::Welcome { version: navlock_wire::VERSION };
        DaemonCodec::default().encode(&welcome, &mut bytes).unwrap();
        bytes.extend_from_slice(&[0, 0, 0, 1, 99]);
        stream.write_all(&bytes).unwrap();
        // To the end, which comes while the client still has the connection.
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    let reach = soon(BrokerReach::connect(options)).unwrap();
    daemon.join().unwrap().unwrap();
    drop(reach);
}

#[test]
fn a_lock_from_many_threads_is_granted_one_at_a_time() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let counter = std::sync::atomic::AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            let (locks, counter) = (client.lock_manager("app"), &counter);
            scope.spawn(move || {
                for _ in 0..50 {
                    let request = locks.request("db", async |_| {
                        let seen = counter.load(std::sync::atomic::Ordering::Relaxed);
                        thread::yield_now();
                        counter.store(seen + 1, std::sync::atomic::Ordering::Relaxed);
                    });
                    soon(request).unwrap();
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 400);
}

#[test]
fn a_daemon_that_ends_just_then_is_asked_again() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    let daemon = thread::spawn(move || {
        // Hangs up, three times, on who has been connected and not been welcomed.
        for _ in 0..3 {
            drop(listener.accept().unwrap());
        }
        listener.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let mut options = daemon::Options::default();
            options.idle = Some(Duration::from_millis(300));
            let listener = UnixListener::from_std(listener).unwrap();
            daemon::serve(&listener, daemon::user_agent(FencingToken::new(1)), options).await;
        });
    });
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    let reach = soon(BrokerReach::connect(options)).unwrap();
    let locks = UserAgent::with_reach(reach).lock_manager("app");
    drop(soon(locks.lock("db").into_future()).unwrap());
    drop(locks);
    daemon.join().unwrap();
}

#[test]
fn connecting_works_when_polled_by_hand() {
    let daemon = Daemon::start();
    let place = Place::at(daemon.directory.path().join("sock"));
    let mut connecting = pin!(BrokerReach::connect(ConnectOptions::default().place(place)));
    let first = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if let Poll::Ready(connected) = first {
        connected.unwrap();
    } else {
        block_on(connecting).unwrap();
    }
}

#[test]
fn without_a_daemon_and_a_program_to_start_it_the_error_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let options = ConnectOptions::default().place(place.clone()).program("/nonexistent/navlock");
    let error = soon(BrokerReach::connect(options)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot reach the broker at {}: it is not running, and there is no program \
             /nonexistent/navlock to start it with; install navlock or set NAVLOCK_BIN to its path",
            place.socket().display()
        )
    );
}
