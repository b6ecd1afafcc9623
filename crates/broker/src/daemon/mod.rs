//! The daemon: an adapter from a socket to a user agent.
//!
//! It keeps no locks of its own. Whatever reach the user agent has, its clients have too. What it
//! does keep is who its clients are (`house`), and how their locks come over from a daemon that was
//! killed (`recovery`).

mod answers;
mod aside;
mod claims;
mod client;
mod counts;
mod deadlocks;
mod delegations;
mod directory;
mod elsewhere;
mod ends;
mod foothold;
mod house;
mod inbox;
mod journal;
mod leases;
mod listener;
mod log;
mod lookers;
mod looking;
mod map;
mod maps;
mod moment;
mod newcomer;
mod orphans;
mod picture;
mod process;
mod recall;
mod recovery;
mod requests;
mod session;
mod sole;
mod stealing;
mod telling;
mod terms;
mod tokens;

use std::{error::Error, fmt, fs, future::pending, io, path::PathBuf, sync::Arc, time::Duration};

use navlock_core::{FencingToken, UserAgent, host::MemoryReach};
use navlock_platform::socket::{self, AsyncListener, AsyncStream, Listener, Stream};
use tokio::time::sleep;

use self::{
    delegations::Delegations,
    foothold::{Foothold, Listening},
    house::House,
    listener::serve_in,
    tokens::Tokens,
};
pub use self::{listener::serve, log::Log};
use crate::{
    LOGS, Place, PlaceError, RECLAIM, client_files::ClientFiles, error::Reason, lock_file,
    spawn::connect,
};

/// What the program that is the daemon writes as a line once it listens. Clients wait for it; what
/// else they get to read is why it did not start.
pub const READY_LINE: &str = "ready";

/// With this begins a line that it writes before, if it waits for what keeps its locks: what that is comes next. From
/// there on it is not started a second time at once where it did not come to listen.
pub const WAITS_FOR: &str = "waits for ";

/// How often it is looked whether the bound of fencing tokens is far enough ahead.
const LOOK: Duration = Duration::from_secs(2);

/// What a daemon can be told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// It ends when it has had no client for so long; without this, never.
    pub idle: Option<Duration>,
    /// What one connection can have.
    pub limits: Limits,
    /// For how long, after a start, clients of an earlier daemon may come back to claim what they
    /// had. Nothing is granted until all have who live, or until this is over.
    pub recovery: Duration,
    /// How far its locks are seen, for people, if that is further than this machine.
    pub reach: Option<String>,
    /// A directory of the user's that outlives `/tmp`: there it keeps a second bound of its fencing
    /// tokens. It is made if it is not there.
    pub state: Option<PathBuf>,
    /// The socket, if somebody else has made it and goes on listening at it: a service manager that
    /// starts daemons when they are needed. It must be the one at the daemon's place.
    pub socket: Option<Arc<Listener>>,
    /// What there is to be known of it besides, for people: what, and how it is.
    pub details: Vec<(String, String)>,
    /// Where the program logs, for who asks: [`tracing`] tells it no way to see that.
    pub log: Option<Arc<dyn Log>>,
    /// Whether names of locks are told at levels at which they are not otherwise. See the
    /// [crate](crate#logs).
    pub log_names: bool,
    /// Whether its clients can own names, which they then take again without asking, until somebody
    /// else asks. Only of [`run`], and where locks are not leased.
    pub delegate: bool,
    /// What becomes readable, or ends, when the daemon is to end, as it does when it is asked to: for a
    /// program that is told so by signals. Only of [`run`].
    pub end: Option<Arc<Stream>>,
}

/// What one connection can have at a time, so that a client that has gone wrong does not take
/// down everybody's daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Agents.
    pub agents: usize,
    /// Pending requests and held locks.
    pub requests: usize,
    /// Bytes in the names of those, and in the names of the agents' buckets.
    pub name_bytes: usize,
    /// Queries not answered yet.
    pub queries: usize,
    /// How long it may take to say hello.
    pub handshake: Duration,
}

