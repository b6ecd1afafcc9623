//! What an outage of etcd does to those who hold and to those who wait.

use std::{thread, time::Duration};

use navlock_core::{Error, Lost};
use navlock_etcd::EtcdOptions;

use super::{
    exclusive,
    faults::{TIME_TO_LIVE, machine, options},
    settle, soon, state, until_waiting,
};
use crate::server::{Server, connect};

#[test]
fn waiters_outlive_an_outage_in_their_order() {
    let server = Server::start();
    let machine = || connect(&options(server.endpoint())).lock_manager("bucket");
    let (a, b) = (machine(), machine());
    let guard = exclusive(&a, "db");
    thread::scope(|scope| {
        let mut waiters = Vec::new();
        for nth in 1..=3 {
            let request = b.lock("db").into_future();
            waiters.push(scope.spawn(|| soon(request).unwrap().fencing_token().get()));
            until_waiting(&a, nth);
            // Its own machine has heard of it as well.
            until_waiting(&b, nth);
        }
        server.stop();
        assert_eq!(soon(guard.lost()), Lost::Disconnected);
        // The time is the fault: until what is asked for meanwhile has failed as well.
        assert!(matches!(soon(a.lock("db")), Err(Error::Unreachable(_))));
        thread::sleep(TIME_TO_LIVE);
        server.go_on();
        let tokens: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert!(tokens.is_sorted(), "{tokens:?}");
    });
}

#[test]
fn nothing_is_lost_when_etcd_is_away_for_less() {
    let server = Server::start();
    let user_agent = connect(&EtcdOptions::new([server.endpoint()]));
    let locks = user_agent.lock_manager("bucket");
    let guard = exclusive(&locks, "db");
    let other = machine(&server).lock_manager("bucket");
    server.stop();
    thread::scope(|scope| {
        let request = scope.spawn(|| exclusive(&locks, "other"));
        // The time is the fault.
        thread::sleep(Duration::from_secs(1));
        server.go_on();
        drop(request.join().unwrap());
    });
    assert!(!guard.is_lost());
    settle(&locks);
    assert_eq!(state(&other).0.len(), 1);
}
