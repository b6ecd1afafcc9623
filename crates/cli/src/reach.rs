//! Where a broker's locks are seen: on this machine, or on all machines that use one etcd.

use navlock::{Error, Place, Reason, UserAgent};

use crate::settings::Etcd;

/// Why locks may be held although there is no broker at this place. `None` if none is held then.
pub(crate) fn unseen(place: &Place) -> Option<String> {
    if place.is_of_system() {
        // Its clients go on, and wait until somebody starts it.
        return Some(Reason::NoSystemBroker.to_string());
    }
    let store = place.store()?;
    Some(format!(
        "no broker of the store {store} runs here, so what lives there is not shown: 'navlock query --store {store} \
         --bucket NAME' starts it"
    ))
}

/// The user agent of a broker that uses this etcd.
///
/// # Errors
///
/// Why there is no user agent: etcd does not answer or refuses, or this program cannot speak to it. The
/// error of the layer beneath stays the source.
#[cfg(feature = "etcd")]
pub(crate) fn connect(etcd: &Etcd) -> Result<UserAgent, Error> {
    use navlock::blocking::block_on;

    block_on(navlock_etcd::etcd(options(etcd)?)).map_err(|error| {
        let origin = &etcd.origin;
        let message =
            format!("{error} (it is the etcd of {origin}; 'navlock doctor' says what is wrong)");
        match error {
            Error::Unreachable(why) => why.with_message(message).into(),
            Error::Refused(why) => why.with_message(message).into(),
            error => error,
        }
    })
}

#[cfg(not(feature = "etcd"))]
pub(crate) fn connect(etcd: &Etcd) -> Result<UserAgent, Error> {
    Err(without_etcd(etcd))
}

/// The error for settings that name an etcd, in a program that was built without etcd.
#[cfg(not(feature = "etcd"))]
pub(crate) fn without_etcd(etcd: &Etcd) -> Error {
    unable(etcd, "etcd", "etcd")
}

/// The options of the connection.
#[cfg(feature = "etcd")]
pub(crate) fn options(etcd: &Etcd) -> Result<navlock_etcd::EtcdOptions, Error> {
    let is_https = |endpoint: &String| endpoint.starts_with("https://");
    if cfg!(not(feature = "etcd-tls")) && etcd.endpoints.iter().any(is_https) {
        return Err(unable(etcd, "TLS, which https:// needs", "etcd-tls"));
    }
    let mut options = navlock_etcd::EtcdOptions::new(etcd.endpoints.iter().cloned());
    if let Some(follows) = etcd.follow_members {
        options = options.follow_members(follows);
    }
    if let Some(namespace) = &etcd.namespace {
        options = options.namespace(namespace);
    }
    let files = etcd.files.clone();
    options = options.credentials(move || files.read().map(credentials));
    if let Some(time) = etcd.time_to_live {
        options = options.time_to_live(time);
    }
    if let Some(margin) = etcd.margin {
        options = options.margin(margin);
    }
    if let Some(taken) = etcd.keep_names {
        options = options.keep_names(taken);
    }
    #[cfg(feature = "etcd-tls")]
    if let Some(name) = &etcd.server_name {
        options = options.server_name(name);
    }
    Ok(options)
}

/// The contents of the files of the settings, in the form that etcd's client takes.
#[cfg(feature = "etcd")]
fn credentials(secrets: crate::settings::Secrets) -> navlock_etcd::Credentials {
    let mut credentials = navlock_etcd::Credentials::new();
    if let Some((name, password)) = secrets.user {
        credentials = credentials.user(name, password);
    }
    #[cfg(feature = "etcd-tls")]
    {
        if let Some(pem) = secrets.certificate_authority {
            credentials = credentials.certificate_authority(pem);
        }
        if let Some((certificate, key)) = secrets.identity {
            credentials = credentials.identity(certificate, key);
        }
    }
    credentials
}

/// The error for settings that need a feature that this program was built without.
fn unable(etcd: &Etcd, without: &str, feature: &str) -> Error {
    Error::refused(format!(
        "{} names the etcd at {etcd}, and this navlock was built without {without}; build it with \
         'cargo install --path crates/cli --features {feature}'",
        etcd.origin
    ))
}

#[cfg(all(test, unix, feature = "etcd"))]
mod tests {
    use std::{error::Error as _, fs, io, iter, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::{args::SettingsArgs, settings::Settings};

    #[test]
    fn the_error_of_the_system_is_a_source_of_the_error_that_names_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let (file, password) = (folder.path().join("c.toml"), folder.path().join("secret"));
        let etcd =
            "[stores.main]\netcd = [\"127.0.0.1:1\"]\nuser = \"u\"\npassword-file = \"secret\"\n";
        fs::write(&file, etcd).unwrap();
        fs::write(&password, "s3cret\n").unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        let args = SettingsArgs { etcd: None, config: Some(file) };
        let etcd = Settings::load(&args, Some("main")).unwrap().etcd.unwrap();
        fs::remove_file(&password).unwrap();
        let error = connect(&etcd).err().unwrap();
        assert!(error.to_string().contains("'navlock doctor' says what is wrong"), "{error}");
        let system = iter::successors(error.source(), |&error| error.source())
            .find_map(|error| error.downcast_ref::<io::Error>());
        assert_eq!(system.map(io::Error::kind), Some(io::ErrorKind::NotFound), "{error:?}");
    }
}