/// Why a daemon could not start, or had to end.
#[derive(Debug)]
#[non_exhaustive]
pub enum DaemonError {
    /// Its place cannot be used.
    Place(PlaceError),
    /// Another daemon has the place, and does not end.
    Taken(PathBuf),
    /// The socket that was passed is at another place, or is none.
    Passed(PathBuf, String),
    /// What keeps its locks is not to be had, for this reason.
    Reach(String),
    /// Something failed at this path.
    Io(PathBuf, io::Error),
}

impl Default for Options {
    /// Ends after thirty seconds, waits ten for those who come back, and lets clients own names.
    fn default() -> Self {
        Self {
            idle: Some(Duration::from_secs(30)),
            limits: Limits::default(),
            recovery: RECLAIM,
            reach: None,
            state: None,
            socket: None,
            details: Vec::new(),
            log: None,
            log_names: false,
            delegate: true,
            end: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            agents: 1 << 16,
            requests: 1 << 18,
            name_bytes: 64 << 20,
            queries: 64,
            handshake: Duration::from_secs(10),
        }
    }
}

/// A user agent for a daemon that keeps the locks itself, with fencing tokens from here on.
pub fn user_agent(first: FencingToken) -> UserAgent {
    // The daemon is one thread.
    UserAgent::with_memory(MemoryReach::with_first_token(first).with_shards(1))
}

