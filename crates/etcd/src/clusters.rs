//! Several etcds that share the names: the way past what one of them can write.
//!
//! Each has a name of its own, by which it stays the same when its endpoints change. Which one a lock is
//! on follows from the names of all, its bucket and its own name alone (rendezvous hashing), so that all
//! machines agree without asking, and a further cluster takes over its share of the names and moves no
//! other. What must not be is two machines with different lists: see [`entry`].
//!
//! All this is a layer above single connections, and knows nothing of what they do.

mod agreement;
mod backend;
mod config;
mod connections;
pub(crate) mod entry;
mod list;
mod reach;

use navlock_core::{Error, UserAgent};

pub use self::{config::EtcdClusters, reach::ClustersReach};

/// A user agent whose locks are seen by all who use the same etcd clusters.
///
/// What one of them holds back concerns the names that are on it, and no others: but to begin, all of them
/// are needed. Each is a connection of its own, with a thread of its own. Works on any executor.
///
/// # Errors
///
/// [`Error::Unreachable`] if one does not answer. [`Error::Refused`] if the options cannot be used, or
/// others use one of these clusters with another list.
pub async fn etcd_clusters(clusters: EtcdClusters) -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(ClustersReach::connect(clusters).await?))
}
