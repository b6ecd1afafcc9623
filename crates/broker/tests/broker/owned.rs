//! Names that are a client's own until somebody else asks for them.

mod heard;
mod older;

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
use navlock_delegation::KeeperMap;
use navlock_engine::RequestId;
use navlock_platform::socket::Listener;
use navlock_wire::{FromDaemon, ToDaemon, VERSION};

use crate::{
    daemon::{LONG, soon},
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
        drop(soon(locks.lock_with(name, options).into_future()).unwrap());
    }
}

/// A daemon that a test plays.
struct Keeper {
    raw: RawDaemon,
    /// The client's own file.
    file: PathBuf,
    map: Option<KeeperMap>,
    token: u64,
    /// The slots that were granted in.
    granted: Vec<(RequestId, u32)>,
}

impl Keeper {
    fn welcome(listener: &Listener, place: &Place, version: u16) -> Self {
        let mut raw = RawDaemon::new(listener.accept().unwrap().0);
        raw.hear_until(|message| matches!(message, ToDaemon::Hello { .. }).then_some(()));
        raw.say(&[FromDaemon::Welcome { version }]);
        let (client, _) = raw.hear_until(|message| match message {
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
            let message = self.raw.hear();
            self.token += 1;
            let token = FencingToken::new(self.token);
            match message {
                ToDaemon::Map { nonce } => {
                    let file = File::options().read(true).write(true).open(&self.file).unwrap();
                    let map = KeeperMap::open(&file).unwrap().unwrap();
                    assert_eq!(map.nonce(), nonce);
                    map.confirm(NONCE);
                    self.map = Some(map);
                    self.raw.say(&[FromDaemon::Mapped { nonce: NONCE, epoch: 0 }]);
                }
                ToDaemon::Request { request, .. } => {
                    self.raw.say(&[FromDaemon::Granted { request, token }]);
                }
                ToDaemon::RequestInSlot { request, slot, .. } => {
                    let granted = self.map.as_ref().unwrap().slot(slot).unwrap();
                    let count = granted.word().look().count() + 1;
                    granted.set_base(token.get() - count);
                    assert_eq!(granted.word().grant(false), Some(count));
                    self.granted.push((request, slot));
                    self.raw.say(&[FromDaemon::GrantedInSlot { request, token }]);
                }
                ToDaemon::Query { .. } => return heard,
                _ => {}
            }
            heard.push(message);
        }
    }

    /// That of the request that was granted last.
    fn word(&self) -> &navlock_delegation::Word {
        let (_, slot) = self.granted.last().unwrap();
        self.map.as_ref().unwrap().slot(*slot).unwrap().word()
    }

    /// Nothing was said since it was heard last.
    fn assert_silence(&mut self) {
        self.raw.stream.set_nonblocking(true).unwrap();
        let heard = self.raw.stream.read(&mut [0; 64]);
        assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
        self.raw.stream.set_nonblocking(false).unwrap();
    }
}

/// Has the daemon that a test plays stop [serving](Keeper::serve).
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
    keeper: Keeper,
}

impl Played {
    /// The names are the client's own from the start.
    fn owning(names: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let listener = Listener::bind(place.socket()).unwrap();
        let (reach, locks, keeper) = thread::scope(|scope| {
            let keeper = scope.spawn(|| {
                let mut keeper = Keeper::welcome(&listener, &place, VERSION);
                keeper.serve();
                keeper
            });
            let reach = connect(&place);
            let locks = lock_manager(&reach);
            for name in names {
                own(&reach, &locks, name, Mode::Exclusive);
            }
            end_turn(&locks);
            (reach, locks, keeper.join().unwrap())
        });
        Self { directory, listener, reach, locks, keeper }
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

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < deadline, "not in good time: {what}");
        thread::yield_now();
    }
}

#[test]
fn a_name_that_is_owned_is_taken_and_released_without_a_message() {
    let mut played = Played::owning(&["db"]);
    let mut last = FencingToken::new(0);
    for _ in 0..1000 {
        let guard = soon(played.locks.lock("db").into_future()).unwrap();
        assert!(guard.fencing_token() > last && !guard.is_lost());
        last = guard.fencing_token();
        drop(guard);
    }
    played.keeper.assert_silence();
}

