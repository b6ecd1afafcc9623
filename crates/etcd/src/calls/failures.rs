//! What an error of etcd's, or of the way there, says that is to be done about it.

use navlock_core::Error;

use crate::failure::Failure;

impl From<navlock_etcd_client::Error> for Failure {
    fn from(error: navlock_etcd_client::Error) -> Self {
        let navlock_etcd_client::Error::GRpcStatus(status) = &error else {
            return match error {
                navlock_etcd_client::Error::InvalidArgs(_)
                | navlock_etcd_client::Error::InvalidUri(_) => {
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
            OUT_OF_RANGE => Self::NoRevision,
            RESOURCE_EXHAUSTED if message.contains("too many requests") => {
                Self::Unknown(message.to_owned())
            }
            // Somebody has just changed users or roles.
            INVALID_ARGUMENT if message.contains("revision of auth store") => {
                Self::Unknown(message.to_owned())
            }
            // An answer, and not of gRPC. A proxy whose etcd is away says so, too, and that it is for a time.
            code if code != UNAVAILABLE && message.contains("grpc-status header missing") => {
                Self::Unknown(format!("what answers there is no etcd: {message}"))
            }
            RESOURCE_EXHAUSTED if message.contains("database space exceeded") => {
                Self::Refused(Error::Unreachable(format!(
                    "etcd refused: {message}; it is full: locks are kept and released, and none is granted \
                     but of names that this machine keeps, until it has room ('navlock doctor' says how)"
                )))
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
const UNAVAILABLE: i32 = 14;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const OUT_OF_RANGE: i32 = 11;
const FAILED_PRECONDITION: i32 = 9;
const UNIMPLEMENTED: i32 = 12;
const UNAUTHENTICATED: i32 = 16;
