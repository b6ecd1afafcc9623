//! Names that are a client's own until somebody else asks for them.

mod heard;
mod maps;
mod together;

use std::{
    fs::{self, File},
    future::Future,
    io::{ErrorKind, Read},
    path::PathBuf,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
    time::Instant,
};

use navlock_broker::{
    BrokerReach, ConnectOptions, Place,
    daemon::{self, Options},
};
use navlock_core::{
    ClientId, Error, FencingToken, LockManager, LockOptions, Lost, Mode, UserAgent,
};
use navlock_delegation::BrokerMap;
use navlock_engine::RequestId;
use navlock_platform::socket::Listener;
use navlock_wire::{FromDaemon, ToDaemon, VERSION};

use crate::{
    daemon::{LONG, eventually, soon},
    raw::RawDaemon,
};

/// The number by which the daemon's end of a map is known in these tests.
const NONCE: u64 = 77;

fn connect(place: &Place) -> BrokerReach {
    let options = ConnectOptions::default().place(place.clone()).program("/nonexistent");
    soon(BrokerReach::connect(options)).unwrap()
}

fn lock_manager(reach: &BrokerReach) -> LockManager {
    lock_manager_of(reach, "app")
}

fn lock_manager_of(reach: &BrokerReach, bucket: &str) -> LockManager {
    UserAgent::with_reach(reach.clone()).lock_manager(bucket)
}

/// Takes and releases the lock until its name is the client's own.
fn own(reach: &BrokerReach, locks: &LockManager, name: &str, mode: Mode) {
    let (before, deadline) = (reach.owned(), Instant::now() + LONG);
    while reach.owned() == before {
        assert!(Instant::now() < deadline, "the name is not owned");
        let options = LockOptions { mode, ..LockOptions::default() };
        drop(soon(locks.lock_with(name, options)).unwrap());
    }
}

/// A daemon that a test plays.
struct PlayedBroker {
    raw: RawDaemon,
    /// The client's own file.
    file: PathBuf,
    map: Option<BrokerMap>,
    token: u64,
    /// The granted requests, each with its slot.
    granted: Vec<(RequestId, u32)>,
}

impl PlayedBroker {
    fn welcome(listener: &Listener, place: &Place, version: u16) -> Self {
        let mut raw = RawDaemon::new(listener.accept().unwrap().0);
        raw.receive_until(|message| matches!(message, ToDaemon::Hello { .. }).then_some(()));
        raw.say(&[FromDaemon::Welcome { version, reach: None }]);
        let (client, _) = raw.receive_until(|message| match message {
            ToDaemon::Introduce { client, .. } => Some(u128::from_be_bytes(*client)),
            _ => None,
        });
        let file = place.socket().with_extension("clients").join(format!("{client:032x}"));
        Self { raw, file, map: None, token: 100, granted: Vec::new() }
    }

    /// Grants whatever is asked for, in slots where it can, until the client asks who holds what.
    fn serve(&mut self) -> Vec<ToDaemon> {
        let mut heard = Vec::new();
        loop {
            let message = self.raw.receive();
            self.token += 1;
            let token = FencingToken::new(self.token);
            match message {
                ToDaemon::Map { nonce } => {
                    let file = File::options().read(true).write(true).open(&self.file).unwrap();
                    let map = BrokerMap::open(&file).unwrap().unwrap();
                    assert_eq!(map.nonce(), nonce);
                    map.confirm(NONCE);
                    self.map = Some(map);
                    self.raw.say(&[FromDaemon::Mapped { nonce: NONCE, epoch: 0 }]);
                }
                ToDaemon::Request { request, slot: None, .. } => {
                    self.raw.say(&[FromDaemon::Granted { request, token, in_slot: false }]);
                }
                ToDaemon::Request { request, slot: Some(slot), .. } => {
                    let granted = self.map.as_ref().unwrap().slot(slot).unwrap();
                    let count = granted.word().look().count() + 1;
                    granted.set_base(token.get() - count);
                    assert_eq!(granted.word().grant(false), Some(count));
                    self.granted.push((request, slot));
                    self.raw.say(&[FromDaemon::Granted { request, token, in_slot: true }]);
                }
                ToDaemon::Query { .. } => return heard,
                _ => {}
            }
            heard.push(message);
        }
    }

    /// The word of the slot that was granted last.
    fn word(&self) -> &navlock_delegation::Word {
        let (_, slot) = self.granted.last().unwrap();
        self.map.as_ref().unwrap().slot(*slot).unwrap().word()
    }

    /// Asserts that the client has sent nothing since its messages were last read.
    fn assert_silence(&mut self) {
        self.raw.stream.set_nonblocking(true).unwrap();
        let heard = self.raw.stream.read(&mut [0; 64]);
        assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
        self.raw.stream.set_nonblocking(false).unwrap();
    }
}

