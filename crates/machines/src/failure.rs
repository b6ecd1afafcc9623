//! Errors that callers are told, whatever store they are about.

use std::io;

use navlock_core::{Error, Unreachable, UnreachableKind};

/// The error for callers when the thread that spoke to this store has ended.
pub(crate) fn gone(store: &str) -> Error {
    Unreachable::other(format!("the thread that spoke to {store} has ended")).into()
}

/// The error for a request that may not have come to the store before its lease ended.
pub(crate) fn never_queued(store: &str) -> Error {
    let why = format!(
        "cannot reach {store}: it has not answered the request before the lease of this machine was over; \
         try again"
    );
    Unreachable::new(UnreachableKind::TimedOut, why).into()
}

/// The error for a request that waited under a lease that has ended.
pub(crate) fn lease_lost(store: &str) -> Error {
    let why = "could not be kept, and the place in the queue is lost; try again";
    Unreachable::other(format!("the lease in {store} {why}")).into()
}

/// The error for a request that somebody has removed from the store.
pub(crate) fn place_removed(store: &str) -> Error {
    let why = format!(
        "somebody has removed the request from {store}, and its place in the queue is lost; try again"
    );
    Unreachable::other(why).into()
}

/// The error for a store that cannot be reached because the system has no such thing.
pub(crate) fn failed(store: &str, what: &str, error: io::Error) -> Error {
    let why = format!("cannot reach {store}: {error} at {what}");
    Unreachable::other(why).caused_by(error).into()
}
