//! Locks that end by themselves: how a daemon serves them, and how the next daemon takes them over.

use std::{
    fs::File,
    future::Future,
    io::Write,
    pin::pin,
    sync::atomic::Ordering::SeqCst,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use navlock_broker::{
    BrokerReach, ConnectOptions, Place, Reason,
    daemon::{self, DaemonError, Options},
};
use navlock_core::{ClientId, Lost, Mode, host::RequestKind};
use navlock_engine::RequestId;
use navlock_wire::{FromDaemon, Sent, ToDaemon, VERSION, encode};
use rustix::fs::{FlockOperation, flock};

use crate::{
    daemon::{Daemon, LONG, eventually, queue, soon},
    leased::{LeasedDaemon, uptime},
    raw::Raw,
};

const AGENT: [u8; 16] = [1; 16];

fn id() -> RequestId {
    RequestId::from_parts(0, 0)
}

fn open() -> ToDaemon {
    ToDaemon::OpenAgent { agent: 0, client_id: AGENT, bucket: "app".to_owned() }
}

fn request(nth: u32) -> ToDaemon {
    let kind = RequestKind::Wait(Mode::Exclusive);
    let request = RequestId::from_parts(nth, nth.into());
    ToDaemon::Request { agent: 0, request, name: "db".try_into().unwrap(), kind, slot: None }
}

/// The first messages of a client of this version.
fn greeting(key: u128, returning: bool) -> [ToDaemon; 2] {
    [
        ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        ToDaemon::Introduce { client: key.to_be_bytes(), returning },
    ]
}

/// Makes and locks the file of a client, which lives as long as the file is open.
fn lives(daemon: &LeasedDaemon, name: &str) -> File {
    let clients = daemon.path().join("sock.clients");
    std::fs::create_dir_all(&clients).unwrap();
    let file = File::create(clients.join(name)).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

fn term(message: &FromDaemon) -> Duration {
    let FromDaemon::Term { agent: 0, ends, bounds: None } = message else { panic!("{message:?}") };
    Duration::from_nanos(ends.0)
}

#[test]
fn the_next_daemon_goes_on_with_locks_and_places() {
    let mut daemon = LeasedDaemon::started();
    let [a, b, c] = [(); 3].map(|()| daemon.locks());
    let held = soon(a.lock("db")).unwrap();
    let also = soon(a.lock("also").shared()).unwrap();
    let token = held.fencing_token();
    let mut second = pin!(b.lock("db").into_future());
    queue(&b, "db", second.as_mut());
    let mut third = pin!(c.lock("db").into_future());
    queue(&c, "db", third.as_mut());
    let asked = daemon.world.asked.load(SeqCst);
    daemon.kill();
    daemon.start();

    let state = soon(b.query()).unwrap();
    assert_eq!((state.held.len(), state.pending.len()), (2, 2), "{state:?}");
    assert!(!held.is_lost() && !also.is_lost());
    assert_eq!(held.fencing_token(), token);
    // The reach has had no new request.
    assert_eq!(daemon.world.asked.load(SeqCst), asked);
    drop(held);
    let second = soon(second).unwrap();
    assert!(second.fencing_token() > token);
    let mut context = Context::from_waker(Waker::noop());
    assert!(third.as_mut().poll(&mut context).is_pending());
    drop(second);
    drop(soon(third).unwrap());
}

#[test]
fn claims_are_in_the_order_of_the_requests() {
    let mut daemon = LeasedDaemon::started();
    let locks = daemon.locks();
    let mut held = Vec::new();
    for name in ["0", "1", "2"] {
        held.push(soon(locks.lock(name)).unwrap());
    }
    let mut waiting = Box::pin(locks.lock("1").into_future());
    queue(&locks, "1", waiting.as_mut());
    // From here on another lock has the place of this one in the client's table.
    drop(held.remove(0));
    held.push(soon(locks.lock("3")).unwrap());
    daemon.kill();
    daemon.start();
    soon(locks.query()).unwrap();
    let [claims] = &daemon.world.reclaimed()[..] else { panic!("not one agent") };
    let names: Vec<_> = claims.iter().filter_map(|claim| claim.name.as_str()).collect();
    assert_eq!(names, ["1", "2", "1", "3"]);
    let tokens: Vec<_> = claims.iter().map(|claim| claim.token.is_some()).collect();
    assert_eq!(tokens, [true, true, false, true]);
}

#[test]
fn a_lock_that_the_next_daemon_does_not_find_is_lost_and_its_waiter_waits_anew() {
    let mut daemon = LeasedDaemon::started();
    let [a, b] = [(); 2].map(|()| daemon.locks());
    let held = soon(a.lock("db")).unwrap();
    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    daemon.kill();
    daemon.world.end_leases();
    daemon.start();
    assert_eq!(soon(held.lost()), Lost::Disconnected);
    drop(soon(waiting).unwrap());
}

#[test]
fn a_lock_released_while_there_was_no_daemon_is_free() {
    let mut daemon = LeasedDaemon::started();
    let a = daemon.locks();
    let held = soon(a.lock("db")).unwrap();
    daemon.kill();
    drop(held);
    daemon.start();
    let b = daemon.locks();
    drop(soon(b.lock("db")).unwrap());
    drop(a);
}

#[test]
fn the_others_wait_for_a_client_that_reclaims_and_one_that_goes_meanwhile_leaves_nothing() {
    let mut daemon = LeasedDaemon::new();
    let token = daemon.world.hold(ClientId::from_bytes(AGENT), "db");
    let living = lives(&daemon, &format!("{:032x}", 7));
    daemon.world.answer(false);
    daemon.start();
    let name = "db".try_into().unwrap();
    let claim = ToDaemon::ClaimLock {
        agent: 0,
        request: id(),
        name,
        mode: Mode::Exclusive,
        token,
        since: 0,
    };
    let mut raw = Raw::connect(&daemon.place(), &greeting(7, true));
    raw.say(&[open(), claim, ToDaemon::Claimed]);
    assert!(matches!(raw.receive(), FromDaemon::Welcome { reach: Some(_), .. }));
    let locks = daemon.locks();
    let mut waiting = pin!(locks.lock("db").if_available().into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    // The client is gone, and its lock with it, although its claim was never answered.
    drop((raw, living));
    assert!(soon(waiting).unwrap().is_some());
}

#[test]
fn an_inheritor_keeps_its_locks() {
    let mut daemon = LeasedDaemon::new();
    let token = daemon.world.hold(ClientId::from_bytes(AGENT), "db");
    let mut inheritors = lives(&daemon, &format!("{:032x}.locks", 7));
    let mut bytes = BytesMut::new();
    let claim = |request, name: &str| ToDaemon::ClaimLock {
        agent: 0,
        request: RequestId::from_parts(request, request.into()),
        name: name.try_into().unwrap(),
        mode: Mode::Exclusive,
        token,
        since: 0,
    };
    for message in [open(), claim(0, "db"), claim(1, "gone"), ToDaemon::Claimed] {
        encode(&Sent { at: 0, message: &message }, &mut bytes).unwrap();
    }
    inheritors.write_all(&bytes).unwrap();
    daemon.start();
    let locks = daemon.locks();
    let held = soon(locks.query()).unwrap().held;
    assert_eq!(held.iter().map(|lock| lock.name.as_str()).collect::<Vec<_>>(), [Some("db")]);
    assert_eq!(daemon.world.asked.load(SeqCst), 0);
    assert!(soon(locks.lock("gone").if_available()).unwrap().is_some());
    drop(inheritors);
    drop(soon(locks.lock("db")).unwrap());
}

/// A daemon whose client is killed while it comes back: the daemon has found the client's lock, and does not
/// know yet whether the lease is kept. Also returns the open file of the inheritors, if there are any.
fn killed_while_it_comes_back(is_inherited: bool) -> (LeasedDaemon, Option<File>) {
    let mut daemon = LeasedDaemon::new();
    let token = daemon.world.hold(ClientId::from_bytes(AGENT), "db");
    let living = lives(&daemon, &format!("{:032x}", 7));
    let (request, name) = (id(), "db".try_into().unwrap());
    let claim =
        ToDaemon::ClaimLock { agent: 0, request, name, mode: Mode::Exclusive, token, since: 0 };
    let claims = [open(), claim, ToDaemon::Claimed];
    let inheritors = is_inherited.then(|| {
        let mut bytes = BytesMut::new();
        for claim in &claims {
            encode(&Sent { at: 0, message: claim }, &mut bytes).unwrap();
        }
        let mut inheritors = lives(&daemon, &format!("{:032x}.locks", 7));
        inheritors.write_all(&bytes).unwrap();
        inheritors
    });
    daemon.world.keep_back(true);
    daemon.start();
    let mut raw = Raw::connect(&daemon.place(), &greeting(7, true));
    raw.say(&claims);
    assert!(matches!(raw.receive(), FromDaemon::Welcome { reach: Some(_), .. }));
    eventually("it waits for the reach", || daemon.world.keeps_waiting());
    drop((raw, living));
    (daemon, inheritors)
}

#[test]
fn an_inheritor_keeps_its_locks_when_their_client_is_killed_while_it_comes_back() {
    let (daemon, inheritors) = killed_while_it_comes_back(true);
    // For longer than the daemon takes to see that the client has gone: it looks twice in a second.
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(2) {
        assert_eq!(daemon.world.count(), 1, "it is released while others work under it");
        // No event is waited for: the test is that nothing changes during this time.
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.world.keep_back(false);
    let locks = daemon.locks();
    let held = soon(locks.query()).unwrap().held;
    assert_eq!(held.iter().map(|lock| lock.name.as_str()).collect::<Vec<_>>(), [Some("db")]);
    drop(inheritors);
    drop(soon(locks.lock("db")).unwrap());
}

#[test]
fn a_lock_without_an_inheritor_is_free_when_its_client_is_killed_while_it_comes_back() {
    let (daemon, _) = killed_while_it_comes_back(false);
    // Polled, because the reach tells nobody when its count changes.
    eventually("it is released", || daemon.world.count() == 0);
    daemon.world.keep_back(false);
    let locks = daemon.locks();
    drop(soon(locks.lock("db")).unwrap());
}

#[test]
fn a_term_is_said_before_a_grant_and_whenever_it_is_another() {
    let daemon = LeasedDaemon::started();
    let ends = uptime() + LONG;
    daemon.world.end_at(ends);
    let mut raw = Raw::connect(&daemon.place(), &greeting(7, false));
    let reach = "a test's world".to_owned();
    assert_eq!(raw.receive(), FromDaemon::Welcome { version: VERSION, reach: Some(reach) });
    assert_eq!(raw.receive(), FromDaemon::Settled);
    raw.say(&[open(), request(0)]);
    assert_eq!(term(&raw.receive()), ends);
    assert!(matches!(raw.receive(), FromDaemon::Granted { .. }));
    for more in 1..3 {
        daemon.world.end_at(ends + more * LONG);
        assert_eq!(term(&raw.receive()), ends + more * LONG);
    }
    // Another agent with the same number, which has not been told its term yet.
    raw.say(&[ToDaemon::CloseAgent { agent: 0 }]);
    assert!(matches!(raw.receive(), FromDaemon::Lost { .. }));
    raw.say(&[open(), request(1)]);
    assert_eq!(term(&raw.receive()), ends + 2 * LONG);
    assert!(matches!(raw.receive(), FromDaemon::Granted { .. }));
}

#[test]
fn a_term_is_said_while_others_are_waited_for() {
    let mut daemon = LeasedDaemon::new();
    let token = daemon.world.hold(ClientId::from_bytes(AGENT), "db");
    // Two clients that live; the second one does not come back.
    let living = [7, 8].map(|key| lives(&daemon, &format!("{key:032x}")));
    daemon.start();
    let mut raw = Raw::connect(&daemon.place(), &greeting(7, true));
    let (name, mode) = ("db".try_into().unwrap(), Mode::Exclusive);
    let claim = ToDaemon::ClaimLock { agent: 0, request: id(), name, mode, token, since: 0 };
    raw.say(&[open(), claim, ToDaemon::Claimed]);
    assert!(matches!(raw.receive(), FromDaemon::Welcome { reach: Some(_), .. }));
    term(&raw.receive());
    let ends = uptime() + 2 * LONG;
    daemon.world.end_at(ends);
    assert_eq!(term(&raw.receive()), ends);
    drop(living);
    assert_eq!(raw.receive(), FromDaemon::Settled);
}

/// The variable with the daemon's place, for the process that a test starts.
const PLACE: &str = "NAVLOCK_TEST_PLACE";

#[test]
fn a_client_that_needs_other_machines_is_not_served_by_a_daemon_of_this_one_only() {
    let name =
        "reclaim::a_client_that_needs_other_machines_is_not_served_by_a_daemon_of_this_one_only";
    let reason = |options: ConnectOptions| match soon(BrokerReach::connect(options)) {
        Ok(_) => None,
        Err(error) => Some((error.reason().clone(), error.to_string())),
    };
    if let Some(place) = std::env::var_os(PLACE) {
        let place = Place::at(std::path::PathBuf::from(place));
        let (reason, said) = reason(ConnectOptions::default().place(place)).unwrap();
        assert_eq!(reason, Reason::NotShared);
        assert!(said.contains("NAVLOCK_ETCD is set; 'navlock daemon stop'"), "{said}");
        return;
    }
    let (local, leased) = (Daemon::start(), LeasedDaemon::started());
    let at = |place, must_be| ConnectOptions::default().place(place).shared(must_be);
    assert_eq!(reason(at(local.place(), true)).unwrap().0, Reason::NotShared);
    assert_eq!(reason(at(local.place(), false)), None);
    assert_eq!(reason(at(leased.place(), true)), None);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact"]).env(PLACE, local.place().socket()).env("NAVLOCK_ETCD", "a:1");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn the_reach_of_a_daemon_is_told_with_how_it_is() {
    let daemon = LeasedDaemon::started();
    let options = ConnectOptions::default().place(daemon.place()).program("/nonexistent");
    let reach = soon(BrokerReach::connect(options)).unwrap();
    assert_eq!(soon(reach.status()).unwrap().reach.as_deref(), Some("a test's world"));
    let daemon = Daemon::start();
    let options = ConnectOptions::default().place(daemon.place()).program("/nonexistent");
    let reach = soon(BrokerReach::connect(options)).unwrap();
    assert_eq!(soon(reach.status()).unwrap().reach, None);
}

#[test]
fn a_daemon_without_what_keeps_its_locks_says_why_and_does_not_listen() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let ready = || panic!("it listens");
    let user_agent = |_| Err("etcd at 10.0.0.1:2379 does not answer".into());
    let error = daemon::run(&place, user_agent, &Options::default(), ready).unwrap_err();
    assert!(matches!(error, DaemonError::Reach(_)));
    assert_eq!(error.to_string(), "etcd at 10.0.0.1:2379 does not answer");
    assert!(!place.socket().exists());
}
