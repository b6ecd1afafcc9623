//! Keys and transactions.

use prost::Message;

use crate::{
    Client, Error, KeyValue, ResponseHeader,
    messages::{DeleteRangeRequest, PutRequest, RangeRequest},
};

impl Client {
    /// The key, or those that the options say.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn get(
        &mut self,
        key: impl Into<Vec<u8>>,
        options: Option<GetOptions>,
    ) -> Result<GetResponse, Error> {
        self.unary("/etcdserverpb.KV/Range", options.unwrap_or_default().of(key)).await
    }

    /// Writes a key.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn put(
        &mut self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        options: Option<PutOptions>,
    ) -> Result<PutResponse, Error> {
        self.unary("/etcdserverpb.KV/Put", options.unwrap_or_default().of(key, value)).await
    }

    /// Deletes the key, or those that the options say.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete(
        &mut self,
        key: impl Into<Vec<u8>>,
        options: Option<DeleteOptions>,
    ) -> Result<DeleteResponse, Error> {
        self.unary("/etcdserverpb.KV/DeleteRange", options.unwrap_or_default().of(key)).await
    }
}

/// The end of the range of all keys that begin with this prefix: the least key that is greater than all of
/// them. For etcd a single zero byte means "no end".
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|&byte| byte < u8::MAX) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![0],
    }
}

/// Which keys a call is about, beginning with the one that it names.
#[derive(Clone, Debug, Default)]
pub(crate) enum Range {
    #[default]
    OneKey,
    Prefix,
    /// Up to this key, without it.
    To(Vec<u8>),
}

impl Range {
    pub(crate) fn end(self, key: &[u8]) -> Vec<u8> {
        match self {
            Self::OneKey => Vec::new(),
            // For an empty prefix this means all keys: etcd has no empty key to begin with.
            Self::Prefix => prefix_end(key),
            Self::To(end) => end,
        }
    }
}

/// What to get, and what of it.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    range: Range,
    request: RangeRequest,
}

impl GetOptions {
    /// One key, whole.
    pub fn new() -> Self {
        Self::default()
    }

    /// All that begin with the key.
    #[must_use]
    pub fn with_prefix(mut self) -> Self {
        self.range = Range::Prefix;
        self
    }

    /// All from the key to this one, without it.
    #[must_use]
    pub fn with_range(mut self, end: impl Into<Vec<u8>>) -> Self {
        self.range = Range::To(end.into());
        self
    }

    /// Without their values.
    #[must_use]
    pub fn with_keys_only(mut self) -> Self {
        self.request.keys_only = true;
        self
    }

    /// Only how many there are.
    #[must_use]
    pub fn with_count_only(mut self) -> Self {
        self.request.count_only = true;
        self
    }

    /// No more than so many.
    #[must_use]
    pub fn with_limit(mut self, limit: i64) -> Self {
        self.request.limit = limit;
        self
    }

    /// As they were at this revision.
    #[must_use]
    pub fn with_revision(mut self, revision: i64) -> Self {
        self.request.revision = revision;
        self
    }

    pub(crate) fn of(self, key: impl Into<Vec<u8>>) -> RangeRequest {
        let key = key.into();
        RangeRequest { range_end: self.range.end(&key), key, ..self.request }
    }
}

/// How to write a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions {
    lease: i64,
}

impl PutOptions {
    /// To stay.
    pub fn new() -> Self {
        Self::default()
    }

    /// To end with this lease.
    #[must_use]
    pub fn with_lease(mut self, lease: i64) -> Self {
        self.lease = lease;
        self
    }

    pub(crate) fn of(self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> PutRequest {
        PutRequest { key: key.into(), value: value.into(), lease: self.lease }
    }
}

/// What to delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    range: Range,
    request: DeleteRangeRequest,
}

impl DeleteOptions {
    /// One key.
    pub fn new() -> Self {
        Self::default()
    }

    /// All that begin with the key.
    #[must_use]
    pub fn with_prefix(mut self) -> Self {
        self.range = Range::Prefix;
        self
    }

    /// All from the key to this one, without it.
    #[must_use]
    pub fn with_range(mut self, end: impl Into<Vec<u8>>) -> Self {
        self.range = Range::To(end.into());
        self
    }

    /// Has the answer say what was deleted.
    #[must_use]
    pub fn with_prev_key(mut self) -> Self {
        self.request.prev_kv = true;
        self
    }

    pub(crate) fn of(self, key: impl Into<Vec<u8>>) -> DeleteRangeRequest {
        let key = key.into();
        DeleteRangeRequest { range_end: self.range.end(&key), key, ..self.request }
    }
}

/// The keys that were found.
#[derive(Clone, PartialEq, Message)]
pub struct GetResponse {
    /// At which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The keys, in their order.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// How many there are, whatever the limit.
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// The answer to [`Client::put`].
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PutResponse {
    /// In which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// The answer to [`Client::delete`].
#[derive(Clone, PartialEq, Message)]
pub struct DeleteResponse {
    /// In which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The deleted keys, if they were asked for.
    #[prost(message, repeated, tag = "3")]
    pub prev_kvs: Vec<KeyValue>,
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
