//! Etcd's messages, as far as they are used. A field's tag is its number in etcd's API; fields that
//! are left out keep their default when sent, and are skipped when received.

use prost::Message;

/// What comes with every answer.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ResponseHeader {
    /// Which cluster it is.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// The revision of all keys when the call was made.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// A key with its value and when it was written.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The revision that made the key, its "create revision": the key was not there before.
    #[prost(int64, tag = "2")]
    pub made: i64,
    /// The revision that wrote the key last, or deleted it: its "mod revision".
    #[prost(int64, tag = "3")]
    pub written: i64,
    /// The value.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    /// The lease with which it ends; 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    /// One of them. The third, to ask how far the watches of a stream are, is not used.
    #[prost(message, optional, tag = "1")]
    pub(crate) create: Option<WatchCreateRequest>,
    #[prost(message, optional, tag = "2")]
    pub(crate) cancel: Option<WatchCancelRequest>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchCancelRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) start: i64,
    #[prost(bool, tag = "4")]
    pub(crate) progress_notify: bool,
    #[prost(int64, tag = "7")]
    pub(crate) id: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
}

/// To renew it, to end it, or to ask for its time to live.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

/// To ask for what is written under it.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseKeysRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
    #[prost(bool, tag = "2")]
    pub(crate) keys: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct StatusRequest {}

/// What a member says of itself.
#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    /// Of which cluster, at which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Which release it is.
    #[prost(string, tag = "2")]
    pub version: String,
    /// What it complains of.
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
}

/// Asks a member for the members that it knows. It asks no other member.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MemberListRequest {}

/// The members of a cluster.
#[derive(Clone, PartialEq, Message)]
pub struct MemberListResponse {
    /// Of which cluster.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All of them.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// A member of a cluster.
#[derive(Clone, PartialEq, Message)]
pub struct Member {
    /// The URLs at which the member says that clients find it.
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
    /// Whether the member only learns, and answers no calls yet.
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}
