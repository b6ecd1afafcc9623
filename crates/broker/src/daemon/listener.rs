//! Who comes and who goes.

use std::{
    future::{Future, pending},
    io, mem,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use navlock_core::UserAgent;
use navlock_platform::{
    descriptor, peer,
    socket::{AsyncListener, AsyncStream},
};
use tokio::{
    task::JoinSet,
    time::{Instant, interval, interval_at, sleep, sleep_until, timeout},
};

use super::{
    ends::End,
    listening::Listening,
    looking::Looking,
    new_connection::{Introduced, NewConnection},
    options::Options,
    process::{END, Process},
    session::Session,
    state::Daemon,
};
use crate::{LOGS, client_files::Found};

/// Descriptors that clients do not get.
const RESERVE: usize = 32;

/// How many connections for which there is no room are dealt with at a time.
const CROWD: usize = 8;

/// How many descriptors a daemon has open to begin with, where they cannot be counted.
const OPEN: usize = 16;

/// How often what could not be done at once is looked at again.
const LOOK: Duration = Duration::from_secs(2);

/// How often files are looked for of clients that this daemon has never met.
const SWEEP: Duration = Duration::from_secs(10);

/// Serves the locks of `user_agent` to whoever connects and has our uid, until there has been no
/// client for the time that the options say. Must be called in a tokio runtime.
///
/// For a host that is a broker for others besides what it is otherwise. What [`run`](super::run)
/// does beyond this, it does not: start where there is none, take over from one that was killed,
/// and keep locks for those who have inherited them.
///
/// # Cancel safety
///
/// Dropping the future ends all sessions, as if their clients had died.
pub async fn serve(listener: &AsyncListener, user_agent: UserAgent, options: Options) {
    let found = Found::default();
    let daemon = Arc::new(Daemon::new(user_agent, &options, None, &found, None));
    serve_in(&daemon, listener, found, &options).await;
}

/// The same with this state, of a daemon that found these when it started.
pub(super) async fn serve_in(
    daemon: &Arc<Daemon>,
    listener: &impl Accept,
    found: Found,
    options: &Options,
) {
    let mut sessions = JoinSet::new();
    let mut crowd = JoinSet::new();
    let most = most_clients();
    let mut idle_since = Instant::now();
    let mut look = interval(LOOK);
    let mut sweep = interval_at(Instant::now() + SWEEP, SWEEP);
    // Whether somebody may have died without being missed: between two daemons, or before it had
    // introduced itself.
    let mut unswept = true;
    let recovered = daemon.recover(found, options.recovery);
    let mut watching = JoinSet::new();
    watching.spawn(Arc::clone(daemon).watch_deadlocks());
    tokio::pin!(recovered);
    let mut recovering = true;
    loop {
        tokio::select! {
            () = &mut recovered, if recovering => recovering = false,
            stream = accept(listener), if crowd.len() < CROWD => {
                let (daemon, patience) = (Arc::clone(daemon), options.limits.handshake);
                // Same user or nothing. The modes of directory and socket say so already; this asks the kernel.
                if !peer::is_ours(&stream) {
                } else if sessions.len() + 2 * daemon.orphans() + descriptor::counted() < most {
                    sessions.spawn(session(stream, daemon, patience));
                } else {
                    tracing::warn!(target: LOGS, most, "a client is turned away: there are too many");
                    daemon.turned_away();
                    crowd.spawn(turn_away(stream, daemon, patience, most));
                }
            }
            Some(_) = crowd.join_next() => {}
            // A session that panicked has ended like any other: what its client had is free.
            Some(ended) = sessions.join_next() => {
                if ended.is_err() {
                    tracing::error!(target: LOGS, "a session panicked; what its client had is free");
                }
                idle_since = Instant::now();
                unswept = true;
            }
            () = daemon.stopped.notified() => {
                tracing::info!(target: LOGS, "it was asked to end");
                return;
            }
            () = daemon.gone.notified() => idle_since = Instant::now(),
            _ = look.tick() => daemon.tidy(),
            _ = sweep.tick(), if unswept => unswept = daemon.sweep(),
            () = idle(idle_since, options),
                // Who only looks is no client.
                if !recovering && sessions.len() <= daemon.lookers().count() && daemon.is_empty() =>
            {
                tracing::info!(target: LOGS, "it has had no client for long enough");
                return;
            }
        }
    }
}

/// Where connections come from.
pub(super) trait Accept {
    /// The next one.
    fn next(&self) -> impl Future<Output = io::Result<AsyncStream>> + Send;
}

impl Accept for AsyncListener {
    async fn next(&self) -> io::Result<AsyncStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Accept for Listening {
    async fn next(&self) -> io::Result<AsyncStream> {
        self.accept().await
    }
}

async fn accept(listener: &impl Accept) -> AsyncStream {
    let mut has_failed = false;
    loop {
        match listener.next().await {
            Ok(stream) => return stream,
            // Out of descriptors, most likely: others will go, and their clients' patience is
            // longer than this.
            Err(error) => {
                if !mem::replace(&mut has_failed, true) {
                    tracing::warn!(target: LOGS, "a client cannot be let in yet: {error}");
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

/// So many clients leave enough descriptors for all else that we open: files of clients, and
/// connections that are turned away or ask for something else than locks.
fn most_clients() -> usize {
    let Some(most) = descriptor::limit() else {
        return usize::MAX;
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // What is open for clients by now is counted as long as it is.
    let open = descriptor::open_count().unwrap_or(OPEN).saturating_sub(descriptor::counted());
    most.saturating_sub(open + RESERVE.min(most / 4))
}

/// Serves one for whom there is no room as a client.
async fn turn_away(stream: AsyncStream, daemon: Arc<Daemon>, patience: Duration, most: usize) {
    let limit = descriptor::limit().unwrap_or_default();
    let why = format!(
        "it has {most} clients, as many as its limit of {limit} open files allows; raise that \
         (ulimit -Hn, or LimitNOFILE= of its service), then 'navlock daemon stop'"
    );
    let new_connection = NewConnection::new(stream, None, daemon).turned_away(why);
    let introduced = timeout(patience, new_connection.introduce()).await;
    if let Ok(Ok(Introduced::Looker(looking))) = introduced {
        let _ = timeout(patience, looking.serve()).await;
    }
}

async fn session(stream: AsyncStream, daemon: Arc<Daemon>, patience: Duration) {
    let process = Process::peer(&stream);
    let pid = process.as_ref().map(Process::number);
    let session = match begin(stream, process.clone(), Arc::clone(&daemon), patience).await {
        Ok(session) => session,
        // Who has asked something and goes was no client.
        Err(End::Gone | End::Died) => return,
        Err(end) => return daemon.ends().note(pid, &end),
    };
    let session = match session {
        Begun::Session(session) => session,
        Begun::Looking(looking) => {
            let end = looking.serve().await;
            if !end.is_usual() {
                daemon.ends().note(pid, &end);
            }
            return;
        }
    };
    let mut end = pin!(end_of(process.clone()));
    let (connected, why) = session.serve(end.as_mut()).await;
    // FAST: its end is waited for by what has been waiting for it all the time, and before anything
    // else is done: on one CPU that would hold it up.
    if connected.holds() && process.is_some_and(|process| process.is_ending()) {
        let _ = timeout(END, end).await;
    }
    drop(connected);
    // FAST: after who waits for its locks was told.
    daemon.ends().note(pid, &why);
}

/// Waits for the end of a client's process, if that can be seen. What it has forked may have its
/// connection open for longer, and holds nothing by that.
async fn end_of(process: Option<Process>) {
    match process {
        Some(process) => process.end().await,
        None => pending().await,
    }
}

/// Hears who it is and what it claims. The session, if there is one.
async fn begin(
    stream: AsyncStream,
    process: Option<Process>,
    daemon: Arc<Daemon>,
    patience: Duration,
) -> Result<Begun, End> {
    let new_connection = NewConnection::new(stream, process.clone(), daemon);
    let introduced = tokio::select! {
        biased;
        introduced = timeout(patience, new_connection.introduce()) => introduced,
        () = end_of(process.clone()) => return Err(End::Died),
    };
    match introduced.map_err(|_| End::Late)?? {
        Introduced::Client(mut session, claims) => {
            session.settle(claims, end_of(process)).await?;
            Ok(Begun::Session(session))
        }
        Introduced::Looker(looking) => Ok(Begun::Looking(looking)),
    }
}

/// What a connection has become.
enum Begun {
    Session(Box<Session>),
    Looking(Looking),
}
