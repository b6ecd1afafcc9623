//! Transactions.

use prost::{Message, Oneof};

use crate::{
    Client, DeleteResponse, Error, GetResponse, PutResponse, ResponseHeader,
    messages::{DeleteRangeRequest, PutRequest, RangeRequest},
};

impl Client {
    /// Does one list of operations or the other, in one revision.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn txn(&mut self, txn: Txn) -> Result<TxnResponse, Error> {
        self.unary("/etcdserverpb.KV/Txn", txn).await
    }
}

/// How a key compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum CompareOp {
    /// It is the same.
    Equal = 0,
    /// The key's is greater.
    Greater = 1,
    /// The key's is less.
    Less = 2,
    /// It is another.
    NotEqual = 3,
}

/// Etcd's numbers for "when the key came to be" and "when it was written last", of what can be compared of
/// a key.
const CREATE: i32 = 1;
const MOD: i32 = 2;

/// A condition of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "Value", tags = "5, 6")]
    value: Option<Value>,
    #[prost(bytes = "vec", tag = "64")]
    range_end: Vec<u8>,
}

/// What it is compared with: a choice, so that a zero is sent as well.
#[derive(Clone, Copy, PartialEq, Oneof)]
enum Value {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

impl Compare {
    /// When the key came to be. One that is not there compares as 0.
    pub fn create_revision(key: impl Into<Vec<u8>>, op: CompareOp, revision: i64) -> Self {
        Self {
            result: op as i32,
            target: CREATE,
            key: key.into(),
            value: Some(Value::CreateRevision(revision)),
            range_end: Vec::new(),
        }
    }

    /// When the key was written last. One that is not there compares as 0.
    pub fn mod_revision(key: impl Into<Vec<u8>>, op: CompareOp, revision: i64) -> Self {
        let value = Some(Value::ModRevision(revision));
        Self { target: MOD, value, ..Self::create_revision(key, op, revision) }
    }

    /// The same of all keys up to this one, without it.
    #[must_use]
    pub fn with_range(mut self, end: impl Into<Vec<u8>>) -> Self {
        self.range_end = end.into();
        self
    }
}

/// Conditions, and what is done if they hold or do not.
#[derive(Clone, PartialEq, Message)]
pub struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    failure: Vec<RequestOp>,
}

impl Txn {
    /// Without conditions, they hold.
    pub fn new() -> Self {
        Self::default()
    }

    /// If all of these hold…
    #[must_use]
    pub fn when(mut self, compare: impl IntoIterator<Item = Compare>) -> Self {
        self.compare = compare.into_iter().collect();
        self
    }

    /// … this is done,
    #[must_use]
    pub fn and_then(mut self, operations: impl IntoIterator<Item = TxnOp>) -> Self {
        self.success = operations.into_iter().map(RequestOp::from).collect();
        self
    }

    /// else that.
    #[must_use]
    pub fn or_else(mut self, operations: impl IntoIterator<Item = TxnOp>) -> Self {
        self.failure = operations.into_iter().map(RequestOp::from).collect();
        self
    }
}

#[derive(Clone, PartialEq, Message)]
struct RequestOp {
    #[prost(oneof = "TxnOp", tags = "1, 2, 3, 4")]
    request: Option<TxnOp>,
}

/// One thing that a transaction does.
#[derive(Clone, PartialEq, Oneof)]
pub enum TxnOp {
    /// See [`Client::get`].
    #[prost(message, tag = "1")]
    Get(RangeRequest),
    /// See [`Client::put`].
    #[prost(message, tag = "2")]
    Put(PutRequest),
    /// See [`Client::delete`].
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
    /// A transaction within this one.
    #[prost(message, tag = "4")]
    Txn(Txn),
}

impl From<TxnOp> for RequestOp {
    fn from(request: TxnOp) -> Self {
        Self { request: Some(request) }
    }
}

/// What a transaction has come to.
#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    /// In which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Whether the conditions held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseOp {
    #[prost(oneof = "TxnOpResponse", tags = "1, 2, 3, 4")]
    response: Option<TxnOpResponse>,
}

/// The outcome of one operation of a transaction.
#[derive(Clone, PartialEq, Oneof)]
pub enum TxnOpResponse {
    /// Of [`TxnOp::Get`].
    #[prost(message, tag = "1")]
    Get(GetResponse),
    /// Of [`TxnOp::Put`].
    #[prost(message, tag = "2")]
    Put(PutResponse),
    /// Of [`TxnOp::Delete`].
    #[prost(message, tag = "3")]
    Delete(DeleteResponse),
    /// Of [`TxnOp::Txn`].
    #[prost(message, tag = "4")]
    Txn(TxnResponse),
}

impl TxnResponse {
    /// The outcomes of the operations that were done.
    pub fn op_responses(self) -> Vec<TxnOpResponse> {
        self.responses.into_iter().filter_map(|response| response.response).collect()
    }
}
