//! The built `navlock`, its processes and its broker.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod broker;
mod death;
mod exit;
mod inherited;
mod locking;
mod sandbox;
mod words;
