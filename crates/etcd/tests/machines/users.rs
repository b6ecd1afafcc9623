//! An etcd that asks for passwords: who is let in, and what goes on when it forgets who is known.

use std::{
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, Lost, Mode};

use super::{
    exclusive,
    faults::{TIME_TO_LIVE, etcdctl, options},
    soon, state, until_waiting,
};
use crate::server::{DEADLINE, Server, connect};

/// Has etcd serve nobody but its root and a `locker` with the password `pass`.
fn ask_for_passwords(server: &Server) {
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "add", "locker:pass"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "readwrite", "navlock/", "--prefix"],
        &["user", "grant-role", "locker", "locks"],
        &["auth", "enable"],
    ] {
        etcdctl(server, arguments);
    }
}

#[test]
fn a_user_that_is_logged_in_goes_on_when_etcd_forgets_its_logins() {
    let server = Server::start();
    ask_for_passwords(&server);
    let locker = options(server.endpoint()).user("locker", "pass");
    let locks = connect(&locker).lock_manager("bucket");
    drop(exclusive(&locks, "db"));
    // The connection stays, what was given for the password is worth nothing any more.
    etcdctl(&server, &["--user=root:secret", "auth", "disable"]);
    etcdctl(&server, &["auth", "enable"]);
    let guard = exclusive(&locks, "db");
    assert!(soon(locks.lock("db").if_available()).unwrap().is_none());
    assert!(!guard.is_lost());
}

#[test]
fn a_user_whose_login_the_stream_of_watches_forgot_is_told_of_further_names() {
    let server = Server::start();
    ask_for_passwords(&server);
    // So long that nothing is looked at but what a watch tells.
    let locker = || options(server.endpoint()).user("locker", "pass").time_to_live(DEADLINE * 2);
    let (waiter, holder) = (connect(&locker()), connect(&locker()));
    let (waiter, holder) = (waiter.lock_manager("bucket"), holder.lock_manager("bucket"));
    // From here on its watches have a stream.
    let _other = exclusive(&waiter, "other");
    let held = exclusive(&holder, "db");
    etcdctl(&server, &["--user=root:secret", "auth", "disable"]);
    etcdctl(&server, &["auth", "enable"]);
    thread::scope(|scope| {
        let since = Instant::now();
        let successor = scope.spawn(|| exclusive(&waiter, "db"));
        until_waiting(&holder, 1);
        drop(held);
        drop(successor.join().unwrap());
        // Names in which somebody waits are listed now and then.
        assert!(since.elapsed() < Duration::from_secs(10), "the watch has told nothing");
    });
}

#[test]
fn a_user_with_a_password_is_let_in_and_others_are_not() {
    let server = Server::start();
    ask_for_passwords(&server);
    for refused in [options(server.endpoint()), options(server.endpoint()).user("locker", "wrong")]
    {
        let error = soon(navlock_etcd::etcd(refused)).unwrap_err();
        assert!(matches!(&error, Error::Unreachable(_)), "{error:?}");
        assert!(error.to_string().starts_with("etcd refused: "), "{error}");
    }
    let let_in = || connect(&options(server.endpoint()).user("locker", "pass"));
    let (a, b) = (let_in().lock_manager("bucket"), let_in().lock_manager("bucket"));
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let successor = scope.spawn(|| exclusive(&b, "db"));
        until_waiting(&a, 1);
        // Longer than a lease that nobody keeps.
        thread::sleep(TIME_TO_LIVE * 2);
        assert!(!guard.is_lost());
        drop(guard);
        let victim = successor.join().unwrap();
        drop(soon(a.lock("db").steal()).unwrap());
        assert_eq!(soon(victim.lost()), Lost::Stolen);
    });
}

#[test]
fn a_user_who_may_only_read_is_let_in_to_look_and_takes_no_lock() {
    let server = Server::start();
    ask_for_passwords(&server);
    for arguments in [
        &["user", "add", "reader:pass"][..],
        &["role", "add", "looks"],
        &["role", "grant-permission", "looks", "read", "navlock/", "--prefix"],
        &["user", "grant-role", "reader", "looks"],
    ] {
        etcdctl(&server, &[&["--user=root:secret"], arguments].concat());
    }
    // Nobody has been here before, and said in which format keys are.
    let reader = connect(&options(server.endpoint()).user("reader", "pass")).lock_manager("bucket");
    assert_eq!(state(&reader), (vec![], vec![]));
    let refused = soon(reader.lock("db").if_available()).unwrap_err().to_string();
    assert!(refused.contains("etcd refused"), "{refused}");
    let locks = connect(&options(server.endpoint()).user("locker", "pass")).lock_manager("bucket");
    let guard = exclusive(&locks, "db");
    assert_eq!(state(&reader), (vec![Mode::Exclusive], vec![]));
    drop(guard);
}
