//! The backend suite on two real etcd clusters of one node each: each test is a user agent of its own, whose
//! names are on both.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod server;

navlock_testkit::backend_suite!(server::alone_on_two());
