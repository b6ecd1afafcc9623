//! Conversions between the types of `navlock_core` and those of `navlock_wire`.

use std::time::{Duration, Instant};

use navlock_core::{Error, Unreachable, UnreachableKind, look::Event};
use navlock_wire::{Failure, LookEvent};

use crate::clock;

/// The events, with their times on this process's clock.
pub(crate) fn events(events: Vec<LookEvent>) -> impl Iterator<Item = Event> {
    // FAST: the clocks are read once for all events.
    let (now, here) = (clock::now(), Instant::now());
    events.into_iter().map(move |LookEvent { at, mut change }| {
        let age = Duration::from_nanos(now.saturating_sub(at));
        let at =
            here.checked_sub(age).unwrap_or(here) + Duration::from_nanos(at.saturating_sub(now));
        change.set_time(at);
        Event { at, change }
    })
}

/// The error that a caller gets for this failure.
pub(crate) fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Terminated => Error::Terminated,
        Failure::Closed => {
            Unreachable::new(UnreachableKind::Unavailable, "the broker is ending; try again").into()
        }
        Failure::Refused(why) => Error::refused(why),
        Failure::Lost(lost) => lost.into(),
        // This error comes from the service that keeps the locks. What a broker itself refuses is
        // one of the other failures.
        Failure::Other(why) => Unreachable::new(UnreachableKind::Upstream, why).into(),
        _ => Unreachable::other("the broker refused, in words of a later version").into(),
    }
}

/// The failure of which the client is told for an error.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        Error::Terminated => Failure::Terminated,
        Error::Closed => Failure::Closed,
        Error::Refused(why) => Failure::Refused(why.message().to_owned()),
        Error::Lost(lost) => Failure::Lost(*lost),
        other => Failure::Other(other.to_string()),
    }
}
