//! Stray keys in etcd, and what people remove from it.

use navlock_core::Error;
use navlock_machines::{
    eviction::{self, Evict},
    strays::Stray,
    thread::runtime,
};

use crate::{STORE, call_failure::Failure, members::Members, options::EtcdOptions};

/// Looks for keys in the namespace that are no locks and no requests.
///
/// This reads everything in the namespace, so it is for people and not for programs that repeat it.
/// It blocks the thread, which must not be one of a tokio runtime.
///
/// # Errors
///
/// [`Error::Unreachable`] if etcd does not answer, [`Error::Refused`] if the options cannot be used.
pub fn strays(options: &EtcdOptions) -> Result<Vec<Stray>, Error> {
    on_runtime(options, async |members| eviction::strays(&members, &options.keeper.namespace).await)
}

/// Removes locks, requests or stray keys from etcd, whoever has them. Returns the keys that it has
/// removed.
///
/// The holder of a lock that is removed is told that the lock is lost, but may still be at work: so
/// use this for locks that nobody uses any more. A key that changes while this runs is left alone.
/// This blocks the thread, which must not be one of a tokio runtime.
///
/// # Errors
///
/// [`Error::Refused`] if there is nothing of that kind, the key is outside of the namespace, or it
/// has just changed; [`Error::Unreachable`] if etcd does not answer.
pub fn evict(options: &EtcdOptions, what: &Evict<'_>) -> Result<Vec<Vec<u8>>, Error> {
    on_runtime(options, async |members| {
        eviction::evict(&members, &options.keeper.namespace, what).await
    })
}

/// Asks etcd something, on a runtime that is made for this call.
fn on_runtime<T>(
    options: &EtcdOptions,
    ask: impl AsyncFnOnce(Members) -> Result<T, Failure>,
) -> Result<T, Error> {
    options.check()?;
    runtime(STORE)?.block_on(async {
        let members = Members::connect(options.clone()).await?;
        ask(members).await.map_err(|failure| failure.error(STORE))
    })
}
