//! The backend suite on a real etcd of one node: each test is a user agent of its own.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod server;

navlock_testkit::backend_suite!(server::alone());

/// The same where machines own names.
mod owning {
    navlock_testkit::backend_suite!(crate::server::owning());
}
