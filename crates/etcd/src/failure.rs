//! Why a call to etcd failed, and what has to be done about it.

use std::time::Duration;

use navlock_core::{Error, Unreachable, UnreachableKind, host::seconds};
use navlock_machines::failure::lease_lost;

use crate::STORE;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call may have been done or not. The next try may succeed.
    Unknown(Unreachable),
    /// The lease has ended. Nothing was done.
    NoLease,
    /// Etcd does not have the revision that was asked for any more, or does not have it yet.
    NoRevision,
    /// The call was refused, and would be refused again. Nothing was done.
    Refused(Error),
}

impl Failure {
    /// [`Unknown`](Self::Unknown), with an error of the kind "other".
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(Unreachable::other(why))
    }

    /// [`Unknown`](Self::Unknown): there was no answer within this time.
    pub(crate) fn timed_out(timeout: Duration) -> Self {
        let why = format!("no answer within {}", seconds(timeout));
        Self::Unknown(Unreachable::new(UnreachableKind::TimedOut, why))
    }

    /// [`Unknown`](Self::Unknown), because of an error that may pass.
    pub(crate) fn passing(error: Error) -> Self {
        Self::Unknown(match error {
            Error::Unreachable(why) => why,
            Error::Refused(why) => why.into(),
            error => Unreachable::other(error.to_string()),
        })
    }

    pub(crate) fn error(self) -> Error {
        match self {
            Self::Unknown(why) => {
                let message = format!("cannot reach etcd: {why}");
                why.with_message(message).into()
            }
            Self::NoLease => lease_lost(STORE),
            Self::NoRevision => {
                Unreachable::other("etcd has forgotten what was being listed; try again").into()
            }
            Self::Refused(error) => error,
        }
    }
}

/// The error for a request that somebody has removed.
pub(crate) fn place_removed() -> Error {
    let why =
        "somebody has removed the request from etcd, and its place in the queue is lost; try again";
    Unreachable::other(why).into()
}
