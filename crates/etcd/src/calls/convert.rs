//! Converts between the transactions and answers of stores of keys and those of the client of etcd.

use navlock_etcd_client::{
    self as client, Compare, CompareOp, DeleteRangeRequest, DeleteResponse, PutRequest,
    RangeRequest, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use crate::data::{Answer, Check, KeyValue, Step, StepResult, Transaction};

/// An empty range compares like one key with the revision 0. So "equal to 0" means that the range
/// is empty.
fn compare(check: Check) -> Compare {
    let made = Compare::create_revision;
    match check {
        Check::Absent(key) => made(key, CompareOp::Equal, 0),
        Check::Present(key) => made(key, CompareOp::Greater, 0),
        Check::MadeIn(key, revision) => made(key, CompareOp::Equal, revision),
        Check::WrittenIn(key, revision) => Compare::mod_revision(key, CompareOp::Equal, revision),
        Check::Empty(start, end) => made(start, CompareOp::Equal, 0).with_range(end),
        Check::NoneAfter(start, end, revision) => {
            made(start, CompareOp::Less, revision + 1).with_range(end)
        }
    }
}

fn op(step: Step) -> TxnOp {
    let range = RangeRequest::range;
    match step {
        Step::Put { key, value, lease } => TxnOp::Put(PutRequest { key, value, lease }),
        Step::Get(key) => TxnOp::Get(RangeRequest { keys_only: true, ..RangeRequest::key(key) }),
        Step::Count(start, end) => {
            TxnOp::Get(RangeRequest { count_only: true, ..range(start, end) })
        }
        Step::First(start, end) => TxnOp::Get(RangeRequest { limit: 1, ..range(start, end) }),
        Step::Delete(key) => TxnOp::Delete(DeleteRangeRequest::key(key)),
        Step::DeleteRange(key, range_end) => {
            TxnOp::Delete(DeleteRangeRequest { key, range_end, prev_kv: true })
        }
        Step::Within(transaction) => TxnOp::Txn(txn(transaction)),
    }
}

/// The transaction, as it is sent.
pub(super) fn txn(transaction: Transaction) -> Txn {
    let Transaction { when, then, or_else } = transaction;
    Txn::new()
        .when(when.into_iter().map(compare))
        .and_then(then.into_iter().map(op))
        .or_else(or_else.into_iter().map(op))
}

/// The answer to a plain delete.
pub(super) fn deleted(response: &DeleteResponse) -> Answer {
    Answer {
        revision: response.header.unwrap_or_default().revision,
        cluster: response.header.unwrap_or_default().cluster_id,
        succeeded: true,
        results: vec![StepResult::Deleted(Vec::new())],
    }
}

/// The answer to a transaction.
pub(super) fn answer(response: TxnResponse) -> Answer {
    let result = |result| match result {
        TxnOpResponse::Put(_) => StepResult::Done,
        // A count returns no keys, and neither does a key that is not there.
        TxnOpResponse::Get(got) => match got.kvs.first() {
            // A key that was asked for without its value has an empty value.
            Some(kv) if !kv.value.is_empty() => {
                StepResult::First(Some(Box::new(key_value(kv.clone()))))
            }
            Some(kv) => StepResult::Got(Some(kv.made)),
            None if got.count > 0 => StepResult::Counted(got.count),
            None => StepResult::Got(None),
        },
        TxnOpResponse::Delete(deleted) => {
            let keys = deleted.prev_kvs.iter().map(|kv| kv.key.clone());
            StepResult::Deleted(keys.collect())
        }
        TxnOpResponse::Txn(inner) => StepResult::Within(answer(inner)),
    };
    Answer {
        revision: response.header.unwrap_or_default().revision,
        cluster: response.header.unwrap_or_default().cluster_id,
        succeeded: response.succeeded,
        results: response.op_responses().into_iter().map(result).collect(),
    }
}

/// A key that etcd has told of.
pub(crate) fn key_value(kv: client::KeyValue) -> KeyValue {
    let client::KeyValue { key, made, written, value, lease } = kv;
    KeyValue { key, made, written, value, lease }
}
