//! Names that stay a machine's: what its agents do with them costs etcd nothing, and others get them when
//! they ask.

use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    ClientId, LockFuture, LockGuard, LockManager, Lost, Mode,
    host::{self, Claim, RequestKind},
};
use navlock_etcd::EtcdOptions;

use super::{exclusive, process::Process, proxy::Proxy, settle, soon, state, until_waiting};
use crate::server::{DEADLINE, Server, connect, namespace, shared};

const TIME_TO_LIVE: Duration = Duration::from_secs(10);

/// So long that nothing ends it here.
const MINUTE: Duration = Duration::from_secs(60);

/// A machine that keeps what it has taken and released once.
pub(crate) fn keeping(endpoint: String, namespace: &str) -> LockManager {
    connect(&EtcdOptions::new([endpoint]).namespace(namespace).keep_names(1)).lock_manager("bucket")
}

fn machines<const N: usize>() -> [LockManager; N] {
    let namespace = namespace();
    std::array::from_fn(|_| keeping(shared().endpoint(), &namespace))
}

/// Another agent of the same machine.
pub(crate) fn beside(locks: &LockManager) -> LockManager {
    host::lock_manager_as(&locks.bucket(), ClientId::random())
}

/// Has the name be this machine's.
#[track_caller]
pub(crate) fn own(locks: &LockManager, name: &str) {
    let since = Instant::now();
    loop {
        drop(exclusive(locks, name));
        let mut future = locks.lock(name).into_future();
        // If it is there at once, etcd cannot have been asked.
        if poll(&mut future) {
            return;
        }
        assert!(since.elapsed() < DEADLINE, "{name} is never its own");
        drop(soon(future));
    }
}

/// Has the machine take a name of its own until it has done so this often.
#[track_caller]
fn until_taken(locks: &LockManager, name: &str, times: u64) {
    while exclusive(locks, name).fencing_token().get() & 0xf_ffff < times {}
}

/// Two machines, of which the first has this name.
fn owning(name: &str) -> [LockManager; 2] {
    let machines = machines();
    own(&machines[0], name);
    machines
}

/// Asks until this is so.
#[track_caller]
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(since.elapsed() < DEADLINE, "it never is");
    }
}

/// Whether it is ready.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// A request that has to wait.
#[track_caller]
pub(crate) fn asked<'a>(
    locks: &'a LockManager,
    name: &'a str,
) -> LockFuture<'a, LockGuard, &'a str> {
    let mut future = locks.lock(name).into_future();
    assert!(!poll(&mut future), "it has to wait");
    future
}

/// The revision of etcd: how often it was written to.
pub(crate) fn revision(server: &Server) -> u64 {
    let said = server.etcdctl(&["get", "nothing", "--write-out=json"]).unwrap();
    let at = said.find("\"revision\":").expect("there is a revision") + 11;
    let revision: String = said[at..].chars().take_while(char::is_ascii_digit).collect();
    revision.parse().unwrap()
}

#[test]
fn what_nobody_else_uses_costs_etcd_nothing() {
    let server = Server::start();
    let locks = keeping(server.endpoint(), "navlock");
    own(&locks, "db");
    let (before, other) = (revision(&server), beside(&locks));
    let mut last = exclusive(&locks, "db").fencing_token();
    for nth in 0..1000 {
        let by = if nth % 2 == 0 { &locks } else { &other };
        let guard = exclusive(by, "db");
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
    }
    let readers = [&locks, &other].map(|by| soon(by.lock("db").shared()).unwrap());
    assert!(soon(locks.lock("db").if_available()).unwrap().is_none());
    let mut writer = asked(&other, "db");
    let thief = soon(locks.lock("db").steal()).unwrap();
    assert!(readers.iter().all(LockGuard::is_lost));
    assert!(!poll(&mut writer));
    let last = thief.fencing_token();
    drop(thief);
    assert!(soon(writer).unwrap().fencing_token() > last);
    assert_eq!(revision(&server), before);
}

