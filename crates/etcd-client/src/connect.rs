//! How to connect.

use std::time::Duration;

use tonic::transport::Endpoint;

use crate::Error;

/// How to connect, and as whom.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub(crate) user: Option<(String, String)>,
    pub(crate) require_leader: bool,
    connect_timeout: Option<Duration>,
    keep_alive: Option<(Duration, Duration)>,
    keep_alive_while_idle: bool,
    #[cfg(feature = "tls")]
    tls: Option<crate::TlsOptions>,
}

impl ConnectOptions {
    /// Without a user, without limits, without TLS unless an endpoint says `https://`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Logs in as this user. A token that has expired is replaced, and the call made once more.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Has a member that has lost the others refuse calls. Otherwise it answers late or never.
    #[must_use]
    pub fn with_require_leader(mut self, require_leader: bool) -> Self {
        self.require_leader = require_leader;
        self
    }

    /// How long one try to connect may take.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Pings a server that has been silent for `interval`, and gives the connection up if it does not
    /// answer within `timeout`.
    #[must_use]
    pub fn with_keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.keep_alive = Some((interval, timeout));
        self
    }

    /// Pings also while no call is open.
    #[must_use]
    pub fn with_keep_alive_while_idle(mut self, while_idle: bool) -> Self {
        self.keep_alive_while_idle = while_idle;
        self
    }

    /// How to speak TLS, with endpoints that begin with `https://` or have no scheme.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, tls: crate::TlsOptions) -> Self {
        self.tls = Some(tls);
        self
    }

    pub(crate) fn endpoint(&self, url: &str) -> Result<Endpoint, Error> {
        let mut endpoint = self.secured(url)?;
        if let Some((interval, timeout)) = self.keep_alive {
            endpoint = endpoint
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(timeout)
                .keep_alive_while_idle(self.keep_alive_while_idle);
        }
        if let Some(timeout) = self.connect_timeout {
            endpoint = endpoint.connect_timeout(timeout);
        }
        Ok(endpoint)
    }

    #[cfg(feature = "tls")]
    fn secured(&self, url: &str) -> Result<Endpoint, Error> {
        let is_https = url.starts_with("https://");
        match &self.tls {
            Some(_) if url.starts_with("http://") => {
                Err(Error::InvalidArgs(format!("{url}: TLS is for https:// only")))
            }
            Some(tls) if is_https => Ok(address(url)?.tls_config(tls.clone())?),
            Some(tls) => Ok(address(&format!("https://{url}"))?.tls_config(tls.clone())?),
            None if is_https => Ok(address(url)?.tls_config(crate::TlsOptions::default())?),
            None => plain(url),
        }
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "with TLS it is used")]
    fn secured(&self, url: &str) -> Result<Endpoint, Error> {
        if url.starts_with("https://") {
            return Err(Error::InvalidArgs(format!("{url}: this build has no TLS")));
        }
        plain(url)
    }
}

/// An endpoint without TLS.
fn plain(url: &str) -> Result<Endpoint, Error> {
    if url.starts_with("http://") { address(url) } else { address(&format!("http://{url}")) }
}

fn address(url: &str) -> Result<Endpoint, Error> {
    match url.parse::<http::Uri>() {
        Ok(uri) => Ok(Endpoint::from(uri)),
        Err(error) => Err(Error::InvalidUri(url.to_owned(), error)),
    }
}
