//! Accepts connections, and serves each in a task of its own until it takes [turns](super::turns), if it is a client.

use std::{
    future::pending,
    mem,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use navlock_platform::{descriptor, socket::Stream};

use super::{
    guests::Guest,
    listening::Listening,
    new_connection::{Introduced, NewConnection},
    options::Options,
    peer_check::is_same_user,
    process::Process,
    session_ends::End,
    state::Daemon,
    tasks::in_turn,
    timers::{Interval, sleep, sleep_until, timeout},
    turns::Turns,
};
use crate::{LOGS, client_files::Found, sync::lock};

/// How many descriptors are kept free for other uses than sessions.
const RESERVE: usize = 32;

/// How many clients are turned away at a time. Each of them is told that there are too many.
const MOST_TURNED_AWAY: usize = 8;

/// How many descriptors a daemon has open from the start, for systems where open descriptors cannot
/// be counted.
const OPEN: usize = 16;

/// How often the daemon tries again what has failed.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// How often the daemon looks for files of dead clients that were never connected to it.
const SWEEP: Duration = Duration::from_secs(10);

/// Serves all processes that connect, until there has been no client for the time that the options
/// say, or a client has asked the daemon to end. `found` are the files that it found when it started.
///
/// # Cancel safety
///
/// Dropping the future ends all connections that are no sessions yet. Their clients go on with the next daemon.
pub(super) async fn serve(
    turns: &Arc<Turns>,
    listening: &Listening,
    found: Found,
    options: &Options,
) {
    let daemon = &turns.daemon;
    let mut connections = FuturesUnordered::new();
    let mut turned_away = FuturesUnordered::new();
    // This is dropped before the connections: clients that are just coming back claim from the next daemon.
    let _leaves = Leaves(daemon);
    let most = most_clients();
    let mut idle_since = Instant::now();
    let mut retries = Interval::new(RETRY_PAUSE);
    let mut sweep = Interval::later(SWEEP);
    // Whether a client may have died unnoticed, between two daemons or before it had introduced
    // itself.
    let mut unswept = true;
    let recovered = daemon.recover(found, options.recovery_time);
    daemon.tasks.spawn(Arc::clone(daemon).watch_deadlocks());
    daemon.tasks.spawn(Arc::clone(daemon).watch_waits());
    tokio::pin!(recovered);
    let mut recovering = true;
    loop {
        tokio::select! {
            () = &mut recovered, if recovering => recovering = false,
            stream = in_turn(accept(listening)), if turned_away.len() < MOST_TURNED_AWAY => {
                let handshake_timeout = options.limits.handshake;
                let turn_away = |stream, guest, why| {
                    let told = turn_away(stream, guest, Arc::clone(daemon), why, handshake_timeout);
                    AssertUnwindSafe(in_turn(told)).catch_unwind()
                };
                let guest = match daemon.guests().map(|guests| guests.admit(&stream, most)) {
                    Some(Ok((guest, None))) => Some(guest),
                    Some(Ok((guest, Some(why)))) => {
                        daemon.lookers.counts.turned_away();
                        // One user takes no more than half of what there is for being told.
                        if turned_away.len() < MOST_TURNED_AWAY / 2 {
                            turned_away.push(turn_away(stream, Some(guest), why));
                        }
                        continue;
                    }
                    // Nobody is served of whom it is not known who it is.
                    Some(Err(_)) => continue,
                    // A stranger's connection is closed without an answer.
                    None if !is_same_user(&stream) => continue,
                    None => None,
                };
                let turns = Arc::clone(turns);
                // Where several users share the daemon, each client has a file of notes as well.
                let each = 1 + usize::from(daemon.guests().is_some());
                let orphans = daemon.orphans();
                let taken = (connections.len() + turns.len() + orphans) * each + orphans;
                if taken + descriptor::counted() < most {
                    let connection = in_turn(connection(stream, guest, turns, handshake_timeout));
                    connections.push(AssertUnwindSafe(connection).catch_unwind());
                } else {
                    tracing::warn!(target: LOGS, most, "a client is turned away: there are too many");
                    daemon.lookers.counts.turned_away();
                    turned_away.push(turn_away(stream, guest, too_many(most)));
                }
            }
            // A panic was logged.
            Some(_) = turned_away.next() => {}
            // A session that has panicked has ended like any other session: the locks of its client
            // are free.
            Some(ended) = connections.next() => {
                if ended.is_err() {
                    tracing::error!(target: LOGS, "a session panicked; the locks of its client are free");
                }
                idle_since = Instant::now();
                unswept = true;
            }
            () = daemon.stopped.notified() => {
                tracing::info!(target: LOGS, "the broker was asked to end");
                return;
            }
            () = daemon.gone.notified() => {
                idle_since = Instant::now();
                unswept = true;
            }
            () = retries.tick() => daemon.tidy(),
            () = sweep.tick(), if unswept => unswept = daemon.sweep(),
            () = idle(idle_since, options),
                // Lookers are no clients.
                if !recovering && connections.len() <= daemon.lookers.count() && daemon.is_empty() =>
            {
                tracing::info!(target: LOGS, "the broker ends: it has had no client for its idle time");
                return;
            }
        }
    }
}

/// A daemon whose clients are not given up from the moment on in which this is dropped.
struct Leaves<'a>(&'a Daemon);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leaves();
    }
}

