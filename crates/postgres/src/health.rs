//! The state of the database, for people who look for what is wrong.

use std::time::{Duration, Instant};

use navlock_core::Error;
use navlock_machines::{
    call_failure::Failure, data::Transaction, key_store::KeyStore as _, load::Turn, thread::runtime,
};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::{
    STORE,
    connection::Connection,
    listening::{Note, listen},
    options::PostgresOptions,
    postgres::Postgres,
};

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
    /// How many sessions the server has, of all programs, and how many it may have.
    pub sessions: (u32, u32),
    /// How long a transaction of another session has been open in this database, as far as this user may know that. It
    /// keeps vacuum from removing dead rows.
    pub oldest_transaction: Duration,
    /// How the calls go by which locks are taken. An error if they cannot be made.
    pub calls: Result<Calls, Error>,
    /// How long the locks of a machine are kept after the database has last heard of it.
    pub time_to_live: Duration,
}

/// How calls go.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Calls {
    /// How long one takes by which a lock is taken, as the median of several.
    pub round_trip: Duration,
    /// Whether notifications arrive. Through a pooler in transaction mode they do not, and machines have to ask.
    pub are_notified: bool,
}

/// What the server says of itself.
#[derive(Deserialize)]
struct ServerState {
    version: String,
    is_replica: bool,
    is_set_up: bool,
    may_use: bool,
    sessions: u32,
    most_sessions: u32,
    /// In seconds.
    oldest_transaction: f64,
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
         false), \
         'sessions', (select sum(numbackends) from pg_stat_database), \
         'most_sessions', current_setting('max_connections')::int, \
         'oldest_transaction', coalesce((select extract(epoch from max(now() - xact_start)) from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid()), 0))"
    );
    let state: ServerState = serde_json::from_str(&ask(options, &text)?)
        .map_err(|error| Error::refused(format!("this is no answer of a PostgreSQL: {error}")))?;
    Ok(Health {
        version: state.version,
        is_replica: state.is_replica,
        is_set_up: state.is_set_up,
        may_use: state.may_use,
        sessions: (state.sessions, state.most_sessions),
        oldest_transaction: Duration::try_from_secs_f64(state.oldest_transaction)
            .unwrap_or_default(),
        calls: runtime(STORE)?.block_on(calls(options)),
        time_to_live: options.keeper.times.time_to_live,
    })
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

/// Makes transactions that change nothing, and have their turn among the others, and listens.
async fn calls(options: &PostgresOptions) -> Result<Calls, Error> {
    let (store, _) = Postgres::connect(options.clone()).await?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let sent = Instant::now();
        let done = store.transact(Transaction::default(), Turn::Passes).await;
        done.map_err(|failure: Failure| failure.error(STORE))?;
        times.push(sent.elapsed());
    }
    times.sort();
    let (notes, mut heard) = mpsc::unbounded_channel();
    let listening = tokio::spawn(listen(store, notes));
    let are_notified = matches!(heard.recv().await, Some(Note::Listening(true)));
    listening.abort();
    Ok(Calls { round_trip: times[ROUNDS / 2], are_notified })
}
