//! The connections of a reach over several clusters, and the connection for a name.

use std::sync::Arc;

use navlock_core::ResourceName;

use super::{
    cluster_entry::OneOf,
    config::{EtcdClusters, place},
};
use crate::reach::EtcdReach;

#[derive(Debug)]
pub(super) struct Connections {
    pub(super) clusters: EtcdClusters,
    /// The connections to the clusters that names are on, in the order of the clusters' names.
    pub(super) parts: Vec<Connected>,
}

/// The connection to one cluster.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) name: String,
    pub(super) reach: EtcdReach,
    pub(super) entry: Arc<OneOf>,
}

impl Connections {
    /// The index of the connection that a name is on.
    pub(super) fn part_of(&self, bucket: &str, name: &ResourceName) -> usize {
        let names: Vec<_> = self.parts.iter().map(|part| &*part.name).collect();
        // There is at least one cluster.
        place(&names, bucket, name.as_bytes()).unwrap_or_default()
    }
}
