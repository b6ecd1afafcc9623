//! Why a call to a store failed, and what has to be done about it.

use std::time::Duration;

use navlock_core::{Error, Unreachable, UnreachableKind, host::seconds};

use crate::failure::lease_lost;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The call may have been done or not. The next try may succeed.
    Unknown(Unreachable),
    /// The lease has ended. Nothing was done.
    NoLease,
    /// The store does not have the revision that was asked for any more, or does not have it yet.
    NoRevision,
    /// The call was refused, and would be refused again. Nothing was done.
    Refused(Error),
}

impl Failure {
    /// [`Unknown`](Self::Unknown), with an error of the kind "other".
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(Unreachable::other(why))
    }

    /// [`Unknown`](Self::Unknown): there was no answer within this time.
    pub fn timed_out(timeout: Duration) -> Self {
        let why = format!("no answer within {}", seconds(timeout));
        Self::Unknown(Unreachable::new(UnreachableKind::TimedOut, why))
    }

    /// [`Unknown`](Self::Unknown), because of an error that may pass.
    pub fn passing(error: Error) -> Self {
        Self::Unknown(match error {
            Error::Unreachable(why) => why,
            Error::Refused(why) => why.into(),
            error => Unreachable::other(error.to_string()),
        })
    }

    /// The failure as an error of the store that is called so, for callers.
    pub fn error(self, store: &str) -> Error {
        match self {
            Self::Unknown(why) => {
                let message = format!("cannot reach {store}: {why}");
                why.with_message(message).into()
            }
            Self::NoLease => lease_lost(store),
            Self::NoRevision => {
                let why = format!("{store} has forgotten what was being listed; try again");
                Unreachable::other(why).into()
            }
            Self::Refused(error) => error,
        }
    }
}
