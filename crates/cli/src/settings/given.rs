//! Where a store is, as an option or a variable says it.

use std::env;

use navlock::Refusal;

use crate::args::SettingsArgs;

/// What an option or a variable says.
pub(super) struct Given<'a> {
    /// The endpoints of an etcd, or the URL of a PostgreSQL.
    pub(super) text: &'a str,
    pub(super) is_postgres: bool,
    pub(super) is_option: bool,
    /// The option or the variable, for people.
    pub(super) origin: &'static str,
}

impl<'a> Given<'a> {
    /// What the options say or else, for the user's own broker, the variables.
    ///
    /// # Errors
    ///
    /// If two say different things.
    pub(super) fn of(args: &'a SettingsArgs, is_own: bool) -> Result<Option<Self>, Refusal> {
        let etcd = Self::one(args.etcd.as_deref(), false, "--etcd", "NAVLOCK_ETCD");
        let postgres = Self::one(args.postgres.as_deref(), true, "--postgres", "NAVLOCK_POSTGRES");
        let counts = |given: &Self| given.is_option || is_own;
        match (etcd.filter(counts), postgres.filter(counts)) {
            (Some(etcd), Some(postgres)) if etcd.is_option == postgres.is_option => {
                let (one, other) = (etcd.origin, postgres.origin);
                Err(Refusal::new(format!("{one} and {other} name two stores; leave out one")))
            }
            (Some(etcd), Some(_)) if etcd.is_option => Ok(Some(etcd)),
            (etcd, postgres) => Ok(postgres.or(etcd)),
        }
    }

    /// The parser of arguments does not say which of the two the text comes from.
    fn one(
        text: Option<&'a str>,
        is_postgres: bool,
        option: &'static str,
        variable: &'static str,
    ) -> Option<Self> {
        let text = text.filter(|text| !text.is_empty())?;
        let is_option = env::var_os(variable).is_none_or(|value| value != text);
        let origin = if is_option { option } else { variable };
        Some(Self { text, is_postgres, is_option, origin })
    }
}
