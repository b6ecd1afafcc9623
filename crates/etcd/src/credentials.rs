//! Credentials: as whom a connection is made, and which servers it trusts.

use std::fmt;

/// The user as which this program connects to etcd, and the servers that it trusts to be etcd.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<(String, String)>,
    #[cfg(feature = "tls")]
    pub(crate) certificate_authority: Option<Vec<u8>>,
    #[cfg(feature = "tls")]
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Credentials {
    /// Connects as nobody, and trusts the servers that the system trusts.
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`EtcdOptions::user`](crate::EtcdOptions::user).
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// See [`EtcdOptions::certificate_authority`](crate::EtcdOptions::certificate_authority).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn certificate_authority(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.certificate_authority = Some(pem.as_ref().to_vec());
        self
    }

    /// See [`EtcdOptions::identity`](crate::EtcdOptions::identity).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn identity(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.identity = Some((certificate.as_ref().to_vec(), key.as_ref().to_vec()));
        self
    }
}

/// Shows nothing secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("Credentials").field("user", &user).finish_non_exhaustive()
    }
}
