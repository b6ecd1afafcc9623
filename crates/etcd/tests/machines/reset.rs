//! An etcd that begins anew: its data was lost, or restored from a backup that is older.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use navlock_core::{LockManager, Lost};
use navlock_etcd::EtcdOptions;

use super::{exclusive, settle, soon, state, until_waiting};
use crate::server::{DEADLINE, Server, connect};

fn machines(server: &Server) -> [LockManager; 2] {
    // Longer than it takes to start etcd: no lease ends by the clock.
    let options = EtcdOptions::new([server.endpoint()]).time_to_live(Duration::from_secs(20));
    [(); 2].map(|()| connect(&options).lock_manager("bucket"))
}

/// Each change is a revision.
fn grow(locks: &LockManager, by: usize) {
    for _ in 0..by {
        drop(exclusive(locks, "other"));
    }
    settle(locks);
}

/// Holders are told once and for the right reason, waiters get what they wait for, and what is asked
/// for later is granted.
fn all_are_told(server: &mut Server, begin_anew: impl FnOnce(&mut Server)) {
    let [a, b] = machines(server);
    let alone = exclusive(&a, "alone");
    let held = exclusive(&a, "db");
    thread::scope(|scope| {
        let first = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&a, 1);
        let second = scope.spawn(|| exclusive(&a, "db"));
        until_waiting(&b, 2);
        grow(&a, 20);
        begin_anew(server);
        assert_eq!(soon(held.lost()), Lost::Reset);
        assert_eq!(soon(alone.lost()), Lost::Reset);
        // Whose request comes to etcd first is not ours to say.
        let since = Instant::now();
        while !first.is_finished() && !second.is_finished() {
            assert!(since.elapsed() < DEADLINE, "nobody is granted it");
            thread::sleep(Duration::from_millis(5));
        }
        let (one, other) = if first.is_finished() { (first, second) } else { (second, first) };
        let one = one.join().unwrap();
        assert!(!one.is_lost());
        drop(one);
        let other = other.join().unwrap();
        // Nothing is lost twice: neither by what is told late nor by the next looks.
        thread::sleep(Duration::from_secs(1));
        assert!(!other.is_lost());
    });
    drop((alone, held));
    let again = exclusive(&b, "alone");
    assert!(soon(a.lock("alone").if_available()).unwrap().is_none());
    assert!(!again.is_lost());
    drop(again);
    [&a, &b].into_iter().for_each(settle);
    let since = Instant::now();
    while state(&a) != (vec![], vec![]) {
        assert!(since.elapsed() < DEADLINE, "something is left: {:?}", state(&a));
    }
}

pub(crate) fn lose_all_data(server: &mut Server) {
    server.kill();
    server.wipe();
    server.restart();
}

#[test]
fn all_are_told_when_etcd_has_lost_its_data() {
    let mut server = Server::start();
    all_are_told(&mut server, lose_all_data);
}

#[test]
fn all_are_told_when_etcd_was_restored_from_a_backup_that_is_older() {
    let mut server = Server::start();
    grow(&machines(&server)[0], 5);
    let backup = server.backup();
    all_are_told(&mut server, |server| {
        server.kill();
        server.restore(&backup);
        server.restart();
    });
    fs::remove_file(backup).unwrap();
}

#[test]
fn a_lock_that_was_released_after_the_backup_blocks_nobody() {
    let mut server = Server::start();
    let [a, b] = machines(&server);
    let early = exclusive(&a, "db");
    settle(&a);
    let backup = server.backup();
    drop(early);
    grow(&a, 20);
    server.kill();
    server.restore(&backup);
    server.restart();
    // It is there again, under a lease that is kept.
    let again = exclusive(&b, "db");
    assert!(!again.is_lost());
    fs::remove_file(backup).unwrap();
}

#[test]
fn a_machine_that_held_nothing_goes_on_when_etcd_has_lost_its_data() {
    let mut server = Server::start();
    let [a, b] = machines(&server);
    grow(&a, 20);
    grow(&b, 20);
    lose_all_data(&mut server);
    for _ in 0..3 {
        for locks in [&a, &b] {
            let guard = exclusive(locks, "db");
            assert!(!guard.is_lost());
        }
    }
    thread::sleep(Duration::from_secs(1));
    let guard = exclusive(&a, "db");
    thread::sleep(Duration::from_secs(1));
    assert!(!guard.is_lost());
}
