//! The servers that a connection may lead to, and how it leads there.

use std::fmt;

use navlock_core::Refusal;
use navlock_machines::{call_failure::Failure, credentials::CredentialSource};
use tokio_postgres::{Config, config::SslMode};

#[cfg(feature = "tls")]
use crate::tls;
use crate::trust::Trust;

/// One server or several, of which the first that is good is used.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
    pub(crate) credentials: CredentialSource,
}

#[cfg(feature = "tls")]
type Tls = tokio_postgres_rustls::MakeRustlsConnect;
#[cfg(not(feature = "tls"))]
type Tls = tokio_postgres::NoTls;

impl Servers {
    /// The configuration by which to connect now, and what encrypts the connection.
    pub(crate) fn now(&self) -> Result<(Config, Tls), Failure> {
        self.configured().map_err(|why| Failure::Unknown(why.into()))
    }

    /// # Errors
    ///
    /// What is wrong with the credentials that there are.
    pub(crate) fn configured(&self) -> Result<(Config, Tls), Refusal> {
        let credentials = self.credentials.now()?;
        let mut config = self.config.clone();
        if let Some(user) = credentials.get_user() {
            config.user(user);
        }
        if let Some(password) = credentials.get_password() {
            config.password(password);
        }
        let mut trust = self.trust;
        let has_tls = credentials.get_identity().is_some()
            || credentials.get_certificate_authority().is_some();
        if has_tls && config.get_ssl_mode() == SslMode::Disable {
            return Err(Refusal::new(
                "sslmode=disable does not go with certificates; leave out one of both",
            ));
        }
        if credentials.get_certificate_authority().is_some() && trust == Trust::Anybody {
            trust = Trust::Named;
        }
        if trust != Trust::Anybody || has_tls {
            config.ssl_mode(SslMode::Require);
        }
        #[cfg(feature = "tls")]
        let tls = tls::connector(trust, &credentials)?;
        #[cfg(not(feature = "tls"))]
        let tls = match config.get_ssl_mode() {
            SslMode::Require => {
                return Err(Refusal::new(
                    "TLS, which sslmode or a certificate asks for, is not in this build; build navlock with the feature `tls`",
                ));
            }
            _ => tokio_postgres::NoTls,
        };
        Ok((config, tls))
    }
}

/// Shows nothing secret.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers")
            .field("hosts", &self.config.get_hosts())
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}
