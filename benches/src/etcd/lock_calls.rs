//! The two calls of etcd's own lock service, which navlock does not make.

use navlock_etcd_client::{Client, Error};
use prost::Message;

/// Waits for a lock, under this lease. Returns the key by which the lock is released.
pub(super) async fn lock(client: &Client, name: &str, lease: i64) -> Result<Vec<u8>, Error> {
    let request = LockRequest { name: name.into(), lease };
    let lock: LockKey = client.unary("/v3lockpb.Lock/Lock", request).await?;
    Ok(lock.key)
}

/// Releases the lock that has this key.
pub(super) async fn unlock(client: &Client, key: Vec<u8>) -> Result<(), Error> {
    let request = UnlockRequest { key };
    client.unary("/v3lockpb.Lock/Unlock", request).await
}

#[derive(Clone, PartialEq, Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LockKey {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}