#[test]
fn who_asks_on_another_machine_gets_an_idle_name() {
    let [a, b] = owning("db");
    let last = exclusive(&a, "db").fencing_token();
    let guard = exclusive(&b, "db");
    assert!(guard.fencing_token() > last);
    drop(guard);
    own(&a, "tried");
    // An owner that is slow to say so counts as one who holds it.
    drop(until(|| soon(b.lock("tried").if_available()).unwrap()));
    own(&a, "read");
    drop(soon(b.lock("read").shared()).unwrap());
    own(&a, "stolen");
    drop(soon(b.lock("stolen").steal()).unwrap());
    drop(exclusive(&a, "stolen"));
}

#[test]
fn nobody_is_preferred_who_asks_after_another_machine() {
    let [a, b] = owning("db");
    let (before, after) = (beside(&a), beside(&a));
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let first = asked(&before, "db");
        let first = scope.spawn(|| soon(first).unwrap());
        let second = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&b, 2);
        let third = scope.spawn(|| exclusive(&after, "db"));
        until_waiting(&b, 3);
        let mut last = guard.fencing_token();
        drop(guard);
        for next in [first, second, third] {
            let guard = next.join().unwrap();
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
        }
    });
    settle(&a);
    assert_eq!(state(&b), (vec![], vec![]));
}

#[test]
fn who_does_not_wait_is_told_what_only_the_owner_knows() {
    let [a, b] = owning("db");
    let guard = exclusive(&a, "db");
    assert!(soon(b.lock("db").if_available()).unwrap().is_none());
    assert!(!guard.is_lost());
    drop(guard);
    own(&a, "read");
    let reader = soon(a.lock("read").shared()).unwrap();
    let other = until(|| soon(b.lock("read").shared().if_available()).unwrap());
    assert!(soon(b.lock("read").if_available()).unwrap().is_none());
    drop((reader, other));
}

#[test]
fn an_owner_grants_nothing_any_more_once_it_is_stolen_from() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let (a, b) = (keeping(cable.endpoint(), "navlock"), keeping(server.endpoint(), "navlock"));
    own(&a, "idle");
    own(&a, "held");
    let (guard, next) = (exclusive(&a, "held"), beside(&a));
    // It hears of others later than they of each other.
    cable.delay(Duration::from_millis(100));
    let thief = soon(b.lock("idle").steal()).unwrap();
    let after = asked(&a, "idle");
    let robber = soon(b.lock("held").steal()).unwrap();
    assert!(robber.fencing_token() > guard.fencing_token());
    // Who has held it hears of that later, and nobody has it meanwhile.
    drop(guard);
    let then = asked(&next, "held");
    cable.delay(Duration::ZERO);
    assert!(!thief.is_lost() && !robber.is_lost());
    drop((thief, robber));
    drop((soon(after).unwrap(), soon(then).unwrap()));
}

#[test]
fn an_owner_that_cannot_be_asked_is_robbed() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(MINUTE).keep_names(1);
    let a = connect(&options(cable.endpoint())).lock_manager("bucket");
    let b = connect(&options(server.endpoint())).lock_manager("bucket");
    own(&a, "db");
    let (guard, next) = (exclusive(&a, "db"), beside(&a));
    thread::scope(|scope| {
        let waiting = asked(&next, "db");
        let waiting = scope.spawn(|| soon(waiting).unwrap());
        // It cannot say anything.
        cable.cut();
        let thief = soon(b.lock("db").steal()).unwrap();
        assert!(thief.fencing_token() > guard.fencing_token());
        cable.mend();
        assert_eq!(soon(guard.lost()), Lost::Stolen);
        drop(thief);
        drop(waiting.join().unwrap());
    });
}

#[test]
fn a_name_that_others_only_look_at_is_soon_owned_again() {
    let [a, b] = owning("db");
    for _ in 0..8 {
        // Nobody has it: so nothing is shown of it, and it was given up.
        assert!(soon(b.inspect(None)).unwrap().held.is_empty());
        // Who wants it eight times has it not be owned before it was taken 256 times.
        let is_own = |_| {
            let is_counted = exclusive(&a, "db").fencing_token().get() & 0xf_ffff > 0;
            // It is not owned again for a quarter of a second, whoever takes it.
            thread::sleep(Duration::from_millis(10));
            is_counted
        };
        assert!((0..100).any(is_own), "it is not owned again");
    }
}

