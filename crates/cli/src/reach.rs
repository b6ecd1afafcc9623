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

    block_on(navlock_etcd::etcd(etcd.options.clone())).map_err(|error| {
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
    Err(etcd.unusable().into())
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
