//! Why a call to etcd failed, and what is to be done about it.

use navlock_core::Error;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call may have been done or not; the next try may succeed.
    Unknown(String),
    /// The lease has ended. Nothing was done.
    NoLease,
    /// Etcd does not have the revision that was asked for, any more or yet.
    NoRevision,
    /// The call was refused, and would be again. Nothing was done.
    Refused(Error),
}

impl Failure {
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Unknown(why) => Error::Unreachable(format!("cannot reach etcd: {why}")),
            Self::NoLease => lease_lost(),
            Self::NoRevision => {
                Error::Unreachable("etcd has forgotten what was being listed; try again".to_owned())
            }
            Self::Refused(error) => error,
        }
    }
}

/// The error for a request that somebody has removed.
pub(crate) fn place_removed() -> Error {
    Error::Unreachable(
        "somebody has removed the request from etcd, and its place in the queue is lost; try again"
            .to_owned(),
    )
}

/// The error for a request that is not known to have come to etcd before its lease ended.
pub(crate) fn never_queued() -> Error {
    Error::Unreachable(
        "cannot reach etcd: it has not answered the request before the lease of this machine was over; \
         try again"
            .to_owned(),
    )
}

/// The error for a request that waited under a lease that has ended.
pub(crate) fn lease_lost() -> Error {
    Error::Unreachable(
        "the lease in etcd could not be kept, and the place in the queue is lost; try again"
            .to_owned(),
    )
}
