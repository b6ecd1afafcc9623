//! Locks that all machines share which use one etcd.

pub use navlock_etcd::{CredentialSource, Credentials, EtcdOptions, EtcdReach, etcd};
