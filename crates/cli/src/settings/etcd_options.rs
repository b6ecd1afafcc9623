//! How to speak to an etcd: the settings of a store, in the form that etcd's client takes.

use std::path::{Path, PathBuf};

use navlock::Refusal;
use navlock_etcd::{Credentials, EtcdOptions};

use super::{
    endpoints::is_https,
    error::of_value,
    file::StoreTable,
    named_file,
    shared::{Times, times},
};

/// The options of connections to these endpoints, by the settings of a store in this file. `of_file` names both for
/// people.
pub(super) fn options(
    endpoints: &[String],
    store: &StoreTable,
    file: Option<&Path>,
    of_file: &str,
) -> Result<EtcdOptions, Refusal> {
    let wrong = |what: &str| of_value(of_file, what);
    // A path in a file is relative to the folder of that file.
    let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
    let path = |path: &PathBuf| folder.join(path);
    let user = match (&store.user, &store.password_file) {
        (None, None) => None,
        (Some(user), Some(file)) => Some((user.clone(), path(file))),
        (Some(_), None) => return Err(wrong("there is a user, but no password-file; add one")),
        (None, Some(_)) => return Err(wrong("there is a password-file, but no user; add one")),
    };
    let identity = match (&store.certificate, &store.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((path(certificate), path(key))),
        (Some(_), None) => return Err(wrong("there is a certificate, but no key; add one")),
        (None, Some(_)) => return Err(wrong("there is a key, but no certificate; add one")),
    };
    let certificate_authority = store.certificate_authority.as_ref().map(path);
    let has_tls =
        certificate_authority.is_some() || identity.is_some() || store.server_name.is_some();
    if has_tls && !endpoints.iter().any(|one| is_https(one)) {
        return Err(wrong("there are settings for TLS, but no endpoint begins with https://"));
    }
    let files = Files {
        of_file: of_file.to_owned(),
        user,
        #[cfg(feature = "etcd-tls")]
        certificate_authority,
        #[cfg(feature = "etcd-tls")]
        identity,
    };
    // The files are read now, so that errors in them are reported now, and not when a file is
    // needed.
    files.read()?;
    let mut options = EtcdOptions::new(endpoints.iter().cloned()).credentials(move || files.read());
    let Times { time_to_live, margin } = times(store).map_err(|what| wrong(&what))?;
    if let Some(time) = time_to_live {
        options = options.time_to_live(time);
    }
    if let Some(margin) = margin {
        options = options.margin(margin);
    }
    if let Some(follows) = store.follow_members {
        options = options.follow_members(follows);
    }
    if let Some(namespace) = &store.namespace {
        options = options.namespace(namespace);
    }
    if let Some(taken) = store.keep_names {
        options = options.keep_names(taken);
    }
    #[cfg(feature = "etcd-tls")]
    if let Some(name) = &store.server_name {
        options = options.server_name(name);
    }
    Ok(options)
}

/// The files that are read again for each connection to etcd, because their contents may be valid
/// for a short time only.
struct Files {
    /// The file of settings, for people.
    of_file: String,
    /// A name, and the file of the password.
    user: Option<(String, PathBuf)>,
    #[cfg(feature = "etcd-tls")]
    certificate_authority: Option<PathBuf>,
    /// The certificate and its key.
    #[cfg(feature = "etcd-tls")]
    identity: Option<(PathBuf, PathBuf)>,
}

impl Files {
    /// # Errors
    ///
    /// Which file is wrong, and what is wrong with it.
    fn read(&self) -> Result<Credentials, Refusal> {
        let failed = |error: Refusal| {
            let what = format!("{}: {}", self.of_file, error.message());
            error.with_message(what)
        };
        let mut credentials = Credentials::new();
        if let Some((user, file)) = &self.user {
            let password = named_file::password(file).map_err(failed)?;
            credentials = credentials.user(user, password);
        }
        #[cfg(feature = "etcd-tls")]
        {
            let public = |file: &PathBuf| named_file::read(file).map_err(failed);
            let secret = |file: &PathBuf| named_file::read_secret(file).map_err(failed);
            if let Some(file) = &self.certificate_authority {
                credentials = credentials.certificate_authority(public(file)?);
            }
            if let Some((certificate, key)) = &self.identity {
                credentials = credentials.identity(public(certificate)?, secret(key)?);
            }
        }
        Ok(credentials)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