#[test]
fn a_theft_is_known_before_the_daemon_tells_of_it() {
    let mut played = Played::owning(&["db"]);
    let guard = soon(played.locks.lock("db").into_future()).unwrap();
    let lost = {
        let mut lost = pin!(guard.lost());
        assert!(lost.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let _ = played.keeper.word().steal();
        assert!(guard.is_lost());
        assert_eq!(guard.stolen_by(), None);
        soon(lost)
    };
    assert_eq!(lost, Lost::Stolen);
    let (request, _) = *played.keeper.granted.last().unwrap();
    let how = navlock_wire::Lost::StolenBy([9; 16]);
    played.keeper.raw.say(&[FromDaemon::Lost { request, how }]);
    eventually("it says who", || guard.stolen_by() == Some(ClientId::from_bytes([9; 16])));
    assert!(guard.is_lost());
    drop(guard);
    assert!(!has_at_once(&played.locks, "db"));
}

#[test]
fn who_watches_what_was_taken_is_woken_when_it_is_lost() {
    let mut played = Played::owning(&["db"]);
    let guard = soon(played.locks.lock("db").into_future()).unwrap();
    thread::scope(|scope| {
        let watcher = scope.spawn(|| soon(guard.lost()));
        let (request, _) = *played.keeper.granted.last().unwrap();
        let _ = played.keeper.word().revoke();
        let how = navlock_wire::Lost::Closed;
        played.keeper.raw.say(&[FromDaemon::Lost { request, how }]);
        // By the word or by the message, whichever it sees first.
        assert!(matches!(watcher.join().unwrap(), Lost::Closed | Lost::Disconnected));
    });
}

#[test]
fn a_name_that_was_recalled_is_asked_for_and_one_that_is_held_is_given_back_by_a_message() {
    let mut played = Played::owning(&["db"]);
    let guard = soon(played.locks.lock("db").into_future()).unwrap();
    let _ = played.keeper.word().recall();
    assert!(!guard.is_lost());
    drop(guard);
    let (request, _) = *played.keeper.granted.last().unwrap();
    assert_eq!(played.keeper.raw.hear(), ToDaemon::Finish { request });
    assert!(!has_at_once(&played.locks, "db"));
    let asked = played.keeper.raw.hear();
    assert!(matches!(asked, ToDaemon::RequestInSlot { .. }), "{asked:?}");
}

#[test]
fn without_a_daemon_names_stay_a_client_s_own_for_as_long_as_its_file_stands() {
    let played = Played::owning(&["db", "other"]);
    let file = played.keeper.file.clone();
    let other = soon(played.locks.lock("other").into_future()).unwrap();
    drop(played.keeper);
    let (locks, reach) = (&played.locks, &played.reach);
    let started = Instant::now();
    while started.elapsed().as_millis() < 300 {
        drop(soon(locks.lock("db").into_future()).unwrap());
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
    let Played { locks, reach, mut keeper, listener, directory: _directory } =
        Played::owning(&["db", "stolen", "alone"]);
    let finish = ToDaemon::Finish { request: keeper.granted[0].0 };
    let (other, elsewhere) = (lock_manager(&reach), lock_manager_of(&reach, "b"));
    let mut context = Context::from_waker(Waker::noop());

    // A name of another bucket is another.
    let mut apart = pin!(elsewhere.lock("db").into_future());
    assert!(apart.as_mut().poll(&mut context).is_pending());
    assert!(has_at_once(&locks, "db"));

    let mut first = pin!(other.lock("db").into_future());
    assert!(first.as_mut().poll(&mut context).is_pending());
    keeper.raw.hear_until(|message| (*message == finish).then_some(()));
    let asked = keeper.raw.hear();
    assert!(matches!(asked, ToDaemon::RequestInSlot { .. }), "{asked:?}");
    let mut second = pin!(locks.try_lock("db").into_future());
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert!(!has_at_once(&locks, "db"));

    let mut thief = pin!(other.lock("stolen").steal().into_future());
    assert!(thief.as_mut().poll(&mut context).is_pending());
    assert!(!has_at_once(&locks, "stolen"));

    // Nor while there is nobody to grant it.
    drop(keeper);
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
    // The thread that would hear of it is kept from that, as one is whose process was stopped.
    let (called, is_called) = mpsc::channel();
    let (keep, gate) = mpsc::channel();
    let waker = Arc::new(Gated { called, gate: Mutex::new(gate) }).into();
    let mut other = Box::pin(played.locks.lock("other").into_future());
    assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let ToDaemon::RequestInSlot { request, .. } = played.keeper.raw.hear() else { panic!() };
    let token = FencingToken::new(500);
    played.keeper.raw.say(&[FromDaemon::Granted { request, token }]);
    is_called.recv_timeout(LONG).unwrap();

    let (file, ended) = (played.keeper.file.clone(), Instant::now());
    drop(played.keeper);
    // As long as its file stands the client is not given up.
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
    let file = played.keeper.file.clone();
    drop(played.keeper);
    // Who comes again knows that its daemon is gone.
    let _coming = played.listener.accept().unwrap();
    assert!(has_at_once(&played.locks, "db"));
    fs::remove_file(&file).unwrap();
    assert!(!has_at_once(&played.locks, "db"));
}

#[test]
fn a_client_that_found_no_daemon_for_long_owns_nothing_and_leaves_no_file() {
    let played = Played::owning(&["db"]);
    let file = played.keeper.file.clone();
    drop((played.keeper, played.listener));
    let failed = soon(played.locks.lock("other").into_future()).unwrap_err();
    assert!(matches!(failed, Error::Unreachable(_)), "{failed}");
    assert!(!has_at_once(&played.locks, "db"));
    assert!(!file.exists());
}

#[test]
fn what_stands_in_no_slot_is_counted_in_the_map() {
    let mut played = Played::owning(&["db"]);
    let unmapped = |played: &Played| played.keeper.map.as_ref().unwrap().unmapped();
    assert_eq!(unmapped(&played), 0);
    let long = "n".repeat(500);
    let mut request = Box::pin(played.locks.lock(long.as_str()).into_future());
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Before it is granted: the client may not come to hear of that.
    assert_eq!(unmapped(&played), 1);
    let ToDaemon::Request { request: id, .. } = played.keeper.raw.hear() else { panic!() };
    let token = FencingToken::new(500);
    played.keeper.raw.say(&[FromDaemon::Granted { request: id, token }]);
    let guard = soon(request).unwrap();
    assert_eq!(unmapped(&played), 1);
    drop(guard);
    assert_eq!(unmapped(&played), 0);
}

#[test]
fn an_older_daemon_is_told_what_is_held_and_nothing_of_what_was_owned() {
    let played = Played::owning(&["held", "idle"]);
    let held = soon(played.locks.lock("held").into_future()).unwrap();
    let place = played.place();
    let (held_id, _) = played.keeper.granted[0];
    let token = held.fencing_token();
    drop(played.keeper);
    let mut keeper = Keeper::welcome(&played.listener, &place, 4);
    let (claimed, before) =
        keeper.raw.hear_until(|message| matches!(message, ToDaemon::Claimed).then_some(()));
    let () = claimed;
    let claims: Vec<_> = before
        .iter()
        .filter_map(|message| match message {
            ToDaemon::ClaimLock { request, name, token, .. } => Some((*request, name, *token)),
            _ => None,
        })
        .collect();
    assert_eq!(claims, [(held_id, held.name(), token)]);
    assert!(!held.is_lost());
    drop(held);
    assert_eq!(keeper.raw.hear(), ToDaemon::Finish { request: held_id });
    for name in ["idle", "held"] {
        assert!(!has_at_once(&played.locks, name));
        let asked = keeper.raw.hear();
        assert!(matches!(asked, ToDaemon::Request { .. }), "{asked:?}");
        assert!(matches!(keeper.raw.hear(), ToDaemon::Finish { .. }));
    }
}

#[test]
fn a_client_whose_file_was_removed_owns_nothing_any_more() {
    let mut played = Played::owning(&["held", "idle"]);
    let held = soon(played.locks.lock("held").into_future()).unwrap();
    fs::remove_file(&played.keeper.file).unwrap();
    played.keeper.raw.say(&[FromDaemon::Register]);
    let finished = |request| ToDaemon::Finish { request };
    assert_eq!(played.keeper.raw.hear(), finished(played.keeper.granted[1].0));
    assert_eq!(played.reach.owned(), 0);
    assert!(!held.is_lost());
    drop(held);
    assert_eq!(played.keeper.raw.hear(), finished(played.keeper.granted[0].0));
    eventually("it has a file", || played.keeper.file.exists());
    // On this connection it is asked for each lock.
    assert!(!has_at_once(&played.locks, "idle"));
    assert!(matches!(played.keeper.raw.hear(), ToDaemon::Request { .. }));
}

#[test]
fn there_is_no_new_map_while_something_is_held_in_an_old_one() {
    let Played { locks, reach, mut keeper, listener, directory } = Played::owning(&["held"]);
    let place = Place::at(directory.path().join("sock"));
    let held = soon(locks.lock("held").into_future()).unwrap();
    fs::remove_file(&keeper.file).unwrap();
    keeper.raw.say(&[FromDaemon::Register]);
    eventually("it has a file", || keeper.file.exists());
    drop(keeper);
    let mut keeper = Keeper::welcome(&listener, &place, VERSION);
    let mut served = |locks: &LockManager, ask: &dyn Fn()| {
        thread::scope(|scope| {
            let serving = scope.spawn(|| keeper.serve());
            ask();
            end_turn(locks);
            serving.join().unwrap()
        })
    };
    let heard = served(&locks, &|| {
        for _ in 0..200 {
            drop(soon(locks.lock("other").into_future()).unwrap());
        }
    });
    // It would not say that this is held, and a later daemon would go by it.
    let is_map = |said: &ToDaemon| matches!(said, ToDaemon::Map { .. });
    assert!(!heard.iter().any(is_map));
    assert!(!held.is_lost());
    drop(held);
    let heard = served(&locks, &|| own(&reach, &locks, "other", Mode::Exclusive));
    assert!(heard.iter().any(is_map));
}

#[test]
fn what_is_to_be_inherited_is_not_owned() {
    let mut played = Played::owning(&["idle"]);
    let _prepared = played.reach.prepare_lifeline(&["db".try_into().unwrap()]).unwrap();
    let request = played.keeper.granted[0].0;
    assert_eq!(played.keeper.raw.hear(), ToDaemon::Finish { request });
    assert!(!has_at_once(&played.locks, "idle"));
    assert!(matches!(played.keeper.raw.hear(), ToDaemon::Request { .. }));
}

#[test]
fn who_does_not_want_it_owns_nothing_and_makes_no_map() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = Listener::bind(place.socket()).unwrap();
    thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let mut keeper = Keeper::welcome(&listener, &place, VERSION);
            let heard = keeper.serve();
            (keeper, heard)
        });
        let options = ConnectOptions::default().place(place.clone()).delegate(false);
        let reach = soon(BrokerReach::connect(options.program("/nonexistent"))).unwrap();
        let locks = lock_manager(&reach);
        for _ in 0..20 {
            drop(soon(locks.lock("db").into_future()).unwrap());
        }
        end_turn(&locks);
        let (keeper, heard) = keeper.join().unwrap();
        let asked = heard.iter().filter(|said| matches!(said, ToDaemon::Request { .. })).count();
        assert_eq!(asked, 20);
        assert!(!heard.iter().any(|said| matches!(said, ToDaemon::Map { .. })));
        assert_eq!(fs::metadata(&keeper.file).unwrap().len(), 0);
    });
}

