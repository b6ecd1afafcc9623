//! The part of [etcd](https://etcd.io)'s API, version 3, that navlock uses: keys and transactions,
//! watches, leases, logging in, and what a member says of itself and of the others.
//!
//! This is no general client: it has only the calls that navlock makes, and repeats a call only if
//! etcd refused it because a token had expired. The messages are written by hand
//! ([`prost`] derives their encoding), so a build needs neither `protoc` nor etcd's
//! descriptions. A field keeps its number for ever, so there is little to follow.
//!
//! ```no_run
//! # async fn example() -> Result<(), navlock_etcd_client::Error> {
//! use navlock_etcd_client::{Client, Compare, CompareOp, PutRequest, Txn, TxnOp};
//!
//! let mut client = Client::connect(["127.0.0.1:2379"], None).await?;
//! let is_free = Compare::create_revision("key", CompareOp::Equal, 0);
//! let put = TxnOp::Put(PutRequest::new("key", "value", 0));
//! let answer = client.txn(Txn::new().when([is_free]).and_then([put])).await?;
//! println!("it was free: {}", answer.succeeded);
//! # Ok(())
//! # }
//! ```
//!
//! The feature `tls` adds `https://` endpoints; to build it needs a C compiler.

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod client;
mod connect;
mod error;
mod kv;
mod lease;
mod messages;
mod txn;
mod watch;

pub use self::{
    client::Client,
    connect::ConnectOptions,
    error::Error,
    kv::{DeleteResponse, GetResponse, PutResponse},
    lease::{
        LeaseGrantResponse, LeaseKeepAliveResponse, LeaseKeysResponse, LeaseRevokeResponse,
        LeaseTimeToLiveResponse,
    },
    messages::{
        DeleteRangeRequest, KeyValue, Member, MemberListResponse, PutRequest, RangeRequest,
        ResponseHeader, StatusResponse, WatchCreateRequest, prefix_end,
    },
    txn::{Compare, CompareOp, Txn, TxnOp, TxnOpResponse, TxnResponse},
    watch::{Event, EventType, WatchAsk, WatchAsks, WatchResponse, WatchStream},
};
#[cfg(feature = "tls")]
pub use tonic::transport::{Certificate, ClientTlsConfig as TlsOptions, Identity};