async fn accept(listening: &Listening) -> Stream {
    let mut has_failed = false;
    loop {
        match listening.accept().await {
            Ok(stream) => return stream,
            // Most likely there are no descriptors left. Some client will go and free one. The
            // client that connects waits for longer than this pause.
            Err(error) => {
                if !mem::replace(&mut has_failed, true) {
                    tracing::warn!(target: LOGS, "a connection cannot be accepted yet: {error}");
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn idle(since: Instant, options: &Options) {
    match options.idle.and_then(|idle| since.checked_add(idle)) {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

/// How many clients there can be. Enough descriptors must be left for everything else: the files of
/// clients, clients that are turned away, and connections that ask for something else than locks.
fn most_clients() -> usize {
    let Some(most) = descriptor::limit() else {
        return usize::MAX;
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // `descriptor` counts the descriptors that are open for clients, as long as they are open.
    let open = descriptor::open_count().unwrap_or(OPEN).saturating_sub(descriptor::counted());
    most.saturating_sub(open + RESERVE.min(most / 4))
}

/// Why a client is turned away if there are so many clients.
fn too_many(most: usize) -> String {
    let limit = descriptor::limit().unwrap_or_default();
    format!(
        "it has {most} clients, as many as its limit of {limit} open files allows; raise that \
         (ulimit -Hn, or LimitNOFILE= of its service), then 'navlock daemon stop'"
    )
}

/// Tells a client why it is turned away. Such a connection can still look at the locks.
async fn turn_away(
    stream: Stream,
    guest: Option<Guest>,
    daemon: Arc<Daemon>,
    why: String,
    handshake_timeout: Duration,
) {
    let Ok(new) = NewConnection::new(stream, None, daemon) else { return };
    let introduced = timeout(handshake_timeout, new.of(guest).turned_away(why).introduce()).await;
    if let Some(Ok(Introduced::Looker(looking))) = introduced {
        let _ = timeout(handshake_timeout, looking.serve()).await;
    }
}

async fn connection(
    stream: Stream,
    guest: Option<Guest>,
    turns: Arc<Turns>,
    handshake_timeout: Duration,
) {
    let process = Process::peer(&stream);
    if let Some(guest) = &guest {
        guest.user().is_named().await;
    }
    let pid = process.as_ref().map(Process::number);
    let new = NewConnection::new(stream, process.clone(), Arc::clone(&turns.daemon));
    let introduced = match new {
        Ok(new) => introduce(new.of(guest), process.clone(), handshake_timeout).await,
        Err(error) => Err(End::Io(error)),
    };
    let end = match introduced {
        Ok(Introduced::Client(admission, claims)) => {
            let ended = end_of(process.clone());
            match admission.settle(claims, ended).await {
                Ok((session, socket, heard)) => {
                    turns.join(session, process, socket, heard);
                    None
                }
                Err(end) => unless_gone(end),
            }
        }
        Ok(Introduced::Looker(looking)) => {
            Some(looking.serve().await).filter(|end| !end.is_usual())
        }
        Err(end) => unless_gone(end),
    };
    if let Some(end) = end {
        lock(&turns.daemon.ends).note(pid, &end);
    }
}

/// Reads who has connected, and what a client claims.
async fn introduce(
    new_connection: NewConnection,
    process: Option<Process>,
    handshake_timeout: Duration,
) -> Result<Introduced, End> {
    let introduced = tokio::select! {
        biased;
        introduced = timeout(handshake_timeout, new_connection.introduce()) => introduced,
        () = end_of(process) => return Err(End::Died),
    };
    introduced.unwrap_or(Err(End::Late))
}

/// The end of a connection before its session, if it has to be noted. It has not if somebody has asked
/// something and has gone, or has died before the claims were settled.
fn unless_gone(end: End) -> Option<End> {
    (!matches!(end, End::Gone | End::Died)).then_some(end)
}

/// Waits until a client's process has ended, if the system can tell that. A child of that process
/// may keep the connection open for longer, which gives the child no locks.
async fn end_of(process: Option<Process>) {
    match process {
        Some(process) => process.end().await,
        None => pending().await,
    }
}
