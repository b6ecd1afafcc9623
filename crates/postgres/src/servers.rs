//! The servers that a connection may lead to, and how it leads there.

use std::fmt;

use navlock_core::Refusal;
use navlock_machines::credentials::CredentialSource;
use tokio_postgres::{
    Config,
    config::{ChannelBinding, Host, SslMode},
};

#[cfg(feature = "tls")]
use crate::tls;
use crate::trust::Trust;

/// The port of a PostgreSQL, if none is given.
const PORT: u16 = 5432;

/// One server or several: the first that can be used is used.
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
    /// Where they are, and which database is meant, for people.
    pub(crate) fn address(&self) -> String {
        let config = &self.config;
        // A name, or the path of a socket, which only some systems have.
        let host =
            |host: &Host| format!("{host:?}").split('"').nth(1).unwrap_or_default().to_owned();
        let ports = config.get_ports();
        let each = config.get_hosts().iter().enumerate().map(|(at, one)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
            format!("{}:{port}", host(one))
        });
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        format!("{}/{database}", each.collect::<Vec<_>>().join(","))
    }

    /// The configuration by which to connect now, and what encrypts the connection.
    ///
    /// # Errors
    ///
    /// What is wrong with the credentials that there are.
    pub(crate) fn now(&self) -> Result<(Config, Tls), Refusal> {
        let credentials = self.credentials.now()?;
        let mut config = self.config.clone();
        if let Some(user) = credentials.get_user() {
            config.user(user);
        }
        if let Some(password) = credentials.get_password() {
            config.password(password);
        }
        let has_authority = credentials.get_certificate_authority().is_some();
        let mut trust = self.trust;
        if has_authority && trust == Trust::Anybody {
            trust = Trust::Named;
        }
        if config.get_hosts().iter().all(is_socket) {
            // They are never encrypted.
            config.ssl_mode(SslMode::Disable);
            trust = Trust::Anybody;
        } else if has_authority || credentials.get_identity().is_some() || trust != Trust::Anybody {
            must_encrypt(&mut config)?;
        }
        if trust == Trust::Signed && !has_authority {
            return Err(Refusal::new(
                "sslmode=verify-ca needs a certificate-authority, because anybody can have a certificate of those that \
                 the system trusts; give one, or sslmode=verify-full",
            ));
        }
        #[cfg(feature = "tls")]
        let tls = tls::connector(trust, &credentials)?;
        #[cfg(not(feature = "tls"))]
        let tls = match config.get_ssl_mode() {
            SslMode::Require => {
                return Err(Refusal::new(
                    "this build has no TLS, which sslmode or a certificate asks for; build navlock with the feature `tls`",
                ));
            }
            _ => tokio_postgres::NoTls,
        };
        Ok((config, tls))
    }

    /// The same servers, or others, that are trusted no more than these.
    pub(crate) fn trusting_as(mut self, others: &Self) -> Self {
        self.trust = self.trust.max(others.trust);
        if others.config.get_ssl_mode() == SslMode::Require
            && self.config.get_ssl_mode() == SslMode::Prefer
        {
            self.config.ssl_mode(SslMode::Require);
        }
        if others.config.get_channel_binding() == ChannelBinding::Require {
            self.config.channel_binding(ChannelBinding::Require);
        }
        self
    }
}

/// Whether this is a socket of this machine.
fn is_socket(host: &Host) -> bool {
    !matches!(host, Host::Tcp(_))
}

fn must_encrypt(config: &mut Config) -> Result<(), Refusal> {
    if config.get_ssl_mode() == SslMode::Disable {
        return Err(Refusal::new(
            "sslmode=disable does not go with certificates or with a mode that checks them: leave out one of the two",
        ));
    }
    config.ssl_mode(SslMode::Require);
    Ok(())
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
