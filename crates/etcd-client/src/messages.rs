//! Etcd's messages, as far as they are used. A field's tag is its number in etcd's API; fields that
//! are left out keep their default when sent, and are skipped when received.

use prost::Message;

/// What comes with every answer.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

impl ResponseHeader {
    /// Which cluster it is.
    pub const fn cluster_id(&self) -> u64 {
        self.cluster_id
    }

    /// The revision of all keys when the call was made.
    pub const fn revision(&self) -> i64 {
        self.revision
    }
}

/// A key with its value and when it was written.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

impl KeyValue {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Both, without copying.
    pub fn into_key_value(self) -> (Vec<u8>, Vec<u8>) {
        (self.key, self.value)
    }

    /// The revision in which the key came to be; it was not there before.
    pub const fn create_revision(&self) -> i64 {
        self.create_revision
    }

    /// The revision in which it was last written, or deleted.
    pub const fn mod_revision(&self) -> i64 {
        self.mod_revision
    }

    /// The lease with which it ends; 0 for none.
    pub const fn lease(&self) -> i64 {
        self.lease
    }
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
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, repeated, tag = "8")]
    errors: Vec<String>,
}

impl StatusResponse {
    /// Of which cluster, at which revision.
    pub const fn header(&self) -> Option<&ResponseHeader> {
        self.header.as_ref()
    }

    /// Which release it is.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What it complains of.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }
}

/// Asks a member for the members that it knows. It asks no other member.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MemberListRequest {}

/// The members of a cluster.
#[derive(Clone, PartialEq, Message)]
pub struct MemberListResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    members: Vec<Member>,
}

/// A member of a cluster.
#[derive(Clone, PartialEq, Message)]
pub struct Member {
    #[prost(string, repeated, tag = "4")]
    client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    is_learner: bool,
}

impl MemberListResponse {
    /// Of which cluster.
    pub const fn header(&self) -> Option<&ResponseHeader> {
        self.header.as_ref()
    }

    /// All of them.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

impl Member {
    /// The URLs at which the member says that clients find it.
    pub fn client_urls(&self) -> &[String] {
        &self.client_urls
    }

    /// Whether the member only learns, and answers no calls yet.
    pub const fn is_learner(&self) -> bool {
        self.is_learner
    }
}
