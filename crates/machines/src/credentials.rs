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
    ///
    /// Etcd's endpoints have to begin with `https://`, and servers that the system trusts are trusted as well. Of
    /// PostgreSQL's servers, only those with such a certificate are trusted, and it has to be for the name in the URL,
    /// unless the URL says `sslmode=verify-ca`.
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

/// Where the credentials of each connection come from: [`Credentials`], which do not change, or a function that is
/// called whenever a connection is made. If the function fails, it returns the reason, which is an error or a text.
#[derive(Clone)]
pub struct CredentialSource(Source);

#[derive(Clone)]
enum Source {
    /// They were given once.
    Given(Credentials),
    /// They are asked for.
    Asked(Arc<dyn Fn() -> Result<Credentials, Refusal> + Send + Sync>),
}

impl CredentialSource {
    /// Changes them, also those that are asked for.
    #[doc(hidden)]
    pub fn change(&mut self, how: impl Fn(Credentials) -> Credentials + Send + Sync + 'static) {
        *self = match std::mem::take(self).0 {
            Source::Given(credentials) => how(credentials).into(),
            Source::Asked(source) => Self(Source::Asked(Arc::new(move || source().map(&how)))),
        };
    }

    /// The credentials to connect with now.
    ///
    /// # Errors
    ///
    /// Why there are none.
    #[doc(hidden)]
    pub fn now(&self) -> Result<Credentials, Refusal> {
        match &self.0 {
            Source::Given(credentials) => Ok(credentials.clone()),
            Source::Asked(source) => source(),
        }
    }
}

impl Default for CredentialSource {
    fn default() -> Self {
        Credentials::default().into()
    }
}

impl From<Credentials> for CredentialSource {
    fn from(credentials: Credentials) -> Self {
        Self(Source::Given(credentials))
    }
}

impl<F, E> From<F> for CredentialSource
where
    F: Fn() -> Result<Credentials, E> + Send + Sync + 'static,
    E: Into<Box<dyn error::Error + Send + Sync>>,
{
    fn from(source: F) -> Self {
        let refusal = |error: E| {
            let error: Box<dyn error::Error + Send + Sync> = error.into();
            Refusal::from(error)
        };
        Self(Source::Asked(Arc::new(move || source().map_err(refusal))))
    }
}

/// Shows nothing secret.
impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Given(credentials) => credentials.fmt(f),
            Source::Asked(_) => f.write_str("asked for"),
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
        source = (|| Ok::<_, String>(Credentials::new().identity("c", "k"))).into();
        source.change(|given| given.password("second"));
        let expected = Credentials::new().identity("c", "k").password("second");
        assert_eq!(source.now().unwrap(), expected);
    }
}