/// Has the daemon that a test plays stop [serving](PlayedBroker::serve).
fn end_turn(locks: &LockManager) {
    let mut query = pin!(locks.query());
    assert!(query.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// A client whose daemon a test plays.
struct Played {
    directory: tempfile::TempDir,
    listener: Listener,
    reach: BrokerReach,
    locks: LockManager,
    broker: PlayedBroker,
}

impl Played {
    /// A client that owns these names from the start.
    fn owning(names: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let listener = Listener::bind(place.socket()).unwrap();
        let (reach, locks, broker) = thread::scope(|scope| {
            let broker = scope.spawn(|| {
                let mut broker = PlayedBroker::welcome(&listener, &place, VERSION);
                broker.serve();
                broker
            });
            let reach = connect(&place);
            let locks = lock_manager(&reach);
            for name in names {
                own(&reach, &locks, name, Mode::Exclusive);
            }
            end_turn(&locks);
            (reach, locks, broker.join().unwrap())
        });
        Self { directory, listener, reach, locks, broker }
    }

    fn place(&self) -> Place {
        Place::at(self.directory.path().join("sock"))
    }
}

/// Whether the lock can be had without asking anybody.
fn has_at_once(locks: &LockManager, name: &str) -> bool {
    let mut request = pin!(locks.lock(name).into_future());
    request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_name_that_is_owned_is_taken_and_released_without_a_message() {
    let mut played = Played::owning(&["db"]);
    let mut last = FencingToken::new(0);
    for _ in 0..1000 {
        let guard = soon(played.locks.lock("db")).unwrap();
        assert!(guard.fencing_token() > last && !guard.is_lost());
        last = guard.fencing_token();
        drop(guard);
    }
    played.broker.assert_silence();
}

#[test]
fn a_theft_is_known_before_the_daemon_tells_of_it() {
    let mut played = Played::owning(&["db"]);
    let guard = soon(played.locks.lock("db")).unwrap();
    let lost = {
        let mut lost = pin!(guard.lost());
        assert!(lost.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let _ = played.broker.word().steal();
        assert!(guard.is_lost());
        assert_eq!(guard.stolen_by(), None);
        soon(lost)
    };
    assert_eq!(lost, Lost::Stolen);
    let (request, _) = *played.broker.granted.last().unwrap();
    let how = (Lost::Stolen, Some(ClientId::from_bytes([9; 16])));
    played.broker.raw.say(&[FromDaemon::Lost { request, how }]);
    eventually("it says who", || guard.stolen_by() == Some(ClientId::from_bytes([9; 16])));
    assert!(guard.is_lost());
    drop(guard);
    assert!(!has_at_once(&played.locks, "db"));
}

#[test]
fn a_watcher_of_an_owned_lock_is_woken_when_the_lock_is_lost() {
    let mut played = Played::owning(&["db"]);
    let guard = soon(played.locks.lock("db")).unwrap();
    thread::scope(|scope| {
        let watcher = scope.spawn(|| soon(guard.lost()));
        let (request, _) = *played.broker.granted.last().unwrap();
        let _ = played.broker.word().revoke();
        let how = (Lost::Closed, None);
        played.broker.raw.say(&[FromDaemon::Lost { request, how }]);
        // The watcher goes by the word or by the message, whichever it sees first.
        assert!(matches!(watcher.join().unwrap(), Lost::Closed | Lost::Disconnected));
    });
}

#[test]
fn a_name_that_was_recalled_is_asked_for_and_one_that_is_held_is_given_back_by_a_message() {
    let mut played = Played::owning(&["db"]);
    let guard = soon(played.locks.lock("db")).unwrap();
    let _ = played.broker.word().recall();
    assert!(!guard.is_lost());
    drop(guard);
    let (request, _) = *played.broker.granted.last().unwrap();
    assert_eq!(played.broker.raw.receive(), ToDaemon::Finish { request });
    assert!(!has_at_once(&played.locks, "db"));
    let asked = played.broker.raw.receive();
    assert!(matches!(asked, ToDaemon::Request { slot: Some(_), .. }), "{asked:?}");
}

#[test]
fn without_a_daemon_names_stay_a_client_s_own_for_as_long_as_its_file_stands() {
    let played = Played::owning(&["db", "other"]);
    let file = played.broker.file.clone();
    let other = soon(played.locks.lock("other")).unwrap();
    drop(played.broker);
    let (locks, reach) = (&played.locks, &played.reach);
    let started = Instant::now();
    while started.elapsed().as_millis() < 300 {
        drop(soon(locks.lock("db")).unwrap());
    }
    assert!(!other.is_lost());
    fs::remove_file(file).unwrap();
    eventually("what is held is lost", || other.is_lost());
    assert_eq!(soon(other.lost()), Lost::Disconnected);
    let mut request = pin!(locks.lock("db").into_future());
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(reach.owned(), 0);
}

#[test]
fn a_request_is_not_overtaken_by_another_agent_of_its_client() {
    let Played { locks, reach, mut broker, listener, directory: _directory } =
        Played::owning(&["db", "stolen", "alone"]);
    let finish = ToDaemon::Finish { request: broker.granted[0].0 };
    let (other, elsewhere) = (lock_manager(&reach), lock_manager_of(&reach, "b"));
    let mut context = Context::from_waker(Waker::noop());

    // The same name in another bucket is another name.
    let mut apart = pin!(elsewhere.lock("db").into_future());
    assert!(apart.as_mut().poll(&mut context).is_pending());
    assert!(has_at_once(&locks, "db"));

    let mut first = pin!(other.lock("db").into_future());
    assert!(first.as_mut().poll(&mut context).is_pending());
    broker.raw.receive_until(|message| (*message == finish).then_some(()));
    let asked = broker.raw.receive();
    assert!(matches!(asked, ToDaemon::Request { slot: Some(_), .. }), "{asked:?}");
    let mut second = pin!(locks.lock("db").if_available().into_future());
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert!(!has_at_once(&locks, "db"));

    let mut thief = pin!(other.lock("stolen").steal().into_future());
    assert!(thief.as_mut().poll(&mut context).is_pending());
    assert!(!has_at_once(&locks, "stolen"));

    // The same holds while there is no daemon that would grant the request.
    drop(broker);
    // Who comes again knows that its daemon is gone.
    let _coming = listener.accept().unwrap();
    assert!(has_at_once(&locks, "alone"));
    let mut first = pin!(other.lock("alone").into_future());
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(!has_at_once(&locks, "alone"));
    assert_eq!(reach.owned(), 0);
}

/// A waker that does not return before its gate is dropped. It says when it is called.
struct Gated {
    called: mpsc::Sender<()>,
    gate: Mutex<mpsc::Receiver<()>>,
}

impl Wake for Gated {
    fn wake(self: Arc<Self>) {
        let _ = self.called.send(());
        let _ = self.gate.lock().unwrap().recv();
    }
}

#[test]
fn nothing_is_taken_after_the_end_of_a_daemon_that_nobody_has_heard_yet() {
    let mut played = Played::owning(&["db"]);
    // The thread that would notice the end is held up, as if the process had been stopped.
    let (called, is_called) = mpsc::channel();
    let (keep, gate) = mpsc::channel();
    let waker = Arc::new(Gated { called, gate: Mutex::new(gate) }).into();
    // This is another agent: an agent takes nothing before it knows the answers to its own requests.
    let another = lock_manager(&played.reach);
    let mut other = Box::pin(another.lock("other").into_future());
    assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let (request, _) = played.broker.raw.receive_until(|message| match message {
        ToDaemon::Request { request, slot: Some(_), .. } => Some(*request),
        _ => None,
    });
    let token = FencingToken::new(500);
    played.broker.raw.say(&[FromDaemon::Granted { request, token, in_slot: false }]);
    is_called.recv_timeout(LONG).unwrap();

    let (file, ended) = (played.broker.file.clone(), Instant::now());
    drop(played.broker);
    // As long as the client's file stands, the client is not given up.
    while ended.elapsed().as_millis() < 600 {
        assert!(has_at_once(&played.locks, "db"));
    }
    fs::remove_file(&file).unwrap();
    assert!(!has_at_once(&played.locks, "db"));
    drop(keep);
}

#[test]
fn a_client_that_was_given_up_takes_nothing_more() {
    let played = Played::owning(&["db"]);
    let file = played.broker.file.clone();
    drop(played.broker);
    // Who comes again knows that its daemon is gone.
    let _coming = played.listener.accept().unwrap();
    assert!(has_at_once(&played.locks, "db"));
    fs::remove_file(&file).unwrap();
    assert!(!has_at_once(&played.locks, "db"));
}

#[test]
fn a_client_that_found_no_daemon_for_long_owns_nothing_and_leaves_no_file() {
    let played = Played::owning(&["db"]);
    let file = played.broker.file.clone();
    drop((played.broker, played.listener));
    let failed = soon(played.locks.lock("other")).unwrap_err();
    assert!(matches!(failed, Error::Unreachable(_)), "{failed}");
    assert!(!has_at_once(&played.locks, "db"));
    assert!(!file.exists());
}
