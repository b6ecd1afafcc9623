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
    /// The term of the member that has answered. Each election begins a new term.
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
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

/// Asks for keys, and says what of them.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the range, which is not a part of it; empty for one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// How many keys at most; 0 for all of them.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// At which revision; 0 for the present one.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// Without their values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Only how many there are.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

impl RangeRequest {
    /// One key, whole.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// All keys from the first to the second, without the second.
    pub fn range(key: impl Into<Vec<u8>>, range_end: impl Into<Vec<u8>>) -> Self {
        Self { range_end: range_end.into(), ..Self::key(key) }
    }
}

/// Asks for a key to be written.
#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease with which the key ends; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

impl PutRequest {
    /// This key with this value, under this lease; 0 for none.
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>, lease: i64) -> Self {
        Self { key: key.into(), value: value.into(), lease }
    }
}

/// Asks for keys to be deleted.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the range, which is not a part of it; empty for one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// Has the answer say what was deleted.
    #[prost(bool, tag = "3")]
    pub prev_kv: bool,
}

impl DeleteRangeRequest {
    /// One key.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }
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

/// Asks for a watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCreateRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the range, which is not a part of it; empty for one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// From this revision on; 0 for from now on.
    #[prost(int64, tag = "3")]
    pub start: i64,
    /// Has etcd say now and then that there is nothing new.
    #[prost(bool, tag = "4")]
    pub progress_notify: bool,
    /// What the watch is called in answers, if several are watched by one stream: no two may be called the
    /// same. If it is 0, it is called what etcd chooses. Etcd 3.4 or newer.
    #[prost(int64, tag = "7")]
    pub id: i64,
}

impl WatchCreateRequest {
    /// All that begin with this, from now on.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        let key = prefix.into();
        Self { range_end: prefix_end(&key), key, ..Self::default() }
    }
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

/// The end of the range of all keys that begin with this prefix: the least key that is greater than all of
/// them. For etcd a single zero byte means "no end".
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|&byte| byte < u8::MAX) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![0],
    }
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn a_range_ends_after_all_that_begins_with_the_prefix() {
        assert_eq!(prefix_end(b"a/"), b"a0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), [0]);
        assert_eq!(prefix_end(b""), [0]);
    }
}
