//! Why a reach cannot be used.

use std::{error, fmt};

use crate::Refusal;

/// Why a reach cannot be used: a [kind](Self::kind) for programs, a [message](Self::message) for
/// people, and the error beneath that caused it.
///
/// ```
/// use std::{error::Error as _, io};
///
/// use navlock::{Error, Unreachable, UnreachableKind};
///
/// /// Whether it may help to ask again.
/// fn may_pass(error: &Error) -> bool {
///     match error {
///         Error::Unreachable(why) => {
///             matches!(why.kind(), UnreachableKind::Unavailable | UnreachableKind::TimedOut)
///         }
///         _ => false,
///     }
/// }
///
/// // As a reach makes it.
/// let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
/// let message = format!("cannot reach the broker: {refused}");
/// let why = Unreachable::new(UnreachableKind::Unavailable, message).caused_by(refused);
/// let error = Error::from(why);
///
/// assert!(may_pass(&error));
/// assert_eq!(error.to_string(), "cannot reach the broker: connection refused");
/// let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
/// assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused));
/// ```
///
/// # Message and source
///
/// The message is whole. It says what was tried, why that failed and what to do, and contains the
/// words of the cause. [`Display`](fmt::Display) writes the message alone. The
/// [source](error::Error::source) is for programs: it is the error of the layer below, such as a
/// [`std::io::Error`], and not one whose text is the whole message. Show people either this text or
/// the chain without its first error, because the chain as a whole has the words of the cause twice.
///
/// # Equality
///
/// Two of these are equal if their kinds and messages are equal. Causes are not compared, because few
/// errors can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unreachable {
    kind: UnreachableKind,
    /// The message and the cause: a refusal has the same.
    why: Refusal,
}

/// The kinds of failure that keep a reach from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnreachableKind {
    /// Nobody can serve. Either no broker runs, and none could be started; or there is no
    /// connection to the service that keeps the locks; or that service says that it cannot serve
    /// for the moment.
    Unavailable,
    /// There is a broker, but the service that keeps the broker's locks, such as etcd, fails or does
    /// not answer. The broker sends only a message. So there is no source, and nothing says which of
    /// the other kinds the failure has.
    Upstream,
    /// There was no answer in time.
    TimedOut,
    /// The system, or the service that keeps the locks, does not permit this to the user.
    PermissionDenied,
    /// The service that keeps the locks asks for a user that it knows, or the password is wrong.
    Unauthenticated,
    /// The other end does not speak the expected protocol.
    Protocol,
    /// The service that keeps the locks has no room for more.
    StorageFull,
    /// None of these.
    Other,
}

impl Unreachable {
    /// An error of this kind, with a message for people: what was tried, why it failed, what to do.
    #[must_use]
    pub fn new(kind: UnreachableKind, message: impl Into<String>) -> Self {
        Self { kind, why: Refusal::new(message) }
    }

    /// An error of the kind [`Other`](UnreachableKind::Other).
    #[must_use]
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(UnreachableKind::Other, message)
    }

    /// This error with `cause`, which becomes its [source](error::Error::source).
    #[must_use]
    pub fn caused_by(mut self, cause: impl error::Error + Send + Sync + 'static) -> Self {
        self.why = self.why.caused_by(cause);
        self
    }

    /// This error with another message, for a layer that knows more about what was tried.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.why = self.why.with_message(message);
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> UnreachableKind {
        self.kind
    }

    /// What was tried, why it failed, and what to do, for people.
    pub fn message(&self) -> &str {
        self.why.message()
    }
}

impl From<Refusal> for Unreachable {
    /// The same message and source, for a refusal that may pass.
    fn from(why: Refusal) -> Self {
        Self { kind: UnreachableKind::Other, why }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl error::Error for Unreachable {
    /// The error of the layer below, if there is one.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.why.source()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        error::Error as _,
        io,
        panic::{RefUnwindSafe, UnwindSafe},
    };

    use super::*;
    use crate::{Error, LockAllError};

    fn refused() -> Unreachable {
        let cause = io::Error::from(io::ErrorKind::ConnectionRefused);
        Unreachable::new(UnreachableKind::Unavailable, "nobody is there").caused_by(cause)
    }

    fn io_kind(error: &dyn error::Error) -> Option<io::ErrorKind> {
        error.source()?.downcast_ref::<io::Error>().map(io::Error::kind)
    }

    #[test]
    fn the_cause_is_the_source_however_the_error_is_wrapped_and_its_message_is_written_alone() {
        let again = refused().with_message("cluster a: nobody is there");
        assert_eq!(
            (again.kind(), again.message()),
            (refused().kind(), "cluster a: nobody is there")
        );
        let error = Error::from(again.clone());
        let all = LockAllError::from(error.clone());
        for error in [&again as &dyn error::Error, &error, &all] {
            assert_eq!(error.to_string(), "cluster a: nobody is there");
            assert_eq!(io_kind(error), Some(io::ErrorKind::ConnectionRefused), "{error:?}");
        }
        assert!(Error::from(Unreachable::other("nobody is there")).source().is_none());
        assert!(Error::TimedOut(String::new()).source().is_none());
    }

    #[test]
    fn errors_of_one_kind_and_message_are_equal_whatever_caused_them() {
        let bare = Unreachable::new(UnreachableKind::Unavailable, "nobody is there");
        assert_eq!(bare, refused());
        assert_ne!(bare, Unreachable::new(UnreachableKind::TimedOut, "nobody is there"));
        assert_ne!(bare, refused().with_message("somebody is there"));
        let all = HashSet::from([refused(), bare, Unreachable::other("nobody is there")]);
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn an_error_is_small_and_may_go_anywhere() {
        fn may_go_anywhere<T: Send + Sync + UnwindSafe + RefUnwindSafe + 'static>() {}
        may_go_anywhere::<Error>();
        assert!(size_of::<Error>() <= size_of::<(usize, String)>());
    }
}
