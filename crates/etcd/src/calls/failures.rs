//! What has to be done about an error of etcd, or of the connection to it.

use std::error::Error as _;

use navlock_core::{Refusal, Unreachable, UnreachableKind};
use navlock_etcd_client::Error as Cause;

use crate::call_failure::Failure;

/// A part of etcd's answer to a write while it is full.
pub(crate) const FULL: &str = "database space exceeded";

/// A part of the text of our gRPC library about an answer that is not gRPC.
const NO_GRPC: &str = "grpc-status header missing";

/// The failure for an error of a call.
pub(crate) fn of(error: Cause) -> Failure {
    match &error {
        Cause::GRpcStatus(status) => {
            let (code, message) = (status.code() as i32, status.message().to_owned());
            of_status(code, &message, error)
        }
        Cause::Closed => Failure::Unknown(
            Unreachable::new(UnreachableKind::Unavailable, error.to_string()).caused_by(error),
        ),
        Cause::InvalidArgs(_) | Cause::InvalidUri(..) => {
            let message = format!("etcd cannot be asked: {error}");
            Failure::Refused(Refusal::new(message).caused_by(error).into())
        }
        _ => Failure::Unknown(Unreachable::other(error.to_string()).caused_by(error)),
    }
}

/// The failure for an error that has this code of gRPC and this message.
fn of_status(code: i32, message: &str, cause: Cause) -> Failure {
    if code == INVALID_ARGUMENT && message.contains("too large") {
        let remedy = "use shorter names, or raise etcd's --max-request-bytes";
        let refusal = Refusal::new(format!("etcd refused: {message}; {remedy}"));
        return Failure::Refused(refusal.caused_by(cause).into());
    }
    let kind = kind(code, message, is_of_connection(&cause));
    let why = |message| Unreachable::new(kind, message).caused_by(cause);
    match code {
        NOT_FOUND => Failure::NoLease,
        OUT_OF_RANGE => Failure::NoRevision,
        RESOURCE_EXHAUSTED if message.contains("too many requests") => {
            Failure::Unknown(why(message))
        }
        // Somebody has just changed users or roles.
        INVALID_ARGUMENT if message.contains("revision of auth store") => {
            Failure::Unknown(why(message))
        }
        // There was an answer, but not in gRPC. A proxy whose etcd is away answers like this as well, but
        // says that it is unavailable for a time.
        code if code != UNAVAILABLE && message.contains(NO_GRPC) => {
            let told = format!("the program that answers there is not etcd: {message}");
            Failure::Unknown(why(message).with_message(told))
        }
        RESOURCE_EXHAUSTED if message.contains(FULL) => {
            let told = format!(
                "etcd refused: {message}; it is full: locks are kept and released, and none is granted \
                 but of names that this machine owns, until it has room ('navlock doctor' says how)"
            );
            Failure::Refused(why(message).with_message(told).into())
        }
        INVALID_ARGUMENT | PERMISSION_DENIED | RESOURCE_EXHAUSTED | FAILED_PRECONDITION
        | UNIMPLEMENTED | UNAUTHENTICATED => {
            let told = format!("etcd refused: {message}");
            Failure::Refused(why(message).with_message(told).into())
        }
        _ => Failure::Unknown(why(message)),
    }
}

/// Whether our side has made the error, because the connection failed. An error that etcd has answered has
/// no cause beneath it.
fn is_of_connection(cause: &Cause) -> bool {
    matches!(cause, Cause::GRpcStatus(status) if status.source().is_some())
}

/// Whether this error ends the connection.
pub(crate) fn is_end(error: &Cause) -> bool {
    is_of_connection(error) || matches!(error, Cause::Closed)
}

/// Whether the member that has answered this is there, and would be asked in vain no less than others.
pub(crate) fn is_alive(error: &Cause) -> bool {
    let is_so = |code| matches!(code, RESOURCE_EXHAUSTED | PERMISSION_DENIED);
    matches!(error, Cause::GRpcStatus(status) if status.source().is_none() && is_so(status.code() as i32))
}

fn kind(code: i32, message: &str, is_of_connection: bool) -> UnreachableKind {
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    match code {
        UNAVAILABLE => UnreachableKind::Unavailable,
        DEADLINE_EXCEEDED => UnreachableKind::TimedOut,
        PERMISSION_DENIED => UnreachableKind::PermissionDenied,
        UNAUTHENTICATED => UnreachableKind::Unauthenticated,
        // These errors are recognised by their words, because etcd has one code for wrong arguments
        // and for wrong users, and some of its services lose the code.
        _ if says(&["authentication failed", "user name is empty", "invalid auth token"]) => {
            UnreachableKind::Unauthenticated
        }
        _ if says(&["permission denied"]) => UnreachableKind::PermissionDenied,
        _ if says(&[FULL]) => UnreachableKind::StorageFull,
        // Both errors pass: etcd has too much to do, or somebody has just changed users or roles.
        _ if says(&["too many requests", "revision of auth store"]) => UnreachableKind::Unavailable,
        UNIMPLEMENTED => UnreachableKind::Protocol,
        _ if says(&[NO_GRPC]) => UnreachableKind::Protocol,
        _ if is_of_connection => UnreachableKind::Unavailable,
        _ => UnreachableKind::Other,
    }
}

