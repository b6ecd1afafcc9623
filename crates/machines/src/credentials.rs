//! Credentials: as whom a connection to the store is made, and which servers it trusts.

use std::{error, fmt, sync::Arc};

use navlock_core::Refusal;

/// As whom this program connects to a store, and which servers it trusts to be that store.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: Option<String>,
    certificate_authority: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Credentials {
    /// Nothing: connects as nobody, or as whom the address of the store says, and trusts the servers that are
    /// trusted anyway.
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects as this user, with this password.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self.password(password)
    }

    /// Connects with this password, as the user whom the address of the store names.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Trusts servers whose certificate is signed by this one, in PEM. This needs the feature `tls`.
    #[must_use]
    pub fn certificate_authority(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.certificate_authority = Some(pem.as_ref().to_vec());
        self
    }

    /// Shows this certificate to servers. The certificate and its key are in PEM. This needs the feature `tls`.
    #[must_use]
    pub fn identity(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.identity = Some((certificate.as_ref().to_vec(), key.as_ref().to_vec()));
        self
    }

    /// The name of the user.
    #[doc(hidden)]
    #[must_use]
    pub fn get_user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password.
    #[doc(hidden)]
    #[must_use]
    pub fn get_password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The certificate of who signs those of the servers, in PEM.
    #[doc(hidden)]
    #[must_use]
    pub fn get_certificate_authority(&self) -> Option<&[u8]> {
        self.certificate_authority.as_deref()
    }

    /// The certificate that is shown and its key, in PEM.
    #[doc(hidden)]
    #[must_use]
    pub fn get_identity(&self) -> Option<(&[u8], &[u8])> {
        self.identity.as_ref().map(|(certificate, key)| (&**certificate, &**key))
    }
}

/// Shows nothing secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Where the credentials of each connection come from.
#[derive(Clone)]
pub enum CredentialSource {
    /// They were given once.
    Given(Credentials),
    /// They are asked for.
    Asked(Arc<dyn Fn() -> Result<Credentials, Refusal> + Send + Sync>),
}

impl CredentialSource {
    /// Asks for them, whenever a connection is made.
    pub fn asked<E>(source: impl Fn() -> Result<Credentials, E> + Send + Sync + 'static) -> Self
    where
        E: Into<Box<dyn error::Error + Send + Sync>>,
    {
        let refusal = |error: E| {
            let error: Box<dyn error::Error + Send + Sync> = error.into();
            Refusal::from(error)
        };
        Self::Asked(Arc::new(move || source().map_err(refusal)))
    }

    /// Changes them, also those that are asked for.
    pub fn change(
        &mut self,
        how: impl Fn(Credentials) -> Credentials + Clone + Send + Sync + 'static,
    ) {
        *self = match std::mem::take(self) {
            Self::Given(credentials) => Self::Given(how(credentials)),
            Self::Asked(source) => Self::Asked(Arc::new(move || source().map(&how))),
        };
    }

    /// The credentials to connect with now.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn now(&self) -> Result<Credentials, Refusal> {
        match self {
            Self::Given(credentials) => Ok(credentials.clone()),
            Self::Asked(source) => source(),
        }
    }
}

impl Default for CredentialSource {
    fn default() -> Self {
        Self::Given(Credentials::default())
    }
}

/// Shows nothing secret.
impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(credentials) => credentials.fmt(f),
            Self::Asked(_) => f.write_str("asked for"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_after_a_source_is_added_to_what_that_says() {
        let mut source = CredentialSource::default();
        source.change(|given| given.user("ada", "first"));
        assert_eq!(source.now().unwrap(), Credentials::new().user("ada", "first"));
        source = CredentialSource::asked(|| Ok::<_, String>(Credentials::new().identity("c", "k")));
        source.change(|given| given.password("second"));
        let expected = Credentials::new().identity("c", "k").password("second");
        assert_eq!(source.now().unwrap(), expected);
    }
}
