//! Members that come, go and are replaced while a machine uses the cluster.

use std::{
    thread,
    time::{Duration, Instant},
};

use navlock_etcd::EtcdOptions;

use super::{exclusive, settle};
use crate::server::{Cluster, DEADLINE, Server, connect};

/// Longer than an election, and a sixth of the time in which the members are asked for.
const SHORT: Duration = Duration::from_secs(4);

/// How often the nodes were asked for their members, by others than themselves.
fn asked(nodes: &[Server]) -> u64 {
    let count = "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"MemberList\",\
                 grpc_service=\"etcdserverpb.Cluster\",grpc_type=\"unary\"}";
    nodes.iter().map(|node| node.metric(count)).sum()
}

/// Waits until a machine has asked for the members since.
fn until_asked(nodes: &[Server]) {
    let (before, since) = (asked(nodes), Instant::now());
    while asked(nodes) == before {
        assert!(since.elapsed() < DEADLINE, "nobody asks for the members");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn all_members_that_were_given_may_be_replaced_one_after_the_other() {
    // On a machine that is so busy that a lease of four seconds is not renewed in time it is lost
    // all the same.
    assert!((0..3).any(|_| is_kept_while_all_are_replaced()), "the lock was lost");
}

/// Replaces all members. Whether what was held before is held then.
fn is_kept_while_all_are_replaced() -> bool {
    let mut cluster = Cluster::start();
    let given = cluster.endpoints();
    let options = EtcdOptions::new(given.clone()).time_to_live(SHORT);
    let locks = connect(&options).lock_manager("bucket");
    let kept = exclusive(&locks, "kept");
    let mut old = Vec::new();
    for nth in 0..3 {
        if nth == 2 {
            // Or it would know of nobody who is left.
            until_asked(&cluster.nodes);
        }
        old.push(cluster.replace(nth));
        drop(exclusive(&locks, "db"));
    }
    assert!(given.iter().all(|given| !cluster.endpoints().contains(given)));
    settle(&locks);
    !kept.is_lost()
}

#[test]
fn a_member_that_was_not_given_is_used_when_the_one_that_was_is_gone() {
    let mut cluster = Cluster::start();
    let one = cluster.endpoints()[0].clone();
    let locks = connect(&EtcdOptions::new([one])).lock_manager("bucket");
    let kept = exclusive(&locks, "kept");
    // It asked when it began.
    let since = Instant::now();
    while asked(&cluster.nodes) == 0 {
        assert!(since.elapsed() < DEADLINE, "nobody asks for the members");
        thread::sleep(Duration::from_millis(20));
    }
    cluster.nodes[0].kill();
    drop(exclusive(&locks, "db"));
    assert!(!kept.is_lost(), "the lock was lost");
}
