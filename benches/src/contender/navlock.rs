//! Navlock itself, through its public interface.

use navlock_core::{LockGuard, LockManager, UserAgent};

use super::{Class, Contender};

/// Exclusive locks.
pub(crate) struct Navlock(pub(crate) LockManager);

/// Shared locks.
pub(crate) struct NavlockShared(LockManager);

impl Default for Navlock {
    fn default() -> Self {
        Self(UserAgent::new().lock_manager("bench"))
    }
}

impl Default for NavlockShared {
    fn default() -> Self {
        Self(UserAgent::new().lock_manager("bench"))
    }
}

impl Contender for Navlock {
    const NAME: &'static str = "navlock";
    const CLASS: Class = Class::Ours;

    type Guard<'a> = LockGuard;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> LockGuard {
        self.0.lock(name).await.expect("the name is legal and the agent alive")
    }
}

impl Contender for NavlockShared {
    const NAME: &'static str = "navlock";
    const CLASS: Class = Class::Ours;

    type Guard<'a> = LockGuard;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> LockGuard {
        self.0.lock(name).shared().await.expect("the name is legal and the agent alive")
    }
}
