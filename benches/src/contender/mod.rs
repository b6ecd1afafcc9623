//! The contenders: navlock, its peers, and the floors.
//!
//! All get the name as a `&str` with every request, as a program has it, and are awaited by the same
//! executor. Contenders whose keys are owned pay for owning them, as their users do.

mod evicting;
mod floor;
mod kept;
mod navlock;

use std::{future::Future, sync::Arc};

use dashmap::DashMap;

pub(crate) use self::{
    evicting::{
        EvictingDashMap, EvictingDashMapShared, KeyMutex, KeyMutexShared, KeyRwLock,
        KeyRwLockShared, KeyedLock, Lockable,
    },
    floor::{Fifo, InsertRemove, Slot},
    kept::{AsyncLock, AsyncLockShared, Tokio, TokioShared},
    navlock::{Navlock, NavlockShared},
};

/// A lock per name, in one mode.
pub(crate) trait Contender: Default + Send + Sync + 'static {
    const NAME: &'static str;
    const CLASS: Class;

    /// Releases when it is dropped.
    type Guard<'a>: Send;

    fn acquire<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Guard<'a>> + Send;
}

/// The kind of a contender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Ours,
    /// No lock by name, but the work that such a lock cannot do without, written with `std`.
    Floor,
    /// Never forgets a name.
    Kept,
    /// Forgets names that nobody uses, as navlock does.
    Evicting,
    /// Never forgets a name, and does not keep the order of requests, as a lock request queue must. It is
    /// shown, but no goal is measured by it.
    Unfair,
}

impl Class {
    pub(crate) const fn is_peer(self) -> bool {
        matches!(self, Self::Kept | Self::Evicting)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "navlock",
            Self::Floor => "floor",
            Self::Kept => "kept",
            Self::Evicting => "evicting",
            Self::Unfair => "unfair",
        }
    }
}

/// The lock of this name. Known names are looked up without owning the name.
fn get_or_insert<T: Default>(map: &DashMap<String, Arc<T>>, name: &str) -> Arc<T> {
    if let Some(known) = map.get(name) {
        return Arc::clone(&known);
    }
    Arc::clone(&map.entry(name.to_owned()).or_default())
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    fn waits<L: Contender>(locks: &L, name: &str) -> bool {
        pin!(locks.acquire(name)).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    fn excludes<L: Contender>() {
        let locks = L::default();
        let guard = pollster::block_on(locks.acquire("a"));
        assert!(waits(&locks, "a"), "{} gave one lock twice", L::NAME);
        drop(guard);
        assert!(!waits(&locks, "a"), "{} kept a lock that was released", L::NAME);
    }

    fn shares<L: Contender>() {
        let locks = L::default();
        let _guard = pollster::block_on(locks.acquire("a"));
        assert!(!waits(&locks, "a"), "{} did not share", L::NAME);
    }

    #[test]
    fn exclusive_contenders_exclude() {
        excludes::<Navlock>();
        excludes::<Fifo>();
        excludes::<Tokio>();
        excludes::<AsyncLock>();
        excludes::<EvictingDashMap>();
        excludes::<KeyRwLock>();
        excludes::<KeyMutex>();
        excludes::<KeyedLock>();
        excludes::<Lockable>();
    }

    #[test]
    fn shared_contenders_share() {
        shares::<NavlockShared>();
        shares::<TokioShared>();
        shares::<AsyncLockShared>();
        shares::<EvictingDashMapShared>();
        shares::<KeyRwLockShared>();
        shares::<KeyMutexShared>();
    }
}
