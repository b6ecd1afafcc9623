//! What a request for several locks answers with.

use crate::{Error, LockGuard};

/// What a request for several names answers with: see [`LockAllRequest`](crate::LockAllRequest).
pub trait GrantAll: sealed::Sealed + Sized {
    /// All locks were granted.
    #[doc(hidden)]
    fn from_guards(guards: Vec<LockGuard>) -> Self;

    /// Not all locks could be had at once.
    #[doc(hidden)]
    fn unavailable() -> Result<Self, Error>;
}

mod sealed {
    use crate::LockGuard;

    pub trait Sealed {}
    impl Sealed for Vec<LockGuard> {}
    impl Sealed for Option<Vec<LockGuard>> {}
    impl Sealed for LockGuard {}
    impl Sealed for Option<LockGuard> {}
}

impl GrantAll for Vec<LockGuard> {
    fn from_guards(guards: Vec<LockGuard>) -> Self {
        guards
    }

    #[cold]
    fn unavailable() -> Result<Self, Error> {
        <LockGuard as crate::Grant>::unavailable().map(|guard| vec![guard])
    }
}

impl GrantAll for Option<Vec<LockGuard>> {
    fn from_guards(guards: Vec<LockGuard>) -> Self {
        Some(guards)
    }

    fn unavailable() -> Result<Self, Error> {
        Ok(None)
    }
}

impl GrantAll for LockGuard {
    fn from_guards(mut guards: Vec<LockGuard>) -> Self {
        guards.pop().expect("a request for any of several names is granted one")
    }

    #[cold]
    fn unavailable() -> Result<Self, Error> {
        <Self as crate::Grant>::unavailable()
    }
}

impl GrantAll for Option<LockGuard> {
    fn from_guards(mut guards: Vec<LockGuard>) -> Self {
        guards.pop()
    }

    fn unavailable() -> Result<Self, Error> {
        Ok(None)
    }
}
