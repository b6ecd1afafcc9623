//! Peers that never forget a name: a concurrent map of async locks, as one writes it by hand.

use std::sync::Arc;

use dashmap::DashMap;

use super::{Class, Contender, get_or_insert};

/// A mutex per name, of tokio.
#[derive(Default)]
pub(crate) struct Tokio(DashMap<String, Arc<tokio::sync::Mutex<()>>>);

/// A reader-writer lock per name, of tokio.
#[derive(Default)]
pub(crate) struct TokioShared(DashMap<String, Arc<tokio::sync::RwLock<()>>>);

/// A mutex per name, of async-lock. A new request may pass the waiting ones until they have waited for half a
/// millisecond. So tasks seldom hand the lock over, and mostly run one after the other.
#[derive(Default)]
pub(crate) struct AsyncLock(DashMap<String, Arc<async_lock::Mutex<()>>>);

/// A reader-writer lock per name, of async-lock.
#[derive(Default)]
pub(crate) struct AsyncLockShared(DashMap<String, Arc<async_lock::RwLock<()>>>);

impl Contender for Tokio {
    const NAME: &'static str = "dashmap + tokio";
    const CLASS: Class = Class::Kept;

    type Guard<'a> = tokio::sync::OwnedMutexGuard<()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        get_or_insert(&self.0, name).lock_owned().await
    }
}

impl Contender for TokioShared {
    const NAME: &'static str = "dashmap + tokio";
    const CLASS: Class = Class::Kept;

    type Guard<'a> = tokio::sync::OwnedRwLockReadGuard<()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        get_or_insert(&self.0, name).read_owned().await
    }
}

impl Contender for AsyncLock {
    const NAME: &'static str = "dashmap + async-lock";
    const CLASS: Class = Class::Unfair;

    type Guard<'a> = async_lock::MutexGuardArc<()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        get_or_insert(&self.0, name).lock_arc().await
    }
}

impl Contender for AsyncLockShared {
    const NAME: &'static str = "dashmap + async-lock";
    const CLASS: Class = Class::Kept;

    type Guard<'a> = async_lock::RwLockReadGuardArc<()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        get_or_insert(&self.0, name).read_arc().await
    }
}
