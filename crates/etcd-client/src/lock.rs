//! Etcd's own lock service, which navlock does not use: it is here to be measured.

use prost::Message;

use crate::{Client, Error};

impl Client {
    /// Waits for a lock.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn lock(
        &mut self,
        name: impl Into<Vec<u8>>,
        options: Option<LockOptions>,
    ) -> Result<LockResponse, Error> {
        let LockOptions { lease } = options.unwrap_or_default();
        self.unary("/v3lockpb.Lock/Lock", LockRequest { name: name.into(), lease }).await
    }

    /// Releases it, by the key that it has.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn unlock(&mut self, key: impl Into<Vec<u8>>) -> Result<UnlockResponse, Error> {
        self.unary("/v3lockpb.Lock/Unlock", UnlockRequest { key: key.into() }).await
    }
}

/// How to hold a lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockOptions {
    lease: i64,
}

impl LockOptions {
    /// Under no lease.
    pub fn new() -> Self {
        Self::default()
    }

    /// Under this lease.
    #[must_use]
    pub fn with_lease(mut self, lease: i64) -> Self {
        self.lease = lease;
        self
    }
}

#[derive(Clone, PartialEq, Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// A lock that is held.
#[derive(Clone, PartialEq, Message)]
pub struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

impl LockResponse {
    /// By which it is released.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// That a lock was released.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct UnlockResponse {}
