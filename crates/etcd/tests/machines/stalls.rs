//! An etcd that does not answer for a while, and goes on as if nothing had been.

use std::{
    env,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{LockGuard, LockManager, Lost, blocking::block_on_timeout};
use navlock_etcd::EtcdOptions;

use super::{
    exclusive,
    faults::machine,
    owning::{beside, own},
    proxy::Proxy,
    settle, soon,
};
use crate::server::{Cluster, DEADLINE, Server, connect};

/// An eighth of it is how long a call may take.
const TIME_TO_LIVE: Duration = Duration::from_secs(20);

/// Longer than a call may take, also if it is asked again whether anybody is there.
const STALL: Duration = Duration::from_secs(7);

/// How many names a machine holds.
const NAMES: usize = 100;

/// How many requests are made in a stall.
const LATE: u64 = 30;

/// How many calls a machine makes at most beside those for what it is asked: to keep its lease, to look at
/// it, and to find out whether etcd is there.
const FEW: u64 = 20;

/// A machine that asks etcd for each lock, and the cable by which it does.
fn by_cable(server: &Server) -> (LockManager, Proxy) {
    let cable = Proxy::to(server.port());
    let options = EtcdOptions::new([cable.endpoint()]).time_to_live(TIME_TO_LIVE).keep_names(0);
    (connect(&options).lock_manager("bucket"), cable)
}

/// Holds many names.
fn hold(locks: &LockManager) -> Vec<LockGuard> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = || format!("held-{}", NEXT.fetch_add(1, SeqCst));
    let held = (0..NAMES).map(|_| exclusive(locks, &name())).collect();
    settle(locks);
    held
}

/// Has the watches of a machine hang, once there are any.
fn hang(cable: &Proxy) {
    until_watching(cable);
    assert_eq!(cable.hang(), 1);
}

