//! Calls to etcd: each with an end, and each failure as what is to be done about it.

use std::time::Duration;

use etcd_client::{GetOptions, GetResponse, KvClient, LeaseClient, Txn, TxnResponse};
use navlock_core::Error;
use tokio::time::{sleep, timeout};

use crate::{clock::Moment, lease::Term};

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may have been done or not; it may go better the next time.
    Unknown(String),
    /// The lease has ended. Nothing was done.
    NoLease,
    /// It was refused, and would be again. Nothing was done.
    Refused(Error),
}

impl Failure {
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Unknown(why) => Error::Unreachable(format!("cannot reach etcd: {why}")),
            Self::NoLease => lease_lost(),
            Self::Refused(error) => error,
        }
    }
}

impl From<etcd_client::Error> for Failure {
    fn from(error: etcd_client::Error) -> Self {
        let etcd_client::Error::GRpcStatus(status) = &error else {
            return match error {
                etcd_client::Error::InvalidArgs(_) | etcd_client::Error::InvalidUri(_) => {
                    Self::Refused(Error::Refused(format!("etcd cannot be asked: {error}")))
                }
                _ => Self::Unknown(error.to_string()),
            };
        };
        let message = status.message();
        match status.code() as i32 {
            INVALID_ARGUMENT if message.contains("too large") => {
                Self::Refused(Error::Refused("etcd refused: the request is too large".to_owned()))
            }
            NOT_FOUND => Self::NoLease,
            RESOURCE_EXHAUSTED if message.contains("too many requests") => {
                Self::Unknown(message.to_owned())
            }
            INVALID_ARGUMENT | PERMISSION_DENIED | RESOURCE_EXHAUSTED | FAILED_PRECONDITION
            | UNIMPLEMENTED | UNAUTHENTICATED => {
                Self::Refused(Error::Unreachable(format!("etcd refused: {message}")))
            }
            _ => Self::Unknown(message.to_owned()),
        }
    }
}

// The codes of gRPC.
const INVALID_ARGUMENT: i32 = 3;
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const FAILED_PRECONDITION: i32 = 9;
const UNIMPLEMENTED: i32 = 12;
const UNAUTHENTICATED: i32 = 16;

/// What those are told who waited under a lease that has ended.
pub(crate) fn lease_lost() -> Error {
    Error::Unreachable(
        "the lease in etcd could not be kept, and the place in the queue is lost; try again"
            .to_owned(),
    )
}

async fn within<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, Failure> {
    match timeout(patience, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Unknown(format!("no answer within {patience:?}"))),
    }
}

pub(crate) async fn transaction(
    mut client: KvClient,
    transaction: Txn,
    delay: Duration,
    patience: Duration,
) -> Result<TxnResponse, Failure> {
    if !delay.is_zero() {
        sleep(delay).await;
    }
    within(patience, client.txn(transaction)).await
}

/// All that is below this prefix, at one revision.
pub(crate) async fn list(
    mut client: KvClient,
    prefix: Vec<u8>,
    delay: Duration,
    patience: Duration,
) -> Result<GetResponse, Failure> {
    if !delay.is_zero() {
        sleep(delay).await;
    }
    within(patience, client.get(prefix, Some(GetOptions::new().with_prefix()))).await
}

/// A new lease.
pub(crate) async fn lease(
    mut client: LeaseClient,
    seconds: i64,
    delay: Duration,
    patience: Duration,
) -> Result<(i64, Term), Failure> {
    if !delay.is_zero() {
        sleep(delay).await;
    }
    let sent = Moment::now();
    let answer = within(patience, client.grant(seconds, None)).await?;
    let seconds = u64::try_from(answer.ttl()).unwrap_or_default();
    Ok((answer.id(), Term { sent, time_to_live: Duration::from_secs(seconds) }))
}

/// Ends a lease with all that is under it. Tries until it ends by itself.
pub(crate) async fn revoke(
    mut client: LeaseClient,
    id: i64,
    time_to_live: Duration,
    patience: Duration,
) {
    let revoked = async {
        while let Err(Failure::Unknown(_)) = within(patience, client.revoke(id)).await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let _ = timeout(time_to_live, revoked).await;
}
