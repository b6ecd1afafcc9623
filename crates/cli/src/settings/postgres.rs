//! The PostgreSQL of a broker: the settings for it, in a form that can be used.

use std::path::Path;

use navlock::Refusal;

#[cfg(not(feature = "postgres"))]
use super::unable::unable;
#[cfg(feature = "postgres")]
use super::{
    credential_files::CredentialFiles,
    shared::{Times, times},
};
use super::{error::of_value, file::StoreTable, given::Given};

/// A PostgreSQL, and how to speak to it.
pub(crate) struct Postgres {
    /// Where this setting comes from, for people: an option, a variable, or a file.
    pub(crate) origin: String,
    /// Where it is, for people.
    #[cfg(feature = "postgres")]
    pub(crate) address: String,
    #[cfg(feature = "postgres")]
    pub(crate) options: navlock_postgres::PostgresOptions,
}

impl Postgres {
    /// Checks the settings of a PostgreSQL. A URL that was `given` replaces that of the store. All other settings are
    /// those of the store in this file. `of_file` names both for people.
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "nothing reads it"))]
    pub(super) fn new(
        given: Option<&Given<'_>>,
        store: &StoreTable,
        file: Option<&Path>,
        of_file: &str,
    ) -> Result<Self, Refusal> {
        let origin = given.map_or(of_file, |given| given.origin).to_owned();
        let url = given.map(|given| given.text).or(store.postgres.as_deref());
        let what =
            "no URL of a PostgreSQL; write postgres = \"postgres://user@host/database\" there";
        let url = url.ok_or_else(|| of_value(&origin, what))?;
        #[cfg(not(feature = "postgres"))]
        return Ok(Self { origin });
        #[cfg(feature = "postgres")]
        {
            let own = given.is_none().then_some(store);
            let options = options(url, own, store, file, of_file)?;
            let address = options.address().map_err(|what| of_value(&origin, what))?;
            options.check().map_err(|what| of_value(&origin, what))?;
            Ok(Self { origin, address, options })
        }
    }

    /// The error for settings that name a PostgreSQL, in a program that was built without it.
    #[cfg(not(feature = "postgres"))]
    pub(crate) fn unusable(&self) -> Refusal {
        unable(&self.origin, "a PostgreSQL", "it", "postgres")
    }
}

/// The options of connections to this database, by the settings of a store in this file. What belongs to the URL of
/// the store is taken if that one is used, and `own` has it.
#[cfg(feature = "postgres")]
fn options(
    url: &str,
    own: Option<&StoreTable>,
    store: &StoreTable,
    file: Option<&Path>,
    of_file: &str,
) -> Result<navlock_postgres::PostgresOptions, Refusal> {
    let mut options = navlock_postgres::PostgresOptions::new(url);
    if let Some(url) = own.and_then(|store| store.listen_url.as_ref()) {
        options = options.listen_url(url);
    }
    if let Some(schema) = &store.schema {
        options = options.schema(schema);
    }
    // The file is read by all who use the store. An error of the URL is told with the address.
    if own.is_some() && options.has_password().is_ok_and(|has| has) {
        let what = "a URL with a password; write the password into a password-file";
        return Err(of_value(of_file, what));
    }
    // The password is that of the store's own user. Whom the store trusts holds for any URL.
    let files = CredentialFiles::new(store, file, of_file)?;
    let files = if own.is_some() { files } else { files.without_password() };
    options = options.credentials(files.source()?);
    let Times { time_to_live, margin } = times(store).map_err(|what| of_value(of_file, &what))?;
    if let Some(time) = time_to_live {
        options = options.time_to_live(time);
    }
    if let Some(margin) = margin {
        options = options.margin(margin);
    }
    if let Some(taken) = store.keep_names {
        options = options.keep_names(taken);
    }
    Ok(options)
}
