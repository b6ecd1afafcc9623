//! Queries of other machines than the one that owns the names: the owner says what it knows, and everything
//! stays with it.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{AgentInfo, Inspected, LockManager, UserAgent};
use navlock_etcd::EtcdOptions;

use super::{
    exclusive,
    leases::proposals,
    looks::is_own,
    owned::MINUTE,
    owning::{asked, beside, machines, own, owning, poll, until},
    paused,
    process::Process,
    proxy::Proxy,
    soon,
};
use crate::server::{DEADLINE, Server, connect, namespace, shared};

fn options(endpoint: String) -> EtcdOptions {
    EtcdOptions::new([endpoint]).time_to_live(MINUTE).keep_names(1)
}

fn machine(endpoint: String) -> LockManager {
    connect(&options(endpoint)).lock_manager("bucket")
}

/// Has a machine own so many names.
fn own_many(locks: &LockManager, count: usize) -> Vec<String> {
    let names: Vec<_> = (0..count).map(|nth| format!("db-{nth}")).collect();
    for name in &names {
        own(locks, name);
    }
    names
}

fn command(held: &Inspected) -> &str {
    held.agent.as_ref().map_or("", |agent| &agent.command)
}

#[test]
fn names_that_ten_others_ask_for_stay_with_their_owner_and_each_query_costs_two_proposals_at_most()
{
    const QUERIES: u64 = 50;
    let server = Server::start();
    let owner = machine(server.endpoint());
    let names = own_many(&owner, 150);
    let next = beside(&owner);
    let guard = exclusive(&owner, &names[7]);
    let readers = [&owner, &next].map(|by| soon(by.lock(&*names[8]).shared()).unwrap());
    let waiting = asked(&next, &names[7]);
    let others: Vec<UserAgent> = (0..10).map(|_| connect(&options(server.endpoint()))).collect();
    let others: Vec<_> = others.iter().map(|other| other.lock_manager("bucket")).collect();
    let before = proposals(&server);
    for _ in 0..QUERIES / 10 {
        thread::scope(|scope| {
            for other in &others {
                scope.spawn(|| {
                    let seen = soon(other.inspect(None)).unwrap();
                    let whose: Vec<_> = seen.held.iter().map(|held| held.lock.client_id).collect();
                    let (a, b) = (owner.client_id(), next.client_id());
                    assert!(whose == [a, a, b] || whose == [a, b, a], "{seen:?}");
                    let [first, ..] = &*seen.held else { panic!("{seen:?}") };
                    assert_eq!(first.fencing_token, Some(guard.fencing_token()));
                    let [pending] = &*seen.pending else { panic!("{seen:?}") };
                    assert_eq!(pending.lock.client_id, b);
                });
            }
        });
    }
    let all = proposals(&server) - before;
    for nth in 7..17 {
        let of = names[nth % 10].as_str().try_into().unwrap();
        let count = soon(others[0].inspect(Some(of))).unwrap().held.len();
        assert_eq!(count, [0, 1, 2][usize::from(nth == 7) + 2 * usize::from(nth == 8)]);
    }
    let of_one = proposals(&server) - before - all;
    assert!(all <= 2 * QUERIES && of_one <= 2 * 10, "{all} proposals, {of_one} proposals");
    assert!(!guard.is_lost() && readers.iter().all(|reader| !reader.is_lost()));
    drop((guard, readers));
    drop(soon(waiting).unwrap());
    assert!(names.iter().all(|name| is_own(&owner, name)));
    assert!(proposals(&server) - before - all == of_one, "a name was given up");
}

#[test]
fn a_query_of_another_machine_shows_what_was_granted_before_and_nothing_that_was_released_before() {
    let [a, b] = owning("db");
    for _ in 0..50 {
        let guard = exclusive(&a, "db");
        let seen = soon(b.inspect(None)).unwrap();
        let [held] = &*seen.held else { panic!("{seen:?}") };
        assert_eq!(held.fencing_token, Some(guard.fencing_token()));
        drop(guard);
        let seen = soon(b.query()).unwrap();
        assert!(seen.held.is_empty(), "{seen:?}");
    }
    assert!(is_own(&a, "db"));
}

#[test]
fn many_who_ask_at_once_are_not_shown_what_was_released_before_they_asked() {
    let [a, b, c] = machines();
    own(&a, "db");
    thread::scope(|scope| {
        let asking = scope.spawn(|| (0..100).for_each(|_| drop(soon(b.query()).unwrap())));
        while !asking.is_finished() {
            drop(exclusive(&a, "db"));
            let seen = soon(c.query()).unwrap();
            assert!(seen.held.is_empty(), "{seen:?}");
        }
    });
    assert!(is_own(&a, "db"));
}

#[test]
fn a_request_that_does_not_wait_has_a_name_that_nobody_holds_although_others_look_at_it() {
    let [a, b, c] = machines();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                soon(b.query()).unwrap();
            }
        });
        let is_had = (0..30).all(|nth| {
            let name = &*format!("db-{nth}");
            own(&a, name);
            soon(c.lock(name).if_available()).unwrap().is_some()
        });
        is_over.store(true, SeqCst);
        assert!(is_had, "a name that is free was refused");
    });
}

