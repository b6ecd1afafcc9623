//! Locks that all machines share which use one etcd.
//!
//! [`etcd`] connects to it, and [`etcd_clusters`] to several that share the names of locks. There
//! is one connection and one thread for each call, whatever is done with it; the broker's daemon is
//! not needed.
//!
//! ```no_run
//! # navlock::blocking::block_on(async {
//! let options = navlock::EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"]);
//! let locks = navlock::etcd(options).await?.lock_manager("my-app");
//! let guard = locks.lock("db").await?;
//!
//! // A machine that is cut off loses its locks, and is told before they are others'.
//! guard.lost().await;
//! # Ok::<(), navlock::Error>(())
//! # }).unwrap();
//! ```

pub use navlock_etcd::{ClustersReach, EtcdClusters, EtcdOptions, EtcdReach, etcd, etcd_clusters};
