//! What can be seen of an etcd from outside.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod server;

use std::time::{Duration, Instant};

use navlock_core::Error;
use navlock_etcd::{EtcdOptions, Health, Member, check};
use navlock_testkit::Port;

use crate::server::{Server, connect, namespace, shared};

fn seen(options: &EtcdOptions) -> Health {
    check(options).unwrap()
}

/// An endpoint at which nobody listens.
fn nobody() -> Port {
    Port::take().unwrap()
}

#[test]
fn each_endpoint_says_how_it_is_and_a_write_is_timed() {
    let (there, nobody) = (shared().endpoint(), nobody());
    let options = EtcdOptions::new([there, nobody.to_string()]).namespace(namespace());
    drop(connect(&options));
    let health = seen(&options);
    let Member { version, cluster, complaints, .. } = health.endpoints[0].member.clone().unwrap();
    assert!(version.starts_with("3."), "{version}");
    assert_ne!(cluster, 0);
    assert_eq!(complaints, [""; 0]);
    assert_eq!(health.endpoints[1].endpoint, nobody.to_string());
    assert!(matches!(health.endpoints[1].member, Err(Error::Unreachable(_))));
    let time = health.round_trip.unwrap();
    assert!(!time.is_zero() && time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn to_find_nobody_takes_no_longer_than_a_call_may() {
    let began = Instant::now();
    let nobody = nobody();
    let options = EtcdOptions::new([nobody.to_string()]);
    let health = seen(&options.timeout(Duration::from_millis(500)));
    assert!(matches!(health.round_trip, Err(Error::Unreachable(_))), "{health:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_user_that_etcd_does_not_know_is_no_fault_of_the_endpoint() {
    let server = Server::start();
    let options = EtcdOptions::new([server.endpoint()]);
    drop(connect(&options));
    for arguments in [&["user", "add", "root:secret"][..], &["auth", "enable"]] {
        server.etcdctl(arguments).unwrap();
    }
    for options in [options.clone(), options.clone().user("root", "wrong")] {
        let health = seen(&options);
        assert!(health.endpoints[0].member.is_ok(), "{health:?}");
        let refused = health.round_trip.unwrap_err().to_string();
        assert!(refused.contains("etcd refused"), "{refused}");
    }
    assert!(seen(&options.user("root", "secret")).round_trip.is_ok());
}
