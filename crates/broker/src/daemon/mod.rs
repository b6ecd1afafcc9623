//! The daemon: an adapter from a socket to a user agent.
//!
//! The daemon keeps no locks of its own: its clients get the locks of the user agent, with the user
//! agent's reach. The daemon does keep the state of its clients (`state`), and the recovery of
//! their locks from a daemon that was killed (`recovery`).

mod ancestors;
mod answers;
mod awaited;
mod claims;
mod client_record;
mod connected;
mod consistent;
mod counts;
mod cycles;
mod daemon_error;
mod deadlocks;
mod delegations;
mod dies_of_panics;
mod directory;
mod elsewhere;
mod files_of_user;
mod guest_files;
mod guests;
mod held_notes;
mod inbox;
mod inspection;
mod leases;
mod leaving;
mod listener;
mod listening;
mod log;
mod lookers;
mod looking;
mod map;
mod maps;
mod new_connection;
mod next_turn;
mod options;
mod orphan;
mod orphans;
mod outcome;
mod own_leases;
mod peer_check;
mod picture;
mod place_guard;
mod place_lock;
mod process;
mod reclaim;
mod recovery;
mod requests;
mod rights;
mod self_report;
mod session;
mod session_ends;
mod shared_client;
mod sleepers;
mod state;
mod stealing;
mod stream;
mod takeover;
mod tasks;
mod telling;
mod term_messages;
mod timers;
mod tokens;
mod turns;

use std::{error::Error, fs, future::pending, io, sync::Arc, time::Duration};

use navlock_core::{FencingToken, UserAgent, host::MemoryReach};
use navlock_platform::socket::Stream;

pub(crate) use self::options::RECOVERY_TIME;
use self::{
    awaited::Awaited,
    delegations::Delegations,
    dies_of_panics::DiesOfPanics,
    listener::serve,
    listening::{Listening, listen, take_over},
    place_guard::PlaceGuard,
    state::Daemon,
    timers::sleep,
    tokens::Tokens,
    turns::Turns,
};
pub use self::{
    daemon_error::DaemonError,
    log::Log,
    options::{Limits, Options},
};
pub use crate::spawn::{READY_LINE, WAITS_FOR};
use crate::{
    LOGS, Place,
    client_files::{ClientFiles, Found},
};

/// How often the daemon checks that the bound of fencing tokens is far enough ahead.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A user agent for a daemon that keeps the locks itself. Its fencing tokens begin with `first`.
pub fn user_agent(first: FencingToken) -> UserAgent {
    // One thread takes the turns.
    UserAgent::with_memory(MemoryReach::with_first_token(first).with_shards(1))
}

/// Runs a daemon at `place` until it has had no client for long enough, and calls `ready` once the
/// daemon listens. `user_agent` is given a fencing token that is larger than all tokens that
/// earlier daemons gave at this place. If `user_agent` fails, the text of its error is for people.
///
/// Blocks the thread. When this returns, all connections
/// have ended. The locks of clients that were still connected are not released: the clients claim
/// them from the next daemon. What belongs to these clients stays open until the process ends, which should be soon. A
/// panic ends the process at once.
///
/// # Errors
///
/// If the place cannot be used, if another daemon has it, or if there is no user agent.
pub fn run(
    place: &Place,
    user_agent: impl FnOnce(FencingToken) -> Result<UserAgent, Box<dyn Error + Send + Sync>>,
    options: &Options,
    ready: impl FnOnce(),
) -> Result<(), DaemonError> {
    match options.group {
        Some(group) => place.prepare_system(group)?,
        None => place.prepare()?,
    }
    let failed = io_error(place);
    let mut place_guard = PlaceGuard::take(place, options.state.as_deref(), options.group)?;
    let files = ClientFiles::of(place);
    // This comes before the files of the dead are removed.
    let last = maps::last_token(&files);
    let mut tokens = Tokens::begin(place.tokens(), options.state.as_deref(), last);
    // This comes before anybody can connect, because a client that registers from here on does not
    // belong to an earlier daemon.
    let found = files.find().map_err(failed)?;
    let user_agent = user_agent(tokens.first()).map_err(DaemonError::Reach)?;
    let mut options = options.clone();
    let complaint = tokens.complaint();
    let detail = complaint.clone().map(|why| ("fencing tokens".to_owned(), why));
    options.details.extend(detail);
    let options = &options;
    // What is another user's memory is not mapped.
    let delegations = options.group.is_none().then(|| Delegations::new(tokens.epoch()));
    let daemon = Daemon::new(user_agent, options, files, &found, delegations);
    let daemon = Arc::new(daemon);
    let turns = Arc::new(Turns::new(Arc::clone(&daemon)).map_err(failed)?);
    let dies_of_panics = DiesOfPanics;
    let ended = turns.take_beside(async {
        let listening = listen_at(place, options, &mut place_guard)?;
        ready();
        // FAST: this comes after `ready`, so that a client that waits for the daemon does not wait
        // for it.
        log_start(place, options, complaint.as_deref());
        let has_place =
            serve_until_end(&turns, &listening, found, options, &mut place_guard, &mut tokens)
                .await;
        // The socket's name is removed first. From here on, clients start a new daemon, which waits
        // for our lock. A client that has connected and was not accepted sees the stream end before
        // any welcome, and tries again.
        if has_place && place_guard.has_socket() {
            remove_socket(place)?;
        }
        Ok(has_place)
    });
    drop(dies_of_panics);
    // No file comes into a place that is another broker's, or is being removed. There the promise for
    // brokers that are killed holds.
    if !matches!(ended, Ok(false)) {
        tokens.end();
        tracing::info!(target: LOGS, clients = daemon.status().numbers.clients, "the broker ends");
    }
    // Clients that are still connected claim their locks from the next daemon, as if we had been
    // killed.
    let notes = daemon.leave_behind();
    turns.end();
    drop(turns);
    // This drops the user agent, which then gives up its own leases. If we are killed before that, the next
    // daemon finds the notes.
    drop(daemon);
    if let Some(notes) = notes {
        notes.remove();
    }
    ended.map(drop)
}

