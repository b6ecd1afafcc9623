//! Peers that forget a name once nobody holds it or waits for it.

use std::sync::Arc;

use dashmap::DashMap;

use super::{Class, Contender, get_or_insert};

/// A concurrent map of tokio's mutexes that evicts names, as one writes it by hand.
#[derive(Default)]
pub(crate) struct EvictingDashMap(DashMap<String, Arc<tokio::sync::Mutex<()>>>);

/// A concurrent map of tokio's reader-writer locks that evicts names.
#[derive(Default)]
pub(crate) struct EvictingDashMapShared(DashMap<String, Arc<tokio::sync::RwLock<()>>>);

/// key-rwlock, exclusive. It looks for idle names with every thousandth request.
#[derive(Default)]
pub(crate) struct KeyRwLock(key_rwlock::KeyRwLock<String>);

/// key-rwlock, shared.
#[derive(Default)]
pub(crate) struct KeyRwLockShared(key_rwlock::KeyRwLock<String>);

/// key-mutex, exclusive.
#[derive(Default)]
pub(crate) struct KeyMutex(key_mutex::tokio::KeyMutex<String, ()>);

/// key-mutex, shared.
#[derive(Default)]
pub(crate) struct KeyMutexShared(key_mutex::tokio::KeyRwLock<String, ()>);

/// keyed-lock.
pub(crate) struct KeyedLock(keyed_lock::r#async::KeyedLock<String>);

/// lockable.
#[derive(Default)]
pub(crate) struct Lockable(lockable::LockPool<String>);

/// One use of a name in a map, from the request until the release.
///
/// A waiting future holds one too, so that a cancelled waiter also evicts.
struct Use<'a, T> {
    map: &'a DashMap<String, Arc<T>>,
    name: &'a str,
}

/// A guard with its use of the name. The fields are dropped in this order, so that of two that leave at once
/// the later finds no other owner than the map.
pub(crate) struct Evicting<'a, G, T> {
    _guard: G,
    _use: Use<'a, T>,
}

impl<T> Drop for Use<'_, T> {
    fn drop(&mut self) {
        self.map.remove_if(self.name, |_, lock| Arc::strong_count(lock) == 1);
    }
}

impl Contender for EvictingDashMap {
    const NAME: &'static str = "dashmap + tokio, evicting";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = Evicting<'a, tokio::sync::OwnedMutexGuard<()>, tokio::sync::Mutex<()>>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        let this_use = Use { map: &self.0, name };
        let lock = get_or_insert(&self.0, name);
        Evicting { _guard: lock.lock_owned().await, _use: this_use }
    }
}

impl Contender for EvictingDashMapShared {
    const NAME: &'static str = "dashmap + tokio, evicting";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = Evicting<'a, tokio::sync::OwnedRwLockReadGuard<()>, tokio::sync::RwLock<()>>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        let this_use = Use { map: &self.0, name };
        let lock = get_or_insert(&self.0, name);
        Evicting { _guard: lock.read_owned().await, _use: this_use }
    }
}

impl Contender for KeyRwLock {
    const NAME: &'static str = "key-rwlock";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = tokio::sync::OwnedRwLockWriteGuard<()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        self.0.write(name.to_owned()).await
    }
}

impl Contender for KeyRwLockShared {
    const NAME: &'static str = "key-rwlock";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = tokio::sync::OwnedRwLockReadGuard<()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        self.0.read(name.to_owned()).await
    }
}

impl Contender for KeyMutex {
    const NAME: &'static str = "key-mutex";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = key_mutex::tokio::OwnedMutexGuard<String, ()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        self.0.lock(name.to_owned()).await
    }
}

impl Contender for KeyMutexShared {
    const NAME: &'static str = "key-mutex";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = key_mutex::tokio::OwnedReadGuard<String, ()>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        self.0.read(name.to_owned()).await
    }
}

impl Default for KeyedLock {
    fn default() -> Self {
        Self(keyed_lock::r#async::KeyedLock::new())
    }
}

impl Contender for KeyedLock {
    const NAME: &'static str = "keyed-lock";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = keyed_lock::r#async::Guard<'a, String>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        self.0.lock(name.to_owned()).await
    }
}

impl Contender for Lockable {
    const NAME: &'static str = "lockable";
    const CLASS: Class = Class::Evicting;

    type Guard<'a> = <lockable::LockPool<String> as lockable::Lockable<String, ()>>::Guard<'a>;

    #[inline]
    async fn acquire<'a>(&'a self, name: &'a str) -> Self::Guard<'a> {
        self.0.async_lock(name.to_owned()).await
    }
}
