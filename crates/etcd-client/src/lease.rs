//! Leases: what is written under one ends with it.

use prost::Message;
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::{
    Client, Error, ResponseHeader,
    messages::{LeaseGrantRequest, LeaseKeysRequest, LeaseRequest},
};

impl Client {
    /// A new lease, which etcd keeps for so many seconds at a time.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn lease_grant(&mut self, seconds: i64) -> Result<LeaseGrantResponse, Error> {
        self.unary("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl: seconds }).await
    }

    /// Ends a lease.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn lease_revoke(&mut self, id: i64) -> Result<LeaseRevokeResponse, Error> {
        self.unary("/etcdserverpb.Lease/LeaseRevoke", LeaseRequest { id }).await
    }

    /// How long a lease lasts, and how much time it has left. The leader answers from memory, without asking
    /// the others.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn lease_time_to_live(&mut self, id: i64) -> Result<LeaseTimeToLiveResponse, Error> {
        self.unary("/etcdserverpb.Lease/LeaseTimeToLive", LeaseRequest { id }).await
    }

    /// What is written under a lease.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn lease_keys(&mut self, id: i64) -> Result<LeaseKeysResponse, Error> {
        let request = LeaseKeysRequest { id, keys: true };
        self.unary("/etcdserverpb.Lease/LeaseTimeToLive", request).await
    }

    /// Renews a lease.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseKeepAliveError`] if there is no such lease; else see [`Error`].
    pub async fn lease_keep_alive(&mut self, id: i64) -> Result<LeaseKeepAliveResponse, Error> {
        let opened = self.streaming("/etcdserverpb.Lease/LeaseKeepAlive", LeaseRequest { id });
        let (ask, mut answers): (mpsc::Sender<LeaseRequest>, Streaming<LeaseKeepAliveResponse>) =
            opened.await?;
        let first = answers.message().await?.ok_or(Error::Closed)?;
        // Etcd ends the call when it has nothing more to be asked. Its proxy would not answer if that was so
        // from the beginning.
        drop(ask);
        tokio::spawn(async move { while let Ok(Some(_)) = answers.message().await {} });
        if first.ttl > 0 {
            return Ok(first);
        }
        Err(Error::LeaseKeepAliveError("there is no such lease".to_owned()))
    }
}

/// A new lease.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {
    /// At which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Its number.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// For how many seconds etcd keeps it, which may be more than was asked for.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// The answer to [`Client::lease_revoke`].
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LeaseRevokeResponse {}

/// That a lease was renewed, or is not there.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LeaseKeepAliveResponse {
    /// In which term.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// For how many seconds etcd keeps it from now on; 0 or less if it is not there.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// What is written under a lease.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseKeysResponse {
    /// Of which cluster.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The keys; none if there is no such lease.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub keys: Vec<Vec<u8>>,
}

/// How long a lease lasts.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LeaseTimeToLiveResponse {
    /// How many whole seconds it still has, if it is not renewed; less than 0 if there is no such lease.
    /// The leader says so by its clock, and gives each lease all of its time when it becomes one.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    /// For how many seconds each time that it is renewed.
    #[prost(int64, tag = "4")]
    pub granted_ttl: i64,
}

impl LeaseTimeToLiveResponse {
    /// Whether there is such a lease. In its last second etcd says 0, and less if there is none.
    pub const fn is_there(&self) -> bool {
        self.ttl >= 0
    }
}
