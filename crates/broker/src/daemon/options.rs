//! What a daemon can be told when it starts.

use std::{path::PathBuf, sync::Arc, time::Duration};

use navlock_platform::socket::{Listener, Stream};

use super::log::Log;
use crate::RECLAIM;

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
    /// else asks. Only of [`run`](super::run), and where locks are not leased.
    pub delegate: bool,
    /// What becomes readable, or ends, when the daemon is to end, as it does when it is asked to: for a
    /// program that is told so by signals. Only of [`run`](super::run).
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
