//! Errors, and the ways to lose a lock.

use std::{convert::Infallible, error, fmt};

use navlock_engine::{InvalidName, ReservedName};

use crate::{Refusal, Unreachable};

/// Why a request ended without its lock, or before its work was done.
///
/// [`dom_exception_name`](Self::dom_exception_name) tells the `DOMException` that the specification
/// has for an error, or the nearest one where the specification has none.
///
/// ```
/// # use navlock::UserAgent;
/// # let locks = UserAgent::new().lock_manager("app");
/// use std::time::Duration;
///
/// use navlock::Error;
///
/// match locks.lock("db").blocking_timeout(Duration::from_secs(5)) {
///     Ok(guard) => println!("the token is {:?}", guard.fencing_token()),
///     Err(Error::TimedOut(told)) => eprintln!("{told}; try again later"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The agent is not fully active ([`set_fully_active`]).
    ///
    /// [`set_fully_active`]: crate::LockManager::set_fully_active
    NotFullyActive,
    /// The agent has ended, by [`terminate`](crate::LockManager::terminate).
    Terminated,
    /// The user agent was closed, by [`close`](crate::UserAgent::close).
    Closed,
    /// The bucket has no lock manager, like the bucket of an opaque origin
    /// ([`opaque_bucket`](crate::UserAgent::opaque_bucket)).
    Unobtainable,
    /// The name starts with `-`.
    ReservedName,
    /// The text that was given is no name. The field says where the text goes wrong.
    InvalidName(InvalidName),
    /// Both `steal` and `if_available` were asked for.
    StealIfAvailable,
    /// Both `steal` and `shared` were asked for. Only an exclusive lock can be stolen.
    StealShared,
    /// An abort signal was given to a request that never waits (`steal` or `if_available`).
    SignalWithoutWaiting,
    /// The lock was held and then lost.
    Lost(Lost),
    /// The time given for waiting is over. The request has left its queue. The text says which lock it
    /// waited for, and who holds the lock, if that could be found out at once.
    TimedOut(String),
    /// The reach does not take this request, and will not take it if it is made again. The message of
    /// the field says what is too long or too much, and what the limit is.
    Refused(Refusal),
    /// The request was the last one of a cycle of requests that wait for each other, and would have
    /// waited for ever. The text says who waits for what. Only requests that asked for this error get it
    /// ([`fail_on_deadlock`](crate::LockRequest::fail_on_deadlock)).
    Deadlock(String),
    /// The reach cannot be used. The field says what was tried, and why it failed. Only this variant and
    /// [`Refused`](Self::Refused) can have a [source](error::Error::source).
    Unreachable(Unreachable),
}

/// How a lock ended against its holder's will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Lost {
    /// Another request took it with `steal`.
    Stolen,
    /// The holder's own agent was terminated.
    Terminated,
    /// The holder's user agent was closed.
    Closed,
    /// The connection to the service that keeps the lock has ended.
    Disconnected,
    /// The service that keeps the lock does not know the lock any more, because the service has lost
    /// its data, or was restored from an older backup. All locks that it kept are lost.
    Reset,
    /// Somebody has removed the lock where it is kept: by hand, or by ending what the lock depends on
    /// there. No thief holds it.
    Removed,
}

impl Error {
    /// [`Refused`](Self::Refused), with this message and no source.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(message))
    }

    /// The name of the `DOMException` that a script would get.
    ///
    /// ```
    /// use navlock::{Error, Lost};
    ///
    /// assert_eq!(Error::Lost(Lost::Stolen).dom_exception_name(), "AbortError");
    /// assert_eq!(Error::ReservedName.dom_exception_name(), "NotSupportedError");
    /// ```
    pub const fn dom_exception_name(&self) -> &'static str {
        match self {
            Self::NotFullyActive | Self::Terminated | Self::Closed => "InvalidStateError",
            Self::Unobtainable => "SecurityError",
            Self::ReservedName
            | Self::StealIfAvailable
            | Self::StealShared
            | Self::SignalWithoutWaiting => "NotSupportedError",
            Self::InvalidName(_) => "InvalidCharacterError",
            Self::Lost(_) => "AbortError",
            Self::TimedOut(_) => "TimeoutError",
            Self::Refused(_) => "QuotaExceededError",
            Self::Deadlock(_) | Self::Unreachable(_) => "OperationError",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFullyActive => f.write_str("the agent is not fully active"),
            Self::Terminated => f.write_str("the agent has been terminated"),
            Self::Closed => f.write_str("the user agent has been closed"),
            Self::Unobtainable => {
                f.write_str("this bucket has no lock manager (as an opaque origin has none)")
            }
            Self::ReservedName => f.write_str(ReservedName::MESSAGE),
            Self::InvalidName(invalid) => invalid.fmt(f),
            Self::StealIfAvailable => {
                f.write_str("`steal` and `if_available` exclude each other; use one of them")
            }
            Self::StealShared => {
                f.write_str("only an exclusive lock can be stolen; drop `shared` or `steal`")
            }
            Self::SignalWithoutWaiting => f.write_str(
                "a request with `steal` or `if_available` never waits, so it takes no abort signal",
            ),
            Self::Lost(lost) => lost.fmt(f),
            Self::Refused(why) => why.fmt(f),
            Self::TimedOut(told) | Self::Deadlock(told) => f.write_str(told),
            Self::Unreachable(why) => why.fmt(f),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stolen => "the lock was stolen by another request",
            Self::Terminated => "the lock was lost: its agent has been terminated",
            Self::Closed => "the lock was lost: its user agent has been closed",
            Self::Disconnected => "the lock was lost: the connection to the service that keeps it has ended",
            Self::Reset => {
                "the lock was lost: the data of the service that keeps it is gone, or was restored from a backup"
            }
            Self::Removed => "the lock was lost: somebody has removed it where it is kept",
        })
    }
}

impl error::Error for Error {
    /// What made the reach [unreachable](Self::Unreachable), or made it [refuse](Self::Refused), in the
    /// layer below.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            // The text of `why` is the text of this error, so `why` itself is no link of the chain.
            Self::Unreachable(why) => why.source(),
            Self::Refused(why) => why.source(),
            _ => None,
        }
    }
}

impl error::Error for Lost {}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<Unreachable> for Error {
    fn from(why: Unreachable) -> Self {
        Self::Unreachable(why)
    }
}

impl From<Refusal> for Error {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl From<ReservedName> for Error {
    fn from(_: ReservedName) -> Self {
        Self::ReservedName
    }
}

impl From<InvalidName> for Error {
    fn from(invalid: InvalidName) -> Self {
        match invalid {
            InvalidName::Reserved => Self::ReservedName,
            other => Self::InvalidName(other),
        }
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