/// Waits until a stream of watches has begun that does not hang.
fn until_watching(cable: &Proxy) {
    let since = Instant::now();
    while cable.telling() == 0 {
        assert!(since.elapsed() < DEADLINE, "nothing is watched");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Another machine steals these names, and their holder is told.
fn steal(other: &LockManager, held: impl IntoIterator<Item = LockGuard>) {
    for guard in held {
        let thief = soon(other.lock(guard.name().clone()).steal()).unwrap();
        assert_eq!(soon(guard.lost()), Lost::Stolen);
        assert!(thief.fencing_token() > guard.fencing_token());
    }
}

#[test]
fn a_stall_of_etcd_takes_no_lock_and_costs_no_calls() {
    let server = Server::start();
    let (locks, cable) = by_cable(&server);
    let mut held = hold(&locks);
    let before = cable.calls();
    server.stop();
    thread::scope(|scope| {
        // They are late, all of them.
        let late: Vec<_> = (0..LATE).map(|nth| locks.lock(format!("late-{nth}"))).collect();
        let late: Vec<_> =
            late.into_iter().map(|late| scope.spawn(|| soon(late).unwrap())).collect();
        // The time is the fault.
        thread::sleep(STALL);
        server.go_on();
        held.extend(late.into_iter().map(|late| late.join().unwrap()));
    });
    // What happens next is told by the watches that there were before.
    let other = machine(&server).lock_manager("bucket");
    steal(&other, held.drain(..NAMES / 2));
    let calls = cable.calls() - before;
    assert!(calls < LATE + FEW, "{calls} calls after a stall");
    assert!(held.iter().all(|guard| !guard.is_lost()));
}

#[test]
fn watches_go_on_where_they_were_when_their_connection_has_ended() {
    let server = Server::start();
    let (locks, cable) = by_cable(&server);
    let held = hold(&locks);
    let other = machine(&server).lock_manager("bucket");
    let before = cable.calls();
    cable.cut();
    let guard = &held[0];
    // This happens while nobody watches.
    let thief = soon(other.lock(guard.name().clone()).steal()).unwrap();
    cable.mend();
    assert_eq!(soon(guard.lost()), Lost::Stolen);
    assert!(thief.fencing_token() > guard.fencing_token());
    steal(&other, held.into_iter().skip(1));
    let calls = cable.calls() - before;
    assert!(calls < FEW, "{calls} calls after the end of a connection");
}

#[test]
fn keepalives_that_are_answered_late_keep_a_lease() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let time_to_live = Duration::from_secs(6);
    let options = EtcdOptions::new([cable.endpoint()]).time_to_live(time_to_live);
    let locks = connect(&options).lock_manager("bucket");
    let guard = exclusive(&locks, "db");
    // Longer than an eighth of the time to live, and shorter than what is left when a keepalive is due.
    cable.delay(Duration::from_secs(1));
    // The time is the fault.
    thread::sleep(2 * time_to_live);
    assert!(!guard.is_lost());
}

#[test]
fn a_rolling_restart_takes_no_lock_and_lists_no_names() {
    let mut cluster = Cluster::start();
    let cables: Vec<_> = cluster.nodes.iter().map(|node| Proxy::to(node.port())).collect();
    let calls = || cables.iter().map(Proxy::calls).sum::<u64>();
    let options = EtcdOptions::new(cables.iter().map(Proxy::endpoint)).time_to_live(TIME_TO_LIVE);
    let options = options.keep_names(0).follow_members(false);
    let machines = [(); 3].map(|()| connect(&options).lock_manager("bucket"));
    let [one, two, other] = &machines;
    let held: Vec<_> = [one, two].into_iter().flat_map(hold).collect();
    let before = calls();
    for nth in 0..cluster.nodes.len() {
        cluster.nodes[nth].kill();
        // It is done without the member, by whoever has another one.
        drop(exclusive(other, "noise"));
        cluster.nodes[nth].restart();
        cluster.until_whole();
    }
    let calls = calls() - before;
    assert!(calls < machines.len() as u64 * FEW, "{calls} calls during a rolling restart");
    steal(other, held.into_iter().step_by(10));
}

#[test]
fn a_stream_of_watches_that_hangs_is_left_for_another() {
    let server = Server::start();
    let (locks, cable) = by_cable(&server);
    let mut held = hold(&locks);
    let other = machine(&server).lock_manager("bucket");
    hang(&cable);
    let before = cable.calls();
    // What happens meanwhile is told as well.
    let guard = held.pop().unwrap();
    let thief = soon(other.lock(guard.name().clone()).steal()).unwrap();
    until_watching(&cable);
    assert_eq!(soon(guard.lost()), Lost::Stolen);
    drop(thief);
    steal(&other, held.drain(..NAMES / 2));
    let calls = cable.calls() - before;
    assert!(calls < FEW, "{calls} calls after a stream has hung");
    assert!(held.iter().all(|guard| !guard.is_lost()));
}

/// How long a slow etcd runs at a time, and how long it rests then.
const RUNS: Duration = Duration::from_millis(7);
const RESTS: Duration = Duration::from_millis(93);

/// Stops etcd and has it go on in turn, so that it serves few calls a second.
fn slow_down(server: &Server, is_over: &AtomicBool, is_stalled: &AtomicBool) {
    while !is_over.load(SeqCst) {
        server.stop();
        thread::sleep(RESTS);
        while is_stalled.load(SeqCst) && !is_over.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        server.go_on();
        thread::sleep(RUNS);
    }
}

#[test]
#[ignore = "it takes minutes, and is about figures"]
fn a_stall_of_a_slow_etcd_does_not_feed_itself() {
    let number = |name: &str, otherwise| {
        env::var(name).map_or(otherwise, |number| number.parse::<u64>().unwrap())
    };
    let (programs, names) = (number("PROGRAMS", 40), number("NAMES", 300));
    let seconds = |name, otherwise| Duration::from_secs(number(name, otherwise));
    let server = Server::start();
    let machine = |_| {
        let cable = Proxy::to(server.port());
        let options = EtcdOptions::new([cable.endpoint()]).keep_names(0);
        (connect(&options).lock_manager("bucket"), cable)
    };
    let machines: Vec<_> = (0..programs).map(machine).collect();
    let held: Vec<_> = thread::scope(|scope| {
        let hold = |(nth, (locks, _)): (usize, &(LockManager, Proxy))| {
            let locks = locks.clone();
            scope.spawn(move || -> Vec<_> {
                (0..names).map(|name| exclusive(&locks, &format!("{nth}-{name}"))).collect()
            })
        };
        let all: Vec<_> = machines.iter().enumerate().map(hold).collect();
        all.into_iter().flat_map(|held| held.join().unwrap()).collect()
    });
    let calls = || machines.iter().map(|(_, cable)| cable.calls()).sum::<u64>();
    let (is_over, is_stalled) = (AtomicBool::new(false), AtomicBool::new(false));
    let count = |span: Duration, when: &str| {
        let before = calls();
        thread::sleep(span);
        let lost = held.iter().filter(|guard| guard.is_lost()).count();
        println!("{when}: {} calls in {span:?}, {lost} of {} lost", calls() - before, held.len());
        lost
    };
    thread::scope(|scope| {
        scope.spawn(|| slow_down(&server, &is_over, &is_stalled));
        let span = Duration::from_secs(10);
        count(span, "before");
        is_stalled.store(true, SeqCst);
        count(seconds("STALL", 4), "stalled");
        is_stalled.store(false, SeqCst);
        for _ in 0..number("AFTER", 6) {
            count(span, "after");
        }
        is_over.store(true, SeqCst);
    });
    assert!(held.iter().all(|guard| !guard.is_lost()));
}

#[test]
fn a_machine_that_waits_gets_a_name_whose_owners_watch_hangs() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let options = EtcdOptions::new([cable.endpoint()]).time_to_live(TIME_TO_LIVE).keep_names(1);
    let owner = connect(&options).lock_manager("bucket");
    own(&owner, "db");
    hang(&cable);
    let other = machine(&server).lock_manager("bucket");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..5 {
            let locks = beside(&owner);
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    drop(exclusive(&locks, "db"));
                }
            });
        }
        let granted = block_on_timeout(other.lock("db"), DEADLINE);
        is_over.store(true, SeqCst);
        drop(granted.expect("it is granted").unwrap());
    });
}
