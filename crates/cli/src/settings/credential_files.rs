//! The files of a store's credentials, which the settings name.

use std::path::{Path, PathBuf};

use navlock::Refusal;
#[cfg(feature = "etcd")]
use navlock_etcd::Credentials;
#[cfg(not(feature = "etcd"))]
use navlock_postgres::Credentials;

use super::{error::of_value, file::StoreTable, named_file};

/// The files that are read again for each connection to the store, because their contents may be valid
/// for a short time only.
pub(super) struct CredentialFiles {
    /// The file of settings, for people.
    of_file: String,
    user: Option<String>,
    password: Option<PathBuf>,
    certificate_authority: Option<PathBuf>,
    /// The certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl CredentialFiles {
    /// The files that this store names, which is in this file. `of_file` names both for people.
    ///
    /// # Errors
    ///
    /// Which file is missing.
    pub(super) fn new(
        store: &StoreTable,
        file: Option<&Path>,
        of_file: &str,
    ) -> Result<Self, Refusal> {
        let wrong = |what: &str| of_value(of_file, what);
        // A path in a file is relative to the folder of that file.
        let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
        let path = |path: &PathBuf| folder.join(path);
        let identity = match (&store.certificate, &store.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((path(certificate), path(key))),
            (Some(_), None) => return Err(wrong("there is a certificate, but no key; add one")),
            (None, Some(_)) => return Err(wrong("there is a key, but no certificate; add one")),
        };
        Ok(Self {
            of_file: of_file.to_owned(),
            user: store.user.clone(),
            password: store.password_file.as_ref().map(path),
            certificate_authority: store.certificate_authority.as_ref().map(path),
            identity,
        })
    }

    /// Whether they need TLS.
    #[cfg(feature = "etcd")]
    pub(super) fn are_for_tls(&self) -> bool {
        self.certificate_authority.is_some() || self.identity.is_some()
    }

    #[cfg(feature = "postgres")]
    pub(super) fn without_password(self) -> Self {
        Self { password: None, ..self }
    }

    /// What reads them. They are read now as well, so that errors in them are reported now, and not when a file is
    /// needed.
    ///
    /// # Errors
    ///
    /// Which file is wrong, and what is wrong with it.
    pub(super) fn source(
        self,
    ) -> Result<impl Fn() -> Result<Credentials, Refusal> + Send + Sync + 'static, Refusal> {
        self.read()?;
        Ok(move || self.read())
    }

    fn read(&self) -> Result<Credentials, Refusal> {
        let failed = |error: Refusal| {
            let what = format!("{}: {}", self.of_file, error.message());
            error.with_message(what)
        };
        let mut credentials = Credentials::new();
        if let Some(file) = &self.password {
            let password = named_file::password(file).map_err(failed)?;
            credentials = match &self.user {
                Some(user) => credentials.user(user, password),
                None => credentials.password(password),
            };
        }
        let public = |file: &PathBuf| named_file::read(file).map_err(failed);
        let secret = |file: &PathBuf| named_file::read_secret(file).map_err(failed);
        if let Some(file) = &self.certificate_authority {
            credentials = credentials.certificate_authority(public(file)?);
        }
        if let Some((certificate, key)) = &self.identity {
            credentials = credentials.identity(public(certificate)?, secret(key)?);
        }
        Ok(credentials)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_password_is_the_line_of_a_file_beside() {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("secret");
        fs::write(&password, "s3cret\n").unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        let store = StoreTable {
            user: Some("u".to_owned()),
            password_file: Some("secret".into()),
            ..StoreTable::default()
        };
        let file = folder.path().join("c.toml");
        let read = CredentialFiles::new(&store, Some(&file), "c.toml").unwrap().source().unwrap();
        assert!(read().unwrap() == Credentials::new().user("u", "s3cret"));
        // The password may be replaced.
        fs::write(&password, "another").unwrap();
        assert!(read().unwrap() == Credentials::new().user("u", "another"));
    }
}
