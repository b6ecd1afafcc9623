//! What becomes of the names that a machine owned when it is killed, cut off or robbed.

use std::{thread, time::Duration};

use navlock_core::{
    ClientId, LockGuard, LockManager, Lost, Mode,
    host::{self, Claim, RequestKind},
};
use navlock_etcd::EtcdOptions;

use super::{
    exclusive,
    owned::TIME_TO_LIVE,
    owning::{asked, beside, own, owner_at, owning, poll, until_taken},
    process::Process,
    proxy::Proxy,
    soon, state, until_waiting,
};
use crate::server::{Server, connect, namespace, shared};

#[test]
fn a_name_that_a_killed_machine_owned_is_free_when_its_lease_is_over() {
    let namespace = namespace();
    let (process, mut line) = Process::start("owner", &namespace);
    let token = line.read_numbers("held")[0];
    drop(process);
    let other = owner_at(&shared().endpoint(), &namespace);
    let successor = exclusive(&other, "db");
    assert!(successor.fencing_token().get() > token);
}

#[test]
fn to_look_at_names_that_are_owned_ends_nothing() {
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
fn a_lock_of_an_owner_that_is_cut_off_is_lost_before_another_machine_has_it() {
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
        let successor = scope.spawn(|| {
            let successor = exclusive(&b, "db");
            assert!(guard.is_lost());
            successor
        });
        assert_eq!(soon(guard.lost()), Lost::Disconnected);
        // It has lost its names as well.
        assert!(soon(a.lock("idle")).is_err());
        let successor = successor.join().unwrap();
        assert!(successor.fencing_token() > guard.fencing_token());
        drop(idle.join().unwrap());
    });
}

#[test]
fn a_lock_of_an_owned_name_ends_with_its_agent() {
    let [a, b] = owning("db");
    let (gone, next) = (beside(&a), beside(&a));
    let guard = exclusive(&gone, "db");
    thread::scope(|scope| {
        let successor = asked(&next, "db");
        let successor = scope.spawn(|| soon(successor).unwrap());
        gone.terminate();
        assert_eq!(soon(guard.lost()), Lost::Terminated);
        drop(successor.join().unwrap());
    });
    drop(exclusive(&b, "db"));
}

/// Of what was held.
fn claim(guard: &LockGuard) -> Claim {
    let (name, token) = (guard.name().clone(), Some(guard.fencing_token()));
    Claim { serial: guard.id().serial, name, kind: RequestKind::Wait(guard.mode()), token }
}

#[test]
fn locks_that_only_a_killed_owner_knew_are_reclaimed() {
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
    let claims = vec![claim(&written), claim(&read)];
    let found = soon(host::reclaim(&next, claims)).unwrap();
    let mut again =
        found.into_iter().map(|found| soon(found.expect("it is held")).unwrap().unwrap());
    let (written_again, read_again) = (again.next().unwrap(), again.next().unwrap());
    assert_eq!(written_again.fencing_token(), written.fencing_token());
    assert_eq!(read_again.fencing_token(), read.fencing_token());
    thread::scope(|scope| {
        let successor = scope.spawn(|| exclusive(&other, "written"));
        until_waiting(&other, 1);
        // Longer than a lease that nobody keeps.
        thread::sleep(TIME_TO_LIVE + Duration::from_secs(1));
        assert!(!written_again.is_lost() && !read_again.is_lost());
        assert!(soon(other.lock("read").if_available()).unwrap().is_none());
        drop(written_again);
        assert!(successor.join().unwrap().fencing_token() > written.fencing_token());
    });
    drop(read_again);
    drop(exclusive(&other, "read"));
    drop(exclusive(&other, "idle"));
}

#[test]
fn a_victim_of_its_own_machine_does_not_go_on_beside_the_thief() {
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
        let claim_of_reader = claim(&reader);
        (reader, claim_of_reader, soon(by.lock(name).steal()).unwrap())
    });
    cable.cut();
    let user_agent = connect(&options(server.endpoint()));
    let [robbed, thief] =
        clients.map(|client| host::lock_manager_as(&user_agent.bucket("bucket"), client));
    // Nobody has told those who were robbed.
    let [(_, first, of_another), (_, second, of_its_own)] = &stolen;
    let held = |by: &LockManager, claims: Vec<Claim>| {
        let found = soon(host::reclaim(by, claims)).unwrap();
        let tickets = found.into_iter().map(|found| found.map(|found| soon(found).unwrap()));
        tickets.map(Option::flatten).collect::<Vec<_>>()
    };
    let claims = vec![first.clone(), second.clone(), claim(of_its_own)];
    let robbed = held(&robbed, claims);
    assert!(robbed[1].is_none() && robbed[2].is_some());
    let thief = held(&thief, vec![claim(of_another)]);
    // Whoever comes first.
    assert!(robbed[0].is_none() != thief[0].is_none(), "two hold it");
}
