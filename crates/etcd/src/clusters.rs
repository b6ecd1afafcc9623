//! Several etcds that share the names, for more writes than one etcd can do.
//!
//! Each cluster has a name of its own, and stays the same cluster when its endpoints change. The cluster
//! of a lock follows from the names of all clusters, the bucket and the lock's name alone (rendezvous
//! hashing). So all machines agree without asking. A further cluster takes over its share of the names,
//! and no other names move. Two machines must not have different lists: see [`cluster_entry`].
//!
//! This is a layer above single connections, and knows nothing of what they do.

mod agreement;
mod backend;
pub(crate) mod cluster_entry;
mod config;
mod connections;
mod list;
mod reach;

use navlock_core::{Error, UserAgent};

pub use self::{config::EtcdClusters, reach::ClustersReach};

/// A user agent whose locks are seen by all who use the same etcd clusters.
///
/// If one of the clusters does not answer, only the names that are on it have to wait. But at the
/// beginning, all clusters are needed. Each has a connection of its own, with a thread of its own. Works
/// on any executor.
///
/// ```no_run
/// # use navlock::{EtcdClusters, EtcdOptions, etcd_clusters};
/// # navlock::blocking::block_on(async {
/// let clusters = EtcdClusters::new()
///     .cluster("east", EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"]))
///     .cluster("west", EtcdOptions::new(["10.1.0.1:2379"]));
/// let locks = etcd_clusters(clusters).await?.lock_manager("my-app");
/// let guard = locks.lock("db").await?;
/// # drop(guard);
/// # Ok::<(), navlock::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// [`Error::Unreachable`] if a cluster does not answer. [`Error::Refused`] if the options cannot be
/// used, or if others use one of these clusters with another list.
pub async fn etcd_clusters(clusters: EtcdClusters) -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(ClustersReach::connect(clusters).await?))
}
