//! What people remove from the database.

use navlock_core::Error;
use navlock_machines::{
    eviction::{self, Evict},
    key_store::KeyStore as _,
    thread::runtime,
};

use crate::{STORE, messages::Hello, options::PostgresOptions, postgres::Postgres};

/// Removes locks, requests or stray keys from the database, whoever has them. Returns the keys that it has removed.
///
/// The holder of a lock that is removed is told that the lock is lost, but may still be at work: so use this for locks
/// that nobody uses any more. This blocks the thread, which must not be one of a tokio runtime.
///
/// # Errors
///
/// [`Error::Refused`] if there is nothing of that kind, or it has just changed; [`Error::Unreachable`] if PostgreSQL
/// does not answer.
pub fn evict(options: &PostgresOptions, what: &Evict<'_>) -> Result<Vec<Vec<u8>>, Error> {
    runtime(STORE)?.block_on(async {
        let (store, keeper) = Postgres::connect(options.clone()).await?;
        let evicted = eviction::evict(&store, &keeper.namespace, what).await;
        // Those who wait are notified first.
        tokio::task::yield_now().await;
        let _: Result<Hello, _> = store.call("hello()").await;
        evicted.map_err(|failure| failure.error(STORE))
    })
}