#[test]
fn a_name_that_is_taken_all_the_time_is_shown_at_once_and_in_pictures_as_the_machines() {
    let [a, b] = owning("db");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                drop(exclusive(&a, "db"));
            }
        });
        for _ in 0..5 {
            let seen = soon(b.inspect(None)).unwrap();
            let by = |held: &navlock_core::Inspected| held.lock.client_id;
            assert!(seen.held.iter().all(|held| by(held) == a.client_id()), "{seen:?}");
        }
        // Who looks again and again asks nobody, and the name stays what it is.
        own(&a, "kept");
        let guard = exclusive(&a, "kept");
        let seen = soon(host::look(&b)).unwrap();
        let kept = |one: &&host::Sighted| one.inspected.lock.name == "kept";
        assert_eq!(seen.owned.iter().filter(kept).count(), 1, "{seen:?}");
        assert_eq!(seen.held.iter().filter(kept).count(), 0, "{seen:?}");
        drop(guard);
        assert!(poll(&mut a.lock("kept").into_future()), "to look has taken it");
        is_over.store(true, SeqCst);
    });
}

#[test]
fn an_owner_that_does_not_answer_is_waited_for_once() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(MINUTE).keep_names(1);
    let a = connect(&options(cable.endpoint())).lock_manager("bucket");
    let b = connect(&options(server.endpoint())).lock_manager("bucket");
    own(&a, "db");
    cable.cut();
    let tried = |_| assert!(soon(b.lock("db").if_available()).unwrap().is_none());
    tried(0);
    // As if it was held: it is known by now that the owner does not say so.
    let since = Instant::now();
    (0..20).for_each(tried);
    for _ in 0..5 {
        let seen = soon(b.inspect(None)).unwrap();
        assert_eq!(seen.held.len(), 1, "{seen:?}");
    }
    assert!(since.elapsed() < DEADLINE / 2, "each waits anew");
    cable.mend();
}

#[test]
fn a_query_of_another_machine_shows_who_holds_and_who_waits() {
    let [a, b] = owning("db");
    let next = beside(&a);
    own(&a, "idle");
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let waiting = asked(&next, "db");
        let waiting = scope.spawn(|| soon(waiting).unwrap());
        let seen = until(|| {
            let seen = soon(b.inspect(None)).unwrap();
            let is_said = seen.held.iter().all(|held| held.lock.client_id == a.client_id());
            is_said.then_some(seen)
        });
        let [held] = &*seen.held else { panic!("{seen:?}") };
        assert_eq!(held.fencing_token, Some(guard.fencing_token()));
        assert_eq!(seen.pending.len(), 1);
        assert_eq!(seen.pending[0].lock.client_id, next.client_id());
        drop(guard);
        drop(waiting.join().unwrap());
    });
    own(&a, "db");
    let reader = soon(a.lock("db").shared()).unwrap();
    assert_eq!(state(&a), (vec![Mode::Shared], vec![]));
    drop(reader);
    assert_eq!(state(&a), (vec![], vec![]));
}

#[test]
fn a_reader_elsewhere_joins_readers_here_and_waits_behind_a_writer() {
    let [a, b] = owning("db");
    let (next, last) = (beside(&a), beside(&b));
    let reader = soon(a.lock("db").shared()).unwrap();
    drop(soon(b.lock("db").shared()).unwrap());
    drop(reader);
    own(&a, "db");
    let reader = soon(a.lock("db").shared()).unwrap();
    let mut writer = asked(&next, "db");
    thread::scope(|scope| {
        let behind = scope.spawn(|| soon(last.lock("db").shared()).unwrap());
        until_waiting(&b, 2);
        assert!(!poll(&mut writer));
        drop(reader);
        let writer = soon(writer).unwrap();
        until_waiting(&b, 1);
        let token = writer.fencing_token();
        drop(writer);
        assert!(behind.join().unwrap().fencing_token() > token);
    });
}

#[test]
fn who_gives_up_while_the_owner_is_asked_leaves_nothing_behind() {
    let [a, b] = machines();
    let next = beside(&a);
    for nth in 0..50 {
        // What others want is kept ever more rarely.
        let name = &*format!("db-{nth}");
        own(&a, name);
        let guard = exclusive(&a, name);
        let waits = (nth % 2 == 0).then(|| asked(&next, name));
        let gives_up = asked(&b, name);
        if nth % 3 == 0 {
            until_waiting(&b, 1 + usize::from(waits.is_some()));
        }
        drop(gives_up);
        drop(guard);
        if let Some(waits) = waits {
            drop(soon(waits).unwrap());
        }
    }
    settle(&a);
    settle(&b);
    assert_eq!(state(&b), (vec![], vec![]));
    drop(exclusive(&b, "db-0"));
}

