//! What can be given as a name in a request, and what a request answers with.

use navlock_engine::ResourceName;

use crate::{Error, Unreachable, guard::LockGuard};

/// What can be given as a name: whatever [`LockManager::lock`](crate::LockManager::lock) takes.
pub trait Named: TryInto<ResourceName, Error: Into<Error>> {}

impl<N: TryInto<ResourceName, Error: Into<Error>>> Named for N {}

/// What a request answers with: see [`LockRequest`](crate::LockRequest).
pub trait Grant: sealed::Sealed + Sized {
    /// The lock was granted.
    #[doc(hidden)]
    fn from_guard(guard: LockGuard) -> Self;

    /// The lock could not be had at once.
    #[doc(hidden)]
    fn unavailable() -> Result<Self, Error>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::guard::LockGuard {}
    impl Sealed for Option<crate::guard::LockGuard> {}
}

impl Grant for LockGuard {
    #[inline]
    fn from_guard(guard: LockGuard) -> Self {
        guard
    }

    #[cold]
    fn unavailable() -> Result<Self, Error> {
        let why = "the reach refused at once a request that was to wait";
        Err(Unreachable::other(why).into())
    }
}

impl Grant for Option<LockGuard> {
    #[inline]
    fn from_guard(guard: LockGuard) -> Self {
        Some(guard)
    }

    fn unavailable() -> Result<Self, Error> {
        Ok(None)
    }
}
