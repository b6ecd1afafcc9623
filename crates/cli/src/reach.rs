//! Where a broker's locks are seen: on this machine, or on all machines that use one store.

use navlock::{Error, Place, Reason, UserAgent};

use crate::settings::Store;

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

/// The user agent of a broker that uses this store.
///
/// # Errors
///
/// Why there is no user agent: the store does not answer or refuses, or this program cannot speak to it. The
/// error of the layer beneath stays the source.
pub(crate) fn connect(store: &Store) -> Result<UserAgent, Error> {
    #[cfg(any(feature = "etcd", feature = "postgres"))]
    use navlock::blocking::block_on;

    match store {
        #[cfg(feature = "etcd")]
        Store::Etcd(etcd) => block_on(navlock_etcd::etcd(etcd.options.clone()))
            .map_err(|error| with_origin(error, store)),
        #[cfg(not(feature = "etcd"))]
        Store::Etcd(etcd) => Err(etcd.unusable().into()),
        #[cfg(feature = "postgres")]
        Store::Postgres(postgres) => block_on(navlock_postgres::postgres(postgres.options.clone()))
            .map_err(|error| with_origin(error, store)),
        #[cfg(not(feature = "postgres"))]
        Store::Postgres(postgres) => Err(postgres.unusable().into()),
    }
}

/// The error, with where the store is named.
#[cfg(any(feature = "etcd", feature = "postgres"))]
fn with_origin(error: Error, store: &Store) -> Error {
    let (kind, origin) = (store.kind(), store.origin());
    let message =
        format!("{error} (it is the {kind} of {origin}; 'navlock doctor' says what is wrong)");
    match error {
        Error::Unreachable(why) => why.with_message(message).into(),
        Error::Refused(why) => why.with_message(message).into(),
        error => error,
    }
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
        let args = SettingsArgs { etcd: None, postgres: None, config: Some(file) };
        let store = Settings::load(&args, Some("main")).unwrap().store.unwrap();
        fs::remove_file(&password).unwrap();
        let error = connect(&store).err().unwrap();
        assert!(error.to_string().contains("'navlock doctor' says what is wrong"), "{error}");
        let system = iter::successors(error.source(), |&error| error.source())
            .find_map(|error| error.downcast_ref::<io::Error>());
        assert_eq!(system.map(io::Error::kind), Some(io::ErrorKind::NotFound), "{error:?}");
    }
}
