//! The backend suite on a real PostgreSQL: each test is a user agent of its own.

mod server;

navlock_testkit::backend_suite!(server::alone());

/// The same where machines own names.
mod owning {
    navlock_testkit::backend_suite!(crate::server::owning());
}
