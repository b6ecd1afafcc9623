//! Locks that all machines share which use one etcd.

pub use navlock_etcd::{
    ClustersReach, Credentials, EtcdClusters, EtcdOptions, EtcdReach, etcd, etcd_clusters,
};
