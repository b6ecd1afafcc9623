//! Keys.

use prost::Message;

use crate::{
    Client, Error, KeyValue, ResponseHeader,
    messages::{DeleteRangeRequest, PutRequest, RangeRequest},
};

impl Client {
    /// Reads keys.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn get(&mut self, request: RangeRequest) -> Result<GetResponse, Error> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    /// Writes a key.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn put(&mut self, request: PutRequest) -> Result<PutResponse, Error> {
        self.unary("/etcdserverpb.KV/Put", request).await
    }

    /// Deletes keys.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete(&mut self, request: DeleteRangeRequest) -> Result<DeleteResponse, Error> {
        self.unary("/etcdserverpb.KV/DeleteRange", request).await
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
