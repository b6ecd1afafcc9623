//! Why a reach refuses a request or its options.

use std::{
    error, fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Why a reach refuses a request or its options: a [message](Self::message) for people, and the error
/// beneath that caused it.
///
/// There is a [source](error::Error::source) if the refusal was caused by an error in this process, such
/// as a file that cannot be read, or by an answer of the service that keeps the locks. A reach that
/// refuses by its own decision gives none. A broker sends only a message, so there is none either.
///
/// What is said of [message and source](crate::Unreachable#message-and-source) and of
/// [equality](crate::Unreachable#equality) of an [`Unreachable`](crate::Unreachable) is true of this type as
/// well. There is one exception: a refusal that is made from a boxed error by `From` has the text of that error,
/// which is the source as well.
///
/// ```
/// use std::{error::Error as _, io};
///
/// use navlock::{Error, Refusal};
///
/// // As a reach makes it.
/// let none = io::Error::from(io::ErrorKind::NotFound);
/// let why = Refusal::new(format!("cannot read the key: {none}")).caused_by(none);
/// let error = Error::from(why);
///
/// assert_eq!(error.to_string(), "cannot read the key: entity not found");
/// let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
/// assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::NotFound));
/// ```
#[derive(Clone, Debug)]
// This is in a box so that it does not make an `Error` larger.
pub struct Refusal(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    message: String,
    cause: Option<Arc<dyn error::Error + Send + Sync>>,
}

impl Refusal {
    /// A refusal with a message for people: what is refused, why, and what the limit is or what to do.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Parts { message: message.into(), cause: None }))
    }

    /// This refusal with `cause`, which becomes its [source](error::Error::source).
    #[must_use]
    pub fn caused_by(mut self, cause: impl error::Error + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Arc::new(cause));
        self
    }

    /// This refusal with another message, for a layer that knows more about what was tried.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// What is refused, and why, for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<Box<dyn error::Error + Send + Sync>> for Refusal {
    /// The refusal that this error causes, with the same text.
    ///
    /// The error itself is the source, although its text is the whole message: a program may need its type,
    /// such as the kind of an [`io::Error`](std::io::Error), and the error may have no source of its own. A
    /// text in a box cannot be told from other errors, so a text becomes a source as well.
    fn from(cause: Box<dyn error::Error + Send + Sync>) -> Self {
        Self(Box::new(Parts { message: cause.to_string(), cause: Some(cause.into()) }))
    }
}

impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        self.message() == other.message()
    }
}

impl Eq for Refusal {}

impl Hash for Refusal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.message().hash(state);
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl error::Error for Refusal {
    /// The error that caused the refusal, if there is one.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        let cause = self.0.cause.as_deref()?;
        Some(cause)
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error as _, io};

    use super::*;
    use crate::{Error, Unreachable};

    fn io_kind(error: &dyn error::Error) -> Option<io::ErrorKind> {
        error.source()?.downcast_ref::<io::Error>().map(io::Error::kind)
    }

    #[test]
    fn the_cause_stays_the_source_whatever_becomes_of_the_refusal() {
        let none = || io::Error::from(io::ErrorKind::NotFound);
        let refusal = Refusal::new("no key").caused_by(none()).with_message("cluster a: no key");
        let error = Error::from(refusal.clone());
        let passing = Unreachable::from(refusal.clone());
        for error in [&refusal as &dyn error::Error, &error, &passing] {
            assert_eq!(error.to_string(), "cluster a: no key");
            assert_eq!(io_kind(error), Some(io::ErrorKind::NotFound), "{error:?}");
        }
        let boxed: Box<dyn error::Error + Send + Sync> = none().into();
        let refusal = Refusal::from(boxed);
        assert_eq!(
            (refusal.message(), io_kind(&refusal)),
            ("entity not found", Some(io::ErrorKind::NotFound))
        );
        assert!(Error::refused("too long").source().is_none());
    }

    #[test]
    fn refusals_with_one_message_are_equal_whatever_caused_them() {
        let bare = Refusal::new("no key");
        assert_eq!(bare, Refusal::new("no key").caused_by(io::Error::other("gone")));
        assert_ne!(bare, Refusal::new("no lock"));
    }
}
