//! The store of a broker, whichever kind it is.

use std::{fmt, path::Path};

use navlock::{Place, Refusal};
use navlock_broker::{buckets::variable_of_own, settings_files};

use super::{
    etcd::Etcd,
    file::{self, StoreTable},
    given::Given,
    postgres::Postgres,
};

/// By what machines share their locks, and how to speak to it.
#[allow(clippy::large_enum_variant, reason = "a broker has one, so its size does not matter")]
pub(crate) enum Store {
    Etcd(Etcd),
    Postgres(Postgres),
}

impl Store {
    /// Checks the settings of a store, which has this name in this file. What was `given` goes before where the file
    /// says that it is.
    pub(super) fn new(
        given: Option<&Given<'_>>,
        table: &StoreTable,
        of: Option<(&Path, &str)>,
    ) -> Result<Self, Refusal> {
        let of_file = of.map_or_else(String::new, |(file, store)| {
            format!("{}, [stores.{store}]", file.display())
        });
        let file = of.map(|(file, _)| file);
        let is_postgres = given.map_or(table.postgres.is_some(), |given| given.is_postgres);
        let other = if is_postgres { table.etcd.is_some() } else { table.postgres.is_some() };
        if let Some(Given { origin, .. }) = given.filter(|_| other) {
            let what =
                format!("{origin} does not fit the store of {of_file}, which is of another kind");
            return Err(Refusal::new(what));
        }
        // What the table says may be meant for another store than the one that was given.
        table.check(is_postgres).map_err(|what| Refusal::new(format!("{of_file}: {what}")))?;
        Ok(if is_postgres {
            Self::Postgres(Postgres::new(given, table, file, &of_file)?)
        } else {
            Self::Etcd(Etcd::new(given, table, file, &of_file)?)
        })
    }

    /// What this kind of store is called.
    #[cfg(any(feature = "etcd", feature = "postgres"))]
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Etcd(_) => ETCD,
            Self::Postgres(_) => POSTGRES,
        }
    }

    /// Where this setting comes from, for people.
    #[cfg(any(feature = "etcd", feature = "postgres"))]
    pub(crate) fn origin(&self) -> &str {
        match self {
            Self::Etcd(etcd) => &etcd.origin,
            Self::Postgres(postgres) => &postgres.origin,
        }
    }

    /// How far its locks are seen, for people.
    pub(crate) fn reach(&self) -> String {
        match self {
            Self::Etcd(etcd) => {
                format!("{self}, namespace {}", etcd.namespace.as_deref().unwrap_or("navlock"))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(postgres) => {
                format!("{self}, schema {}", postgres.options.schema_name())
            }
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => self.to_string(),
        }
    }
}

/// Where it is, for people.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(etcd) => write!(f, "{ETCD} at {etcd}"),
            #[cfg(feature = "postgres")]
            Self::Postgres(postgres) => write!(f, "{POSTGRES} at {}", postgres.address),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => f.write_str(POSTGRES),
        }
    }
}

const ETCD: &str = "etcd";
const POSTGRES: &str = "PostgreSQL";

/// What the store of the broker at this place is called, as far as a client can tell: the settings are not checked, and
/// the broker may have others.
pub(crate) fn kind_at(place: &Place) -> &'static str {
    let of = |name: &str| {
        let texts = settings_files::all(settings_files::chosen().ok()?.as_deref()).ok()?;
        let files = texts.iter().filter_map(|(path, text)| file::parse(path, text).ok());
        let table = files.into_iter().find_map(|mut file| file.stores.remove(name))?;
        Some(if table.get_ref().postgres.is_some() { POSTGRES } else { ETCD })
    };
    match (place.store(), variable_of_own()) {
        (Some(name), _) => of(name).unwrap_or("the store"),
        (None, Some("NAVLOCK_POSTGRES")) => POSTGRES,
        (None, Some(_)) => ETCD,
        (None, None) => "the store",
    }
}
