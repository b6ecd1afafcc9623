//! Locks that all machines share which use one etcd.

pub use navlock_etcd::{Credentials, EtcdOptions, EtcdReach, etcd};
