//! The places of brokers by bucket: with whose broker a bucket lives, and where the broker of a store is.

use std::ffi::OsString;

use super::{
    Place, PlaceError,
    directories::{OF_STORE, STORE_VARIABLE, without_store},
};
use crate::{
    buckets::{Buckets, Home, Line, is_store},
    settings_files,
};

impl Place {
    /// The place that `NAVLOCK_SOCKET` names, or else that of the machine's broker if `NAVLOCK_SYSTEM` is set,
    /// or else that of the user's own broker: the one that the key `socket` names in the user's settings or in
    /// `/etc/navlock.toml`, or else the place where all processes of this user meet. If `NAVLOCK_STORE` names a
    /// store, it is the place of the broker of that store beside it.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Settings`] if there are settings that cannot be used. If this program ignored
    /// them, it might use another place than the other programs, and would not meet them.
    pub fn from_env() -> Result<Self, PlaceError> {
        Self::with_buckets().map(|(place, _)| place)
    }

    /// The place of the broker that this bucket lives with, by the settings. Where the environment names a broker, or
    /// the settings no other, it is the place [from the environment](Self::from_env).
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn of_bucket(bucket: &str) -> Result<Self, PlaceError> {
        let (own, buckets) = Self::with_buckets()?;
        Ok(buckets.place_of(bucket, &own))
    }

    /// The place from the environment, and which buckets live elsewhere. None does if the environment names one
    /// broker for all of them.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    #[doc(hidden)]
    pub fn with_buckets() -> Result<(Self, Buckets), PlaceError> {
        if Self::variable("NAVLOCK_SOCKET").is_none() && Self::names_system() {
            return Ok((Self::of_system(), Buckets::default()));
        }
        let (own, buckets) = Self::own_with_buckets()?;
        let Some(store) = Self::variable(STORE_VARIABLE) else { return Ok((own, buckets)) };
        let store = store.to_string_lossy();
        if !is_store(&store) {
            return Err(PlaceError::NotAStore(store.into_owned()));
        }
        Ok((own.of_store(&store), Buckets::default()))
    }

    /// The place of the user's broker of this store.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn of_users_store(store: &str) -> Result<Self, PlaceError> {
        Self::own_with_buckets().map(|(own, _)| own.of_store(store))
    }

    fn own_with_buckets() -> Result<(Self, Buckets), PlaceError> {
        if let Some(socket) = Self::variable("NAVLOCK_SOCKET") {
            return Ok((Self::at(socket), Buckets::default()));
        }
        let (chosen, buckets) = settings_files::for_clients().map_err(PlaceError::Settings)?;
        Ok((chosen.map_or_else(Self::of_user, Self::at), buckets))
    }

    /// The value of a variable. An empty one counts as unset.
    fn variable(name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    /// The place of the user's broker of a store, if the user's own broker, or that of another store, is at this place.
    #[must_use]
    pub fn of_store(&self, store: &str) -> Self {
        let own = self.own().socket;
        let mut name = own.file_name().unwrap_or_default().to_owned();
        name.push(OF_STORE);
        name.push(store);
        Self { socket: own.with_file_name(name), kind: self.kind }
    }

    /// The store whose broker is at this place. `None` if it is no store's.
    pub fn store(&self) -> Option<&str> {
        without_store(&self.socket).map(|(_, store)| store)
    }

    /// The place of the user's own broker, if this is one of a store's.
    fn own(&self) -> Self {
        let own = without_store(&self.socket).map(|(own, _)| own);
        Self { socket: own.unwrap_or_else(|| self.socket.clone()), kind: self.kind }
    }
}

impl Buckets {
    /// The place of the broker that this bucket lives with, if the user's own broker is at this place.
    pub fn place_of(&self, bucket: &str, own: &Place) -> Place {
        self.line_of(bucket).map_or_else(|| own.clone(), |line| line.place(own))
    }

    /// The places of all brokers that buckets live with, if the user's own broker is at this place.
    pub fn places(&self, own: &Place) -> Vec<Place> {
        let mut places = vec![own.clone()];
        for place in self.lines().map(|line| line.place(own)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }
}

impl Line {
    /// The place of that broker, if the user's own broker is at this place.
    pub fn place(&self, own: &Place) -> Place {
        match self.home() {
            Home::Own => own.clone(),
            Home::System => Place::of_system(),
            Home::Store(store) => own.of_store(store),
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings_files::buckets_in;

    #[test]
    fn the_broker_of_a_store_is_beside_the_users_own() {
        let own = Place::at("/own/sock");
        let store = own.of_store("main");
        assert_eq!((store.store(), own.store()), (Some("main"), None));
        assert_eq!(store.of_store("other"), own.of_store("other"));
        for path in ["/own/sock.store-main", "/own/../own/sock.store-main"] {
            assert_eq!(Place::at(path).store(), Some("main"), "{path}");
        }
        assert_eq!(Place::at(store.socket()), store);
        assert_eq!(store.log(), Path::new("/own/sock.store-main.log"));
        let usual = Place::of_user().of_store("main");
        assert_eq!(Place::at(usual.socket()), usual);
        assert_eq!(usual.log().file_name().unwrap(), "sock.store-main.log");
        for none in ["/own/.store-main", "/own/a.store-A", "/own/a.store-b.store-c"] {
            assert_eq!(Place::at(none).store(), None, "{none}");
        }
    }

    #[test]
    fn all_brokers_that_buckets_live_with_are_known() {
        let own = Place::at("/own/sock");
        let text = "[buckets.a]\nsystem = true\n[buckets.b]\n[buckets.'c*']\nstore = 'main'\n\
                    [buckets.d]\nstore = 'main'\n[stores.main]\n";
        let buckets = buckets_in(text).unwrap();
        let places = [("a", Place::of_system()), ("b", own.clone()), ("cd", own.of_store("main"))];
        for (bucket, place) in &places {
            assert_eq!(buckets.place_of(bucket, &own), *place);
        }
        let all = buckets.places(&own);
        assert!(all.len() == 3 && places.iter().all(|(_, place)| all.contains(place)), "{all:?}");
    }
}