/// A daemon of whose clients' names some are their own.
struct OwningDaemon(tempfile::TempDir);

impl OwningDaemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let (ready, is_ready) = mpsc::channel();
        // It ends when its directory goes.
        thread::spawn(move || {
            let user_agent = |first| Ok(daemon::user_agent(first));
            daemon::run(&place, user_agent, &Options::default(), || ready.send(()).unwrap())
        });
        is_ready.recv_timeout(LONG).unwrap();
        Self(directory)
    }

    fn reach(&self) -> BrokerReach {
        connect(&Place::at(self.0.path().join("sock")))
    }
}

#[test]
fn agents_and_threads_of_one_client_exclude_each_other() {
    let daemon = OwningDaemon::start();
    let reach = daemon.reach();
    let agents = [(); 3].map(|()| lock_manager(&reach));
    own(&reach, &agents[0], "db", Mode::Exclusive);
    let counter = AtomicU32::new(0);
    thread::scope(|scope| {
        for locks in agents.iter().flat_map(|locks| [locks; 3]) {
            scope.spawn(|| {
                for turn in 0..100 {
                    let guard = soon(locks.lock("db").into_future()).unwrap();
                    let seen = counter.load(Relaxed);
                    if turn % 10 == 0 {
                        thread::yield_now();
                    }
                    counter.store(seen + 1, Relaxed);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 900);
    assert!(soon(agents[0].query()).unwrap().held.is_empty());
}

#[test]
fn readers_of_one_client_read_beside_each_other_and_a_writer_gets_in() {
    let daemon = OwningDaemon::start();
    let (reach, others) = (daemon.reach(), lock_manager(&daemon.reach()));
    let locks = lock_manager(&reach);
    own(&reach, &locks, "db", Mode::Shared);
    let read = || soon(locks.lock("db").shared().into_future()).unwrap();
    let (one, other) = (read(), read());
    assert!(soon(others.try_lock("db").into_future()).unwrap().is_none());
    drop((one, other));
    let mut writer = pin!(others.lock("db").into_future());
    let reader = read();
    assert!(writer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let seen = || soon(others.query()).unwrap().pending.len();
    assert_eq!(seen(), 1);
    // No reader overtakes it any more.
    let mut late = pin!(locks.lock("db").shared().into_future());
    assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(reader);
    let writer = soon(writer).unwrap();
    let token = writer.fencing_token();
    drop(writer);
    assert!(soon(late).unwrap().fencing_token() > token);
}

#[test]
fn more_names_than_there_are_slots_go_on_being_locked() {
    let daemon = OwningDaemon::start();
    let reach = daemon.reach();
    let locks = lock_manager(&reach);
    for _ in 0..3 {
        for name in 0..2000 {
            drop(soon(locks.lock(name.to_string()).into_future()).unwrap());
        }
    }
    assert!((500..=1023).contains(&reach.owned()), "{}", reach.owned());
    assert!(soon(locks.query()).unwrap().held.is_empty());
    let held: Vec<_> = (0..2000)
        .map(|name: u32| soon(locks.lock(name.to_string()).into_future()).unwrap())
        .collect();
    assert_eq!(soon(locks.query()).unwrap().held.len(), 2000);
    drop(held);
    assert!(soon(locks.query()).unwrap().held.is_empty());
}

#[test]
fn tokens_grow_from_one_owner_to_the_next() {
    let daemon = OwningDaemon::start();
    let reaches = [daemon.reach(), daemon.reach()];
    let clients = reaches.each_ref().map(lock_manager);
    let mut last = FencingToken::new(0);
    for turn in 0..40 {
        for locks in &clients {
            for _ in 0..turn {
                let guard = soon(locks.lock("db").into_future()).unwrap();
                assert!(guard.fencing_token() > last);
                last = guard.fencing_token();
            }
        }
    }
}

#[test]
fn an_agent_that_has_ended_takes_nothing_and_its_name_is_free() {
    let daemon = OwningDaemon::start();
    let reach = daemon.reach();
    let (locks, others) = (lock_manager(&reach), lock_manager(&reach));
    own(&reach, &locks, "db", Mode::Exclusive);
    let guard = soon(locks.lock("db").into_future()).unwrap();
    locks.terminate();
    assert!(guard.is_lost());
    assert_eq!(soon(guard.lost()), Lost::Terminated);
    assert_eq!(soon(locks.lock("db").into_future()).unwrap_err(), Error::Terminated);
    let next = soon(others.lock("db").into_future()).unwrap();
    drop(guard);
    assert!(!next.is_lost());
    own(&reach, &others, "more", Mode::Exclusive);
    drop((locks, next, others));
    let last = lock_manager(&daemon.reach());
    assert!(soon(last.try_lock("more").into_future()).unwrap().is_some());
}
