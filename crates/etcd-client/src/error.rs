//! Why a call has failed.

use std::fmt;

/// Why a call has failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The endpoints or options make no sense; nothing was sent.
    InvalidArgs(String),
    /// An endpoint is no address; nothing was sent.
    InvalidUri(http::uri::InvalidUri),
    /// TLS cannot be set up as the options say.
    TransportError(tonic::transport::Error),
    /// Etcd refused, or it cannot be reached, or the connection broke.
    GRpcStatus(tonic::Status),
    /// There is no such lease.
    LeaseKeepAliveError(String),
    /// The stream was at its end.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgs(why) | Self::LeaseKeepAliveError(why) => f.write_str(why),
            Self::InvalidUri(why) => write!(f, "not an address: {why}"),
            Self::TransportError(why) => write!(f, "TLS cannot be used: {why}"),
            Self::GRpcStatus(status) => write!(f, "{}: {}", status.code(), status.message()),
            Self::Closed => f.write_str("etcd has ended the stream"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InvalidUri(why) => Some(why),
            Self::TransportError(why) => Some(why),
            Self::GRpcStatus(status) => Some(status),
            Self::InvalidArgs(_) | Self::LeaseKeepAliveError(_) | Self::Closed => None,
        }
    }
}

impl From<http::uri::InvalidUri> for Error {
    fn from(error: http::uri::InvalidUri) -> Self {
        Self::InvalidUri(error)
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
