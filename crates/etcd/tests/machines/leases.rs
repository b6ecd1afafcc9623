//! One lease for a machine: what its agents share, and what each has for itself.

use std::{
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    ClientId, Lost, Mode,
    host::{self, Claim, RequestKind},
};
use navlock_etcd::EtcdOptions;

use super::{exclusive, proxy::Proxy, settle, soon, state};
use crate::server::{DEADLINE, Server, connect, namespace, shared};

/// So long that a machine with much to do comes to what it has to do within it.
const TIME_TO_LIVE: Duration = Duration::from_secs(10);

/// How many leases etcd keeps.
fn leases(server: &Server) -> usize {
    let listed = server.etcdctl(&["lease", "list"]).unwrap();
    listed.lines().filter(|line| !line.starts_with("found")).count()
}

/// How many proposals etcd has decided on so far.
pub(super) fn proposals(server: &Server) -> u64 {
    server.metric("etcd_server_proposals_applied_total")
}

#[test]
fn agents_of_a_connection_have_one_lease() {
    let server = Server::start();
    let machine = connect(&EtcdOptions::new([server.endpoint()]));
    let agents: Vec<_> =
        (0..8).map(|nth| machine.lock_manager(&format!("bucket-{}", nth % 2))).collect();
    let held: Vec<_> = (0..8).map(|nth| exclusive(&agents[nth], &format!("name-{nth}"))).collect();
    assert_eq!(leases(&server), 1);
    drop((held, agents));
    drop(machine);
    // It ends with the connection, and not some time later.
    assert_eq!(leases(&server), 0);
}

#[test]
fn the_end_of_an_agent_frees_its_locks_and_nothing_else() {
    let namespace = namespace();
    let options = EtcdOptions::new([shared().endpoint()]).namespace(&*namespace);
    // So long that nothing here waits for the end of a lease.
    let options = options.time_to_live(DEADLINE * 10);
    let (ours, theirs) = (connect(&options), connect(&options));
    let (ends, stays) = (ours.lock_manager("bucket"), ours.lock_manager("bucket"));
    let other = theirs.lock_manager("bucket");
    let (held, kept) = (exclusive(&ends, "held"), exclusive(&stays, "kept"));
    let taken = exclusive(&other, "taken");
    let mut waits = Box::pin(ends.lock("taken").into_future());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    super::until_waiting(&other, 1);
    ends.terminate();
    assert!(held.is_lost());
    drop(exclusive(&other, "held"));
    drop(taken);
    drop(exclusive(&other, "taken"));
    assert!(!kept.is_lost());
    assert_eq!(state(&other), (vec![Mode::Exclusive], vec![]));
    drop((waits, held));
}

#[test]
fn a_lock_for_a_moment_is_two_proposals() {
    const TIMES: usize = 50;
    let server = Server::start();
    let machine = connect(&EtcdOptions::new([server.endpoint()]));
    let once = |nth| {
        // As somebody who comes for that alone, each time for a name that the machine has not taken before.
        let locks = machine.lock_manager("bucket");
        drop(exclusive(&locks, &format!("db {nth}")));
        settle(&locks);
        proposals(&server)
    };
    let counts: Vec<_> = (0..=TIMES).map(once).collect();
    let mut taken: Vec<u64> = counts.windows(2).map(|of| of[1] - of[0]).collect();
    taken.sort_unstable();
    // Of most. Etcd has a few of its own, and what it does not answer in time is asked again.
    assert_eq!(taken[TIMES / 2], 2, "{taken:?}");
}

#[test]
fn an_agent_that_does_not_come_back_keeps_nothing_although_others_of_its_machine_do() {
    let server = Server::start();
    let options = |endpoint| EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE);
    let (cable, client) = (Proxy::to(server.port()), ClientId::random());
    let killed = connect(&options(cable.endpoint()));
    let bucket = killed.bucket("bucket");
    let (comes, stays_away) = (host::lock_manager_as(&bucket, client), bucket.lock_manager());
    // Also where the next process has nothing to do.
    let elsewhere = killed.lock_manager("another bucket");
    let held = exclusive(&comes, "comes");
    let left = (exclusive(&stays_away, "left"), exclusive(&elsewhere, "left"));
    let other = connect(&options(server.endpoint()));

    let machine = connect(&options(server.endpoint()));
    cable.cut();
    let next = host::lock_manager_as(&machine.bucket("bucket"), client);
    let (name, token) = (held.name().clone(), Some(held.fencing_token()));
    let (serial, kind) = (held.id().serial, RequestKind::Wait(Mode::Exclusive));
    let claim = Claim { serial, name, kind, token };
    let since = Instant::now();
    let lock = soon(host::reclaim(&next, vec![claim])).unwrap().remove(0).expect("it is there");
    let again = soon(lock).unwrap().expect("it is a lock");
    // They may still come, for as long as their lease would have lasted. The lease itself is kept: it
    // is not by its end that they are free.
    let (a, b) = (other.lock_manager("bucket"), other.lock_manager("another bucket"));
    for locks in [&a, &b] {
        drop(exclusive(locks, "left"));
        assert!(since.elapsed() >= TIME_TO_LIVE, "{:?}", since.elapsed());
    }
    assert!(!again.is_lost());
    assert!(soon(a.lock("comes").if_available()).unwrap().is_none());
    drop((left, held, killed));
}

#[test]
fn a_lease_that_ends_early_is_no_removal_in_any_of_its_buckets() {
    let server = Server::start();
    let options = || EtcdOptions::new([server.endpoint()]).time_to_live(DEADLINE * 10);
    let machine = connect(&options());
    let buckets = ["a", "b"];
    let agents = buckets.map(|bucket| machine.lock_manager(bucket));
    let held = agents.each_ref().map(|locks| exclusive(locks, "held"));
    let listed = server.etcdctl(&["lease", "list"]).unwrap();
    let lease = listed.lines().find(|line| !line.starts_with("found")).expect("there is one");
    let other = connect(&options());
    let others = buckets.map(|bucket| other.lock_manager(bucket));
    let taken = others.each_ref().map(|locks| exclusive(locks, "taken"));
    thread::scope(|scope| {
        let waits = agents.each_ref().map(|locks| scope.spawn(|| exclusive(locks, "taken")));
        for locks in &others {
            super::until_waiting(locks, 1);
        }
        server.etcdctl(&["lease", "revoke", lease]).unwrap();
        for guard in &held {
            assert_eq!(soon(guard.lost()), Lost::Disconnected);
        }
        drop(taken);
        for granted in waits {
            drop(granted.join().unwrap());
        }
    });
    drop((held, agents));
}
