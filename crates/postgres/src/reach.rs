//! The reach of many machines, by one PostgreSQL.

use navlock_core::{Error, UserAgent};
use navlock_machines::reach::MachinesReach;

use crate::{options::PostgresOptions, postgres::Postgres};

/// The reach of many machines, by one connection to a PostgreSQL.
pub type PostgresReach = MachinesReach<Postgres>;

/// A user agent whose locks are seen by all who use this database.
///
/// Each call makes a connection of its own, with a thread of its own. Works on any executor. The connection
/// ends with the last handle of the user agent. If the process ends before that, the locks and requests of
/// its agents, and the names that it [owns](PostgresOptions::keep_names), stay until its lease is over. No broker
/// is needed.
///
/// # Errors
///
/// [`Error::Unreachable`] if PostgreSQL does not answer, [`Error::Refused`] if the options cannot be used, or navlock
/// is not [set up](crate::init) in the database.
pub async fn postgres(options: PostgresOptions) -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(PostgresReach::connect(options).await?))
}