#[test]
fn machines_that_take_turns_hold_alone_and_their_tokens_grow() {
    const TIMES: usize = 60;
    let [a, b] = machines();
    let last = AtomicU64::new(0);
    let is_held = AtomicBool::new(false);
    thread::scope(|scope| {
        for locks in [&a, &b, &beside(&a), &beside(&b)] {
            let (last, is_held, locks) = (&last, &is_held, locks.clone());
            scope.spawn(move || {
                for nth in 0..TIMES {
                    let guard = if nth % 5 == 4 {
                        loop {
                            if let Some(guard) = soon(locks.lock("db").if_available()).unwrap() {
                                break guard;
                            }
                        }
                    } else {
                        exclusive(&locks, "db")
                    };
                    assert!(!is_held.swap(true, SeqCst), "two hold it");
                    let token = guard.fencing_token().get();
                    assert!(last.swap(token, SeqCst) < token, "tokens go back");
                    is_held.store(false, SeqCst);
                    drop(guard);
                }
            });
        }
    });
    let elsewhere = exclusive(&a, "db");
    assert!(elsewhere.fencing_token().get() > last.load(SeqCst));
}

#[test]
fn tokens_grow_over_machines_that_come_and_go() {
    let namespace = namespace();
    let mut last = None;
    for _ in 0..4 {
        let locks = keeping(shared().endpoint(), &namespace);
        own(&locks, "db");
        for _ in 0..3 {
            let token = Some(exclusive(&locks, "db").fencing_token());
            assert!(token > last);
            last = token;
        }
    }
}

#[test]
fn what_a_killed_machine_kept_is_anothers_when_its_lease_is_over() {
    let namespace = namespace();
    let (process, mut line) = Process::start("owner", &namespace);
    let token = line.hear_of("held")[0];
    drop(process);
    let other = keeping(shared().endpoint(), &namespace);
    let heir = exclusive(&other, "db");
    assert!(heir.fencing_token().get() > token);
}

#[test]
fn to_look_at_names_that_are_kept_ends_nothing() {
    let [a, _] = owning("db");
    own(&a, "idle");
    let guard = exclusive(&a, "db");
    for _ in 0..3 {
        assert_eq!(state(&a), (vec![Mode::Exclusive], vec![]));
    }
    assert!(!guard.is_lost());
    let next = asked(&a, "idle-next");
    assert!(soon(next).is_ok());
}

#[test]
fn what_an_owner_holds_that_is_cut_off_is_lost_before_another_has_it() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let machine = |endpoint| {
        let options = EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE).keep_names(1);
        connect(&options).lock_manager("bucket")
    };
    let (a, b) = (machine(cable.endpoint()), machine(server.endpoint()));
    own(&a, "db");
    own(&a, "idle");
    let guard = exclusive(&a, "db");
    cable.cut();
    // Etcd is not asked for what is its own.
    assert!(poll(&mut a.lock("idle").into_future()), "it is not granted");
    thread::scope(|scope| {
        let idle = scope.spawn(|| exclusive(&b, "idle"));
        let heir = scope.spawn(|| {
            let heir = exclusive(&b, "db");
            assert!(guard.is_lost());
            heir
        });
        assert_eq!(soon(guard.lost()), Lost::Disconnected);
        // It has lost its names as well.
        assert!(soon(a.lock("idle")).is_err());
        let heir = heir.join().unwrap();
        assert!(heir.fencing_token() > guard.fencing_token());
        drop(idle.join().unwrap());
    });
}

#[test]
fn what_an_agent_had_of_a_name_ends_with_it() {
    let [a, b] = owning("db");
    let (gone, next) = (beside(&a), beside(&a));
    let guard = exclusive(&gone, "db");
    thread::scope(|scope| {
        let heir = asked(&next, "db");
        let heir = scope.spawn(|| soon(heir).unwrap());
        gone.terminate();
        assert_eq!(soon(guard.lost()), Lost::Terminated);
        drop(heir.join().unwrap());
    });
    drop(exclusive(&b, "db"));
}

