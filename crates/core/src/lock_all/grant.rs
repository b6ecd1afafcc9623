//! What a request for several locks answers with.

use crate::{Error, Lock, LockGuard};

/// What a request for several names answers with: see [`LockAllRequest`](crate::LockAllRequest).
pub trait GrantAll: sealed::Sealed + Sized {
    /// What the callback of [`LockAllRequest::run`](crate::LockAllRequest::run) is given.
    type Locks;

    /// All locks were granted.
    #[doc(hidden)]
    fn from_guards(guards: Vec<LockGuard>) -> Self;

    /// Not all locks could be had at once.
    #[doc(hidden)]
    fn unavailable() -> Result<Self, Error>;

    /// The guards, and what a callback is given while they are held.
    #[doc(hidden)]
    fn into_guards(self) -> (Vec<LockGuard>, Self::Locks);
}

mod sealed {
    use crate::LockGuard;

    pub trait Sealed {}
    impl Sealed for Vec<LockGuard> {}
    impl Sealed for LockGuard {}
    impl<G: Sealed> Sealed for Option<G> {}
}

impl GrantAll for Vec<LockGuard> {
    type Locks = Vec<Lock>;

    fn from_guards(guards: Vec<LockGuard>) -> Self {
        guards
    }

    #[cold]
    fn unavailable() -> Result<Self, Error> {
        <LockGuard as crate::Grant>::unavailable().map(|guard| vec![guard])
    }

    fn into_guards(self) -> (Vec<LockGuard>, Vec<Lock>) {
        let locks = self.iter().map(|guard| Lock::clone(guard)).collect();
        (self, locks)
    }
}

impl GrantAll for LockGuard {
    type Locks = Lock;

    fn from_guards(mut guards: Vec<LockGuard>) -> Self {
        guards.pop().expect("a request for any of several names is granted one")
    }

    #[cold]
    fn unavailable() -> Result<Self, Error> {
        <Self as crate::Grant>::unavailable()
    }

    fn into_guards(self) -> (Vec<LockGuard>, Lock) {
        let lock = Lock::clone(&self);
        (vec![self], lock)
    }
}

impl<G: GrantAll> GrantAll for Option<G> {
    type Locks = Option<G::Locks>;

    fn from_guards(guards: Vec<LockGuard>) -> Self {
        Some(G::from_guards(guards))
    }

    fn unavailable() -> Result<Self, Error> {
        Ok(None)
    }

    fn into_guards(self) -> (Vec<LockGuard>, Self::Locks) {
        let granted = self.map(G::into_guards);
        granted.map_or((Vec::new(), None), |(guards, locks)| (guards, Some(locks)))
    }
}
