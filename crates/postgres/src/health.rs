//! The state of the database, for people who look for what is wrong.

use std::time::{Duration, Instant};

use navlock_core::Error;
use navlock_machines::{
    call_failure::Failure, data::Transaction, key_store::KeyStore as _, load::Turn, thread::runtime,
};
use serde::Deserialize;

use crate::{STORE, connection::Connection, options::PostgresOptions, postgres::Postgres};

/// How often the database is called. The number is odd, so that there is a median.
const ROUNDS: usize = 21;

/// What [`check`] has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The server's release, such as `15.4`.
    pub version: String,
    /// Whether the server is a replica, on which nothing can be locked.
    pub is_replica: bool,
    /// Whether navlock is [set up](crate::init) in the schema of the options.
    pub is_set_up: bool,
    /// Whether this user may use the schema.
    pub may_use: bool,
    /// How long the call takes by which a lock is taken, as the median of several. An error if it cannot be made.
    pub round_trip: Result<Duration, Error>,
    /// How long the locks of a machine are kept after the database has last heard of it.
    pub time_to_live: Duration,
}

/// What the server says of itself.
#[derive(Deserialize)]
struct ServerState {
    version: String,
    is_replica: bool,
    is_set_up: bool,
    may_use: bool,
}

/// Asks the server for its state, and tries whether locks can be taken there.
///
/// This is for people: it takes up to some seconds. It blocks the thread, which must not be one of a tokio runtime.
///
/// # Errors
///
/// [`Error::Unreachable`] if PostgreSQL does not answer, [`Error::Refused`] if the options cannot be used.
pub fn check(options: &PostgresOptions) -> Result<Health, Error> {
    let schema = options.schema_name();
    let text = format!(
        "select jsonb_build_object('version', current_setting('server_version'), 'is_replica', pg_is_in_recovery(), \
         'is_set_up', exists (select from pg_proc p \
         join pg_namespace n on n.oid = p.pronamespace where p.proname = 'hello' and n.nspname = '{schema}'), \
         'may_use', coalesce((select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = '{schema}'), \
         false))"
    );
    let state: ServerState = serde_json::from_str(&ask(options, &text)?)
        .map_err(|error| Error::refused(format!("this is no answer of a PostgreSQL: {error}")))?;
    let ServerState { version, is_replica, is_set_up, may_use } = state;
    let round_trip = runtime(STORE)?.block_on(round_trip(options));
    let time_to_live = options.keeper.times.time_to_live;
    Ok(Health { version, is_replica, is_set_up, may_use, round_trip, time_to_live })
}

/// How many machines use the store: those that have a lease, or had one before a crash. Only whoever has set it up may
/// ask this. Blocks.
///
/// # Errors
///
/// [`Error::Unreachable`] if PostgreSQL does not answer, [`Error::Refused`] if navlock is not set up there, or the user
/// may not ask.
pub fn machines(options: &PostgresOptions) -> Result<usize, Error> {
    let schema = options.schema_name();
    // The function as well, so that a table of somebody else is none of ours.
    let count = ask(
        options,
        &format!(
            "select count(m) from \"{schema}\".hello() left join \"{schema}\".machines m on true"
        ),
    )?;
    count.parse().map_err(|_| Error::refused(format!("{count:?} is no answer of navlock's schema")))
}

/// Asks the server something.
fn ask(options: &PostgresOptions, text: &str) -> Result<String, Error> {
    let connection = Connection::new(options.servers()?, options.schema_name().to_owned());
    let answer = connection.query(text, options.keeper.times.timeout);
    runtime(STORE)?.block_on(answer).map_err(|failure| failure.error(STORE))
}

/// How long a transaction takes that changes nothing, and has its turn among the others.
async fn round_trip(options: &PostgresOptions) -> Result<Duration, Error> {
    let (store, _) = Postgres::connect(options.clone()).await?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let sent = Instant::now();
        let done = store.transact(Transaction::default(), Turn::Passes).await;
        done.map_err(|failure: Failure| failure.error(STORE))?;
        times.push(sent.elapsed());
    }
    times.sort();
    Ok(times[ROUNDS / 2])
}