/// Of what was held.
fn claim(name: &str, guard: &LockGuard) -> Claim {
    let (name, kind) = (name.try_into().unwrap(), RequestKind::Wait(guard.mode()));
    Claim { name, kind, token: Some(guard.fencing_token()), since: 0 }
}

#[test]
fn what_only_a_killed_owner_knew_is_gone_on_with() {
    let server = Server::start();
    let (client, cable) = (ClientId::random(), Proxy::to(server.port()));
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE).keep_names(1);
    let killed = connect(&options(cable.endpoint()));
    let locks = host::lock_manager_as(&killed.bucket("bucket"), client);
    let other = connect(&options(server.endpoint())).lock_manager("bucket");
    own(&locks, "written");
    own(&locks, "read");
    own(&locks, "idle");
    // As often, so that nothing but the revision tells the locks of the two apart.
    until_taken(&locks, "written", 9);
    until_taken(&locks, "read", 9);
    let written = exclusive(&locks, "written");
    let read = soon(locks.lock("read").shared()).unwrap();

    cable.cut();
    let user_agent = connect(&options(server.endpoint()));
    let next = host::lock_manager_as(&user_agent.bucket("bucket"), client);
    let claims = vec![claim("written", &written), claim("read", &read)];
    let found = soon(host::recall(&next, claims)).unwrap();
    let mut again =
        found.into_iter().map(|found| soon(found.expect("it is held")).unwrap().unwrap());
    let (written_again, read_again) = (again.next().unwrap(), again.next().unwrap());
    assert_eq!(written_again.fencing_token(), written.fencing_token());
    assert_eq!(read_again.fencing_token(), read.fencing_token());
    thread::scope(|scope| {
        let heir = scope.spawn(|| exclusive(&other, "written"));
        until_waiting(&other, 1);
        // Longer than a lease that nobody keeps.
        thread::sleep(TIME_TO_LIVE + Duration::from_secs(1));
        assert!(!written_again.is_lost() && !read_again.is_lost());
        assert!(soon(other.lock("read").if_available()).unwrap().is_none());
        drop(written_again);
        assert!(heir.join().unwrap().fencing_token() > written.fencing_token());
    });
    drop(read_again);
    drop(exclusive(&other, "read"));
    drop(exclusive(&other, "idle"));
}

#[test]
fn who_was_robbed_by_others_of_its_machine_does_not_go_on_beside_them() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE).keep_names(1);
    let killed = connect(&options(cable.endpoint()));
    let clients = [(); 2].map(|()| ClientId::random());
    let [robbed, thief] =
        clients.map(|client| host::lock_manager_as(&killed.bucket("bucket"), client));
    // The second is robbed by itself.
    let stolen = ["of another", "of its own"].map(|name| {
        own(&robbed, name);
        let by = if name == "of another" { &thief } else { &robbed };
        let reader = soon(robbed.lock(name).shared()).unwrap();
        let claim_of_reader = claim(name, &reader);
        (reader, claim_of_reader, soon(by.lock(name).steal()).unwrap())
    });
    cable.cut();
    let user_agent = connect(&options(server.endpoint()));
    let [robbed, thief] =
        clients.map(|client| host::lock_manager_as(&user_agent.bucket("bucket"), client));
    // Nobody has told those who were robbed.
    let [(_, first, of_another), (_, second, of_its_own)] = &stolen;
    let held = |by: &LockManager, claims: Vec<Claim>| {
        let found = soon(host::recall(by, claims)).unwrap();
        let tickets = found.into_iter().map(|found| found.map(|found| soon(found).unwrap()));
        tickets.map(Option::flatten).collect::<Vec<_>>()
    };
    let claims = vec![first.clone(), second.clone(), claim("of its own", of_its_own)];
    let robbed = held(&robbed, claims);
    assert!(robbed[1].is_none() && robbed[2].is_some());
    let thief = held(&thief, vec![claim("of another", of_another)]);
    // Whoever comes first.
    assert!(robbed[0].is_none() != thief[0].is_none(), "two hold it");
}