/// Listens at the place, or at the socket that was passed.
fn listen_at(
    place: &Place,
    options: &Options,
    place_guard: &mut PlaceGuard<'_>,
) -> Result<Listening, DaemonError> {
    let listener = match &options.socket {
        Some(passed) => take_over(place, passed)?,
        None => listen(place, options.group).map_err(io_error(place))?,
    };
    place_guard.listens(options.socket.is_some());
    Ok(Listening::at(listener))
}

fn log_start(place: &Place, options: &Options, complaint: Option<&str>) {
    tracing::info!(
        target: LOGS,
        pid = std::process::id(),
        release = env!("CARGO_PKG_VERSION"),
        socket = %place.socket().display(),
        reach = options.reach,
        "a broker listens"
    );
    if let Some(why) = complaint {
        tracing::warn!(target: LOGS, "fencing tokens: {why}");
    }
}

/// Serves clients until the daemon has been idle for long enough, a client has asked it to end, another
/// daemon has the place, the place is removed, or a signal ends this one. Returns whether this daemon still has
/// the place.
async fn serve_until_end(
    turns: &Arc<Turns>,
    listening: &Listening,
    found: Found,
    options: &Options,
    place_guard: &mut PlaceGuard<'_>,
    tokens: &mut Tokens,
) -> bool {
    tokio::select! {
        () = serve(turns, listening, found, options) => true,
        // If the place is lost, all sessions end, and their clients connect to the broker that has the
        // place.
        () = place_guard.keep(listening, &turns.daemon) => false,
        () = keep_ahead(tokens) => true,
        () = told_to_end(options.end.as_ref()) => {
            tracing::info!(target: LOGS, "it was told to end, by a signal");
            true
        }
    }
}

fn remove_socket(place: &Place) -> Result<(), DaemonError> {
    match fs::remove_file(place.socket()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(place)(error)),
        _ => Ok(()),
    }
}

/// An error at the socket of this place.
fn io_error(place: &Place) -> impl Fn(io::Error) -> DaemonError + Copy + '_ {
    |error| DaemonError::Io(place.socket().to_owned(), error)
}

/// Waits until the program is told that the daemon has to end.
async fn told_to_end(end: Option<&Arc<Stream>>) {
    match end.map(Awaited::new) {
        Some(Ok(told)) => told.news().await,
        // The daemon also ends on an error, because nobody could tell it to end.
        Some(Err(_)) => {}
        None => pending().await,
    }
}

/// Keeps the bound in the files ahead of our tokens. Never ends.
async fn keep_ahead(tokens: &mut Tokens) {
    loop {
        sleep(CHECK_INTERVAL).await;
        tokens.keep_ahead();
    }
}
