//! Why a call has failed.

use std::fmt;

/// Why a call has failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The endpoints or options make no sense; nothing was sent.
    InvalidArgs(String),
    /// This endpoint is no address, for this reason; nothing was sent.
    InvalidUri(String, http::uri::InvalidUri),
    /// TLS cannot be set up as the options say.
    TransportError(tonic::transport::Error),
    /// Etcd refused, or it cannot be reached, or the connection broke.
    GRpcStatus(tonic::Status),
    /// The token that etcd has given cannot be sent, for this reason.
    InvalidToken(tonic::metadata::errors::InvalidMetadataValue),
    /// The task that logs in has panicked, or its runtime has ended before it.
    Login(tokio::task::JoinError),
    /// There is no such lease.
    LeaseKeepAliveError(String),
    /// The stream was at its end.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgs(why) | Self::LeaseKeepAliveError(why) => f.write_str(why),
            Self::InvalidUri(endpoint, why) => {
                write!(f, "the endpoint {endpoint} is no address: {why}")
            }
            Self::TransportError(why) => write!(f, "TLS cannot be used: {why}"),
            Self::GRpcStatus(status) => write!(f, "{}: {}", status.code(), status.message()),
            Self::InvalidToken(why) => {
                write!(f, "the token that etcd gives cannot be sent: {why}")
            }
            Self::Login(why) if why.is_panic() => {
                write!(f, "the login has failed by a fault of this program: {why}")
            }
            Self::Login(why) => write!(f, "the runtime ended during the login: {why}"),
            Self::Closed => f.write_str("etcd has ended the stream"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InvalidUri(_, why) => Some(why),
            Self::TransportError(why) => Some(why),
            Self::GRpcStatus(status) => Some(status),
            Self::InvalidToken(why) => Some(why),
            Self::Login(why) => Some(why),
            Self::InvalidArgs(_) | Self::LeaseKeepAliveError(_) | Self::Closed => None,
        }
    }
}

impl From<tonic::transport::Error> for Error {
    fn from(error: tonic::transport::Error) -> Self {
        Self::TransportError(error)
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        Self::GRpcStatus(status)
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error as _, future::pending};

    use tokio::{
        runtime::Builder,
        task::{JoinError, spawn},
    };

    use super::*;
    use crate::{Client, ConnectOptions};

    #[test]
    fn a_panic_during_the_login_is_told_from_the_end_of_the_runtime() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let panicked = runtime.block_on(async { spawn(async { panic!("no") }).await });
        let login = runtime.spawn(pending::<()>());
        drop(runtime);
        let ended = Builder::new_current_thread().build().unwrap().block_on(login);
        for (error, begins) in [
            (panicked.unwrap_err(), "the login has failed by a fault of this program: "),
            (ended.unwrap_err(), "the runtime ended during the login: "),
        ] {
            let (is_panic, error) = (error.is_panic(), Error::Login(error));
            assert!(error.to_string().starts_with(begins), "{error}");
            let cause = error.source().and_then(|cause| cause.downcast_ref::<JoinError>());
            assert_eq!(cause.map(JoinError::is_panic), Some(is_panic));
        }
    }

    #[test]
    fn an_endpoint_that_is_no_address_is_named() {
        let connected = Client::connect(["no address"], Some(ConnectOptions::new()));
        let runtime = Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(connected).unwrap_err();
        assert!(error.to_string().starts_with("the endpoint http://no address is no address: "));
        assert!(error.source().is_some_and(<dyn std::error::Error>::is::<http::uri::InvalidUri>));
    }
}
