//! Converts between our own transactions and answers and those of the client of etcd.

use navlock_etcd_client::{
    Compare, CompareOp, DeleteRangeRequest, DeleteResponse, PutRequest, RangeRequest, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};

use crate::data::{Answer, Check, Step, StepResult, Transaction};

/// An empty range compares like one key with the revision 0. So "equal to 0" means that the range
/// is empty.
impl From<Check> for Compare {
    fn from(check: Check) -> Self {
        let made = Self::create_revision;
        match check {
            Check::Absent(key) => made(key, CompareOp::Equal, 0),
            Check::Present(key) => made(key, CompareOp::Greater, 0),
            Check::MadeIn(key, revision) => made(key, CompareOp::Equal, revision),
            Check::WrittenIn(key, revision) => Self::mod_revision(key, CompareOp::Equal, revision),
            Check::Empty(start, end) => made(start, CompareOp::Equal, 0).with_range(end),
            Check::NoneAfter(start, end, revision) => {
                made(start, CompareOp::Less, revision + 1).with_range(end)
            }
        }
    }
}

impl From<Step> for TxnOp {
    fn from(step: Step) -> Self {
        let range = RangeRequest::range;
        match step {
            Step::Put { key, value, lease } => Self::Put(PutRequest { key, value, lease }),
            Step::Get(key) => Self::Get(RangeRequest { keys_only: true, ..RangeRequest::key(key) }),
            Step::Count(start, end) => {
                Self::Get(RangeRequest { count_only: true, ..range(start, end) })
            }
            Step::First(start, end) => Self::Get(RangeRequest { limit: 1, ..range(start, end) }),
            Step::Delete(key) => Self::Delete(DeleteRangeRequest::key(key)),
            Step::DeleteRange(key, range_end) => {
                Self::Delete(DeleteRangeRequest { key, range_end, prev_kv: true })
            }
            Step::Within(transaction) => Self::Txn(transaction.into()),
        }
    }
}

impl From<Transaction> for Txn {
    fn from(transaction: Transaction) -> Self {
        let Transaction { when, then, or_else } = transaction;
        Self::new()
            .when(when.into_iter().map(Compare::from))
            .and_then(then.into_iter().map(TxnOp::from))
            .or_else(or_else.into_iter().map(TxnOp::from))
    }
}

impl From<DeleteResponse> for Answer {
    fn from(response: DeleteResponse) -> Self {
        Self {
            revision: response.header.unwrap_or_default().revision,
            cluster: response.header.unwrap_or_default().cluster_id,
            succeeded: true,
            results: vec![StepResult::Deleted(Vec::new())],
        }
    }
}

impl From<TxnResponse> for Answer {
    fn from(response: TxnResponse) -> Self {
        let result = |answer| match answer {
            TxnOpResponse::Put(_) => StepResult::Done,
            // A count returns no keys, and neither does a key that is not there.
            TxnOpResponse::Get(got) => match got.kvs.first() {
                // A key that was asked for without its value has an empty value.
                Some(kv) if !kv.value.is_empty() => StepResult::First(Some(Box::new(kv.clone()))),
                Some(kv) => StepResult::Got(Some(kv.made)),
                None if got.count > 0 => StepResult::Counted(got.count),
                None => StepResult::Got(None),
            },
            TxnOpResponse::Delete(deleted) => {
                let keys = deleted.prev_kvs.iter().map(|kv| kv.key.clone());
                StepResult::Deleted(keys.collect())
            }
            TxnOpResponse::Txn(inner) => StepResult::Within(inner.into()),
        };
        Self {
            revision: response.header.unwrap_or_default().revision,
            cluster: response.header.unwrap_or_default().cluster_id,
            succeeded: response.succeeded,
            results: response.op_responses().into_iter().map(result).collect(),
        }
    }
}
