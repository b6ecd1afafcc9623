//! What is set up in a database before navlock can use it.

use std::{panic::resume_unwind, thread};

use navlock_core::Error;
use navlock_machines::{call_failure::Failure, keys::FORMAT, thread::runtime};

use crate::{STORE, connection::Connection, options::PostgresOptions};

/// The version of `schema.sql`.
pub(crate) const VERSION: i64 = 2;

/// The SQL that sets navlock up in this schema, as one transaction.
///
/// Whoever runs it owns the tables, and the functions run with its rights. Everybody who may use the schema may
/// lock.
#[must_use]
pub fn schema(name: &str) -> String {
    let statements = include_str!("schema.sql")
        .replace("@schema@", name)
        .replace("@version@", &VERSION.to_string())
        .replace("@format@", FORMAT);
    format!("begin;\n{statements}\ncommit;\n")
}

/// Sets navlock up in the database and the schema of these options. Blocks.
///
/// # Errors
///
/// [`Error::Unreachable`] if PostgreSQL does not answer, [`Error::Refused`] if it is set up already, or the user
/// may not do that.
pub fn init(options: &PostgresOptions) -> Result<(), Error> {
    run(options, &schema(options.schema_name()))
}

/// Takes away what [`init`] has set up, with all locks. Blocks.
///
/// # Errors
///
/// [`Error::Unreachable`] if PostgreSQL does not answer, [`Error::Refused`] if the user may not do that.
pub fn remove(options: &PostgresOptions) -> Result<(), Error> {
    run(options, &format!("drop schema if exists \"{}\" cascade", options.schema_name()))
}

fn run(options: &PostgresOptions, text: &str) -> Result<(), Error> {
    let connection = Connection::new(options.servers()?, options.schema_name().to_owned());
    let time = options.keeper.times.timeout;
    // The caller may be on a runtime of its own, which takes no other one.
    let done = thread::scope(|scope| {
        let run = || Ok::<_, Error>(runtime(STORE)?.block_on(connection.query(text, time)));
        scope.spawn(run).join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    done?.map(drop).map_err(|failure: Failure| failure.error(STORE))
}