#[test]
fn a_query_of_another_machine_is_one_moment_of_what_the_owner_has_there_and_in_etcd() {
    let [a, b] = owning("own");
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            for nth in 0..100 {
                // Nobody has taken it before, so etcd has it.
                let outer = exclusive(&a, &format!("outer-{nth}"));
                let inner = exclusive(&a, "own");
                thread::sleep(Duration::from_millis(2));
                drop((inner, outer));
            }
        });
        let mut whole = 0;
        while !working.is_finished() {
            let seen = soon(b.query()).unwrap();
            let names: Vec<_> = seen.held.iter().map(|held| held.name.to_string()).collect();
            let has = |name: &str| names.iter().any(|of| of.starts_with(name));
            assert!(has("outer") || !has("own"), "{names:?}");
            assert!(names.len() < 3, "{names:?}");
            whole += usize::from(names.len() == 2);
        }
        assert!(whole > 0, "nothing was seen");
    });
    assert!(is_own(&a, "own"));
}

#[test]
fn an_owner_with_more_to_say_than_etcd_takes_at_once_says_it_in_parts() {
    let [a, b] = machines();
    let mut info = AgentInfo::default();
    info.meta = (0..16).map(|nth| (format!("{nth}"), "x".repeat(4096))).collect();
    a.describe(&info);
    let names = own_many(&a, 40);
    let guards: Vec<_> = names.iter().map(|name| exclusive(&a, name)).collect();
    let seen = soon(b.inspect(None)).unwrap();
    assert_eq!(seen.held.len(), names.len());
    assert!(seen.held.iter().all(|held| held.lock.client_id == a.client_id()), "{seen:?}");
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    drop(guards);
    assert!(names.iter().all(|name| is_own(&a, name)));
}

#[test]
fn an_owner_that_is_asked_while_it_is_cut_off_grants_on_and_delays_no_answer_of_others() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let [a, b, c] = [cable.endpoint(), server.endpoint(), server.endpoint()].map(machine);
    let names = own_many(&a, 20);
    own(&c, "other");
    let guard = exclusive(&a, &names[3]);
    let other = exclusive(&c, "other");
    cable.cut();
    for nth in 0..10 {
        let since = Instant::now();
        let seen = soon(b.inspect(None)).unwrap();
        let (silent, rest): (Vec<_>, Vec<_>) =
            seen.held.iter().partition(|held| command(held) == "(a machine)");
        assert_eq!((silent.len(), rest.len()), (names.len(), 1), "{seen:?}");
        assert_eq!(rest[0].fencing_token, Some(other.fencing_token()));
        // It is waited for once.
        assert!(since.elapsed() < Duration::from_secs(if nth == 0 { 5 } else { 1 }));
        assert!(names[4..].iter().all(|name| is_own(&a, name)));
    }
    assert!(!guard.is_lost());
    cable.mend();
    let seen = until(|| {
        let seen = soon(b.inspect(None)).unwrap();
        (seen.held.len() == 2).then_some(seen)
    });
    let is_it = |held: &Inspected| held.fencing_token == Some(guard.fencing_token());
    assert!(seen.held.iter().any(is_it), "{seen:?}");
    drop(guard);
    assert!(names.iter().all(|name| is_own(&a, name)));
}

#[test]
fn an_owner_that_is_stopped_while_it_is_asked_delays_a_query_for_a_bounded_time() {
    let namespace = namespace();
    let (process, mut line) = Process::start("owner", &namespace);
    let token = line.read_numbers("held")[0];
    let other = shared()
        .machine(|options| options.namespace(&*namespace).time_to_live(paused::TIME_TO_LIVE));
    let other = other.lock_manager("bucket");
    process.stop();
    let since = Instant::now();
    let seen = soon(other.inspect(None)).unwrap();
    assert!(since.elapsed() < paused::TIME_TO_LIVE, "{:?}", since.elapsed());
    let [held] = &*seen.held else { panic!("{seen:?}") };
    assert_eq!(command(held), "(a machine)");
    assert!(held.fencing_token.is_some_and(|shown| shown.get() < token), "it is the name's");
}

#[test]
fn while_etcd_is_away_an_owner_that_others_have_asked_grants_on() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let [a, b] = [cable.endpoint(), server.endpoint()].map(machine);
    let names = own_many(&a, 20);
    let before = crate::server::revision(&server);
    // The owner hears of the question when etcd is away.
    cable.delay(Duration::from_millis(300));
    let mut query = Box::pin(b.query());
    assert!(!poll(&mut query));
    until(|| (crate::server::revision(&server) > before).then_some(()));
    server.stop();
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(1) {
        assert!(names.iter().all(|name| is_own(&a, name)));
    }
    drop(soon(query));
    assert!(names.iter().all(|name| is_own(&a, name)));
    server.go_on();
    cable.delay(Duration::ZERO);
    let since = Instant::now();
    while soon(b.query()).is_err() {
        assert!(since.elapsed() < DEADLINE, "it does not answer again");
    }
    assert!(names.iter().all(|name| is_own(&a, name)));
}

#[test]
fn while_etcd_is_full_an_owner_that_others_have_asked_grants_on() {
    const QUOTA: usize = 4 << 20;
    let server = Server::start_with([format!("--quota-backend-bytes={QUOTA}")]);
    let [a, b] = [server.endpoint(), server.endpoint()].map(machine);
    let names = own_many(&a, 10);
    let piece = "x".repeat(100 << 10);
    let is_full = |nth| server.etcdctl(&["put", &format!("junk/{nth}"), &piece]).is_err();
    assert!((0..100).any(is_full), "it takes more than it has room for");
    let guard = exclusive(&a, &names[0]);
    let seen = soon(b.inspect(None)).unwrap();
    assert!(seen.held.iter().all(|held| command(held) == "(a machine)"), "{seen:?}");
    assert_eq!(seen.held.len(), names.len());
    assert!(!guard.is_lost());
    drop(guard);
    assert!(names.iter().all(|name| is_own(&a, name)));
}