/// Runs a daemon at `place` until it has had no client for long enough, and calls `ready` once it
/// listens. `user_agent` is told from where on fencing tokens are larger than all that earlier
/// daemons gave at this place, and says for people why, if it cannot be had.
///
/// Blocks the thread, which must not be one of a tokio runtime. When this returns, all connections
/// have ended. What clients had that were still there is not released: they claim it from the next
/// daemon. So the process should end soon.
///
/// # Errors
///
/// If the place is not to be used, or another daemon has it, or there is no user agent.
pub fn run(
    place: &Place,
    user_agent: impl FnOnce(FencingToken) -> Result<UserAgent, String>,
    options: &Options,
    ready: impl FnOnce(),
) -> Result<(), DaemonError> {
    place.prepare()?;
    let failed = |error| DaemonError::Io(place.socket().to_owned(), error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(failed)?;
    let in_it = runtime.enter();
    let mut foothold = Foothold::take(place, options.state.as_deref())?;
    drop(in_it);
    let files = ClientFiles::of(place);
    // Before the files of the dead are removed.
    let last = maps::last_token(&files);
    let mut tokens = Tokens::begin(place.tokens(), options.state.as_deref(), last);
    // Before anybody can connect: who registers from here on is no client of an earlier daemon.
    let found = files.find().map_err(failed)?;
    let user_agent = user_agent(tokens.first()).map_err(DaemonError::Reach)?;
    let mut options = options.clone();
    let complaint = tokens.complaint();
    let detail = complaint.clone().map(|why| ("fencing tokens".to_owned(), why));
    options.details.extend(detail);
    let options = &options;
    let delegations = Delegations::new(tokens.epoch());
    let house = House::new(user_agent, options, Some(files), &found, Some(delegations));
    let house = Arc::new(house);
    let ended = runtime.block_on(async {
        let listener = match &options.socket {
            Some(passed) => take_over(place, passed)?,
            None => listen(place).map_err(failed)?,
        };
        foothold.listens(options.socket.is_some());
        let listening = Listening::at(listener);
        ready();
        // FAST: who waited for it is not kept by this.
        tracing::info!(
            target: LOGS,
            pid = std::process::id(),
            release = env!("CARGO_PKG_VERSION"),
            socket = %place.socket().display(),
            reach = options.reach,
            "a broker listens"
        );
        if let Some(why) = &complaint {
            tracing::warn!(target: LOGS, "fencing tokens: {why}");
        }
        tokio::select! {
            () = serve_in(&house, &listening, found, options) => {}
            // With it all sessions end, and their clients come to the one that others find.
            () = foothold.keep(&listening, &house) => {
                tracing::warn!(target: LOGS, "another broker has the place; this one ends");
                return Ok(());
            }
            () = keep_ahead(&mut tokens) => {}
            () = told_to_end(options.end.as_deref()) => {
                tracing::info!(target: LOGS, "it was told to end, by a signal");
            }
        }
        // The name goes first: from here on clients start a new daemon, which waits for our lock.
        // Who is between being connected and being accepted sees the stream end before it was
        // welcomed, and tries again.
        if !foothold.has_socket() {
            return Ok(());
        }
        match fs::remove_file(place.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    });
    tokens.end();
    tracing::info!(target: LOGS, clients = house.status().clients, "the broker ends");
    // Who is still there claims what it has from the next daemon, as if we had been killed.
    let notes = house.leave_behind();
    // With the last share in it the user agent ends, and gives up what it has. If we are killed before, the next
    // daemon finds what is noted.
    drop(house);
    drop(runtime);
    if let Some(notes) = notes {
        notes.remove();
    }
    ended
}

/// Waits until the program is told that the daemon is to end.
async fn told_to_end(end: Option<&Stream>) {
    let told = end.and_then(|end| end.try_clone().ok()).and_then(|end| {
        end.set_nonblocking(true).ok()?;
        AsyncStream::from_std(end).ok()
    });
    match told {
        // However that comes to be: nobody could say it any more.
        Some(told) => _ = told.readable().await,
        None => pending().await,
    }
}

/// Keeps the promise of where our tokens end ahead of them. Never ends.
async fn keep_ahead(tokens: &mut Tokens) {
    loop {
        sleep(LOOK).await;
        tokens.keep_ahead();
    }
}

/// Whether somebody listens at the place, be there room for one more or not.
fn is_served(place: &Place) -> bool {
    matches!(connect(place, Duration::ZERO), Ok(Some(_)) | Err(Reason::Silent(_)))
}

/// Listens at the place, whose lock we hold.
fn listen(place: &Place) -> io::Result<AsyncListener> {
    socket::listen(&place.unborn_socket(), place.socket())
}

/// Listens at a socket that was passed, which must be that of the place.
fn take_over(place: &Place, passed: &Listener) -> Result<AsyncListener, DaemonError> {
    let wrong = |is: String| DaemonError::Passed(place.socket().to_owned(), is);
    let address = passed.local_addr().map_err(|error| wrong(error.to_string()))?;
    match address.as_pathname() {
        Some(path) if Place::at(path) == *place => {}
        Some(path) => return Err(wrong(path.display().to_string())),
        None => return Err(wrong("a socket without a path".to_owned())),
    }
    let ours = passed.try_clone().and_then(|socket| {
        socket.set_nonblocking(true)?;
        AsyncListener::from_std(socket)
    });
    ours.map_err(|error| wrong(error.to_string()))
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(error) => error.fmt(f),
            Self::Taken(path) => {
                let pid = lock_file::read_short(path).unwrap_or_default();
                let pid = Some(pid.trim()).filter(|pid| !pid.is_empty()).unwrap_or("unknown");
                write!(
                    f,
                    "another broker (process {pid}) holds {}; use its socket, or end it",
                    path.display()
                )
            }
            Self::Passed(path, is) => write!(
                f,
                "the socket that was passed (LISTEN_FDS) is {is}, and the broker's place is {}; have \
                 both say the same, by ListenStream= or NAVLOCK_SOCKET",
                path.display()
            ),
            Self::Reach(why) => f.write_str(why),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Error for DaemonError {}

impl From<PlaceError> for DaemonError {
    fn from(error: PlaceError) -> Self {
        Self::Place(error)
    }
}