// The codes of gRPC.
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const FAILED_PRECONDITION: i32 = 9;
const OUT_OF_RANGE: i32 = 11;
const UNIMPLEMENTED: i32 = 12;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

#[cfg(test)]
mod tests {
    use std::{io, iter, net::TcpListener, thread};

    use navlock_core::Error;
    use navlock_etcd_client::Client;

    use super::*;
    use crate::STORE;

    #[tokio::test]
    async fn a_refusal_here_or_by_etcd_keeps_its_cause() {
        let asked = Client::connect(["not an address"], None).await;
        let malformed = of(asked.expect_err("no server has this address"));
        let too_large = of_status(3, "etcdserver: request is too large", Cause::Closed);
        for failure in [malformed, too_large] {
            let error = failure.error(STORE);
            assert!(matches!(error, Error::Refused(_)), "{error:?}");
            let cause = error.source().and_then(|cause| cause.downcast_ref::<Cause>());
            assert!(cause.is_some(), "{error:?}");
        }
    }

    #[test]
    fn the_code_of_an_answer_is_the_kind_of_the_error() {
        for (code, message, kind) in [
            (14, "tcp connect error", UnreachableKind::Unavailable),
            (
                14,
                "grpc-status header missing, mapped from HTTP status code 503",
                UnreachableKind::Unavailable,
            ),
            (4, "context deadline exceeded", UnreachableKind::TimedOut),
            (7, "etcdserver: permission denied", UnreachableKind::PermissionDenied),
            (16, "etcdserver: invalid auth token", UnreachableKind::Unauthenticated),
            (
                3,
                "etcdserver: authentication failed, invalid user ID or password",
                UnreachableKind::Unauthenticated,
            ),
            (3, "etcdserver: user name is empty", UnreachableKind::Unauthenticated),
            (3, "etcdserver: duplicate key given in txn request", UnreachableKind::Other),
            (8, "etcdserver: mvcc: database space exceeded", UnreachableKind::StorageFull),
            (2, "etcdserver: mvcc: database space exceeded", UnreachableKind::StorageFull),
            (2, "etcdserver: invalid auth token", UnreachableKind::Unauthenticated),
            (2, "etcdserver: permission denied", UnreachableKind::PermissionDenied),
            (8, "etcdserver: too many requests", UnreachableKind::Unavailable),
            (3, "etcdserver: revision of auth store is old", UnreachableKind::Unavailable),
            (12, "unknown service etcdserverpb.KV", UnreachableKind::Protocol),
            (
                2,
                "grpc-status header missing, mapped from HTTP status code 200",
                UnreachableKind::Protocol,
            ),
            (2, "h2 protocol error", UnreachableKind::Other),
        ] {
            let Error::Unreachable(why) = of_status(code, message, Cause::Closed).error(STORE)
            else {
                panic!("{code} {message}");
            };
            assert_eq!(why.kind(), kind, "{code} {message}");
            assert!(why.message().contains(message), "{why}");
            let cause = why.source().and_then(|cause| cause.downcast_ref::<Cause>());
            assert!(matches!(cause, Some(Cause::Closed)), "{code} {message}");
        }
    }

    #[test]
    fn a_request_that_is_too_large_is_refused_with_a_remedy() {
        let message = "etcdserver: request is too large";
        let error = of_status(INVALID_ARGUMENT, message, Cause::Closed).error(STORE);
        assert!(
            matches!(&error, Error::Refused(why) if why.message().contains(message)),
            "{error:?}"
        );
        assert!(error.to_string().contains("--max-request-bytes"), "{error}");
    }

    #[tokio::test]
    async fn a_connection_that_ends_in_a_call_is_told_from_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        // Each connection ends at once, however often the client tries. The thread ends with the tests.
        thread::spawn(move || listener.incoming().for_each(drop));
        let asked = async { Client::connect([endpoint.as_str()], None).await?.status().await };
        let error = of(asked.await.unwrap_err()).error(STORE);
        let Error::Unreachable(why) = &error else { panic!("{error:?}") };
        assert_eq!(why.kind(), UnreachableKind::Unavailable, "{why:?}");
        let closed = of(Cause::Closed).error(STORE);
        let Error::Unreachable(why) = &closed else { panic!("{closed:?}") };
        assert_eq!(why.kind(), UnreachableKind::Unavailable, "{why:?}");
    }

    #[tokio::test]
    async fn a_refused_connection_is_found_behind_the_error() {
        let asked = async { Client::connect(["127.0.0.1:1"], None).await?.status().await };
        let error = of(asked.await.unwrap_err()).error(STORE);
        let Error::Unreachable(why) = &error else { panic!("{error:?}") };
        assert_eq!(why.kind(), UnreachableKind::Unavailable, "{why:?}");
        let io = iter::successors(error.source(), |&cause| cause.source())
            .find_map(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(io.map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused), "{why:?}");
    }
}
