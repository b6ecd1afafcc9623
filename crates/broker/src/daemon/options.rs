//! The options of a daemon.

use std::{path::PathBuf, sync::Arc, time::Duration};

use navlock_platform::{
    socket::{Listener, Stream},
    user::GroupId,
};

use super::log::Log;

/// The recovery time: for how long a new daemon waits for the clients of an earlier one, unless
/// [`Options::recovery_time`] says otherwise.
pub(crate) const RECOVERY_TIME: Duration = Duration::from_secs(10);

/// For how long a daemon without clients goes on, unless [`Options::idle`] says otherwise.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// The options with which a daemon starts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The daemon ends when it has had no client for this long; `None` for never.
    pub idle: Option<Duration>,
    /// What one connection can have.
    pub limits: Limits,
    /// The recovery time: for how long, after a start, clients of an earlier daemon may come back
    /// to claim their locks. Nothing is granted until all of them that live have done so, or this
    /// time is over. If it is zero, who lives and has not come back goes on believing that it holds its locks.
    pub recovery_time: Duration,
    /// How far the daemon's locks are seen, as a text for people, if they are seen beyond this
    /// machine.
    pub reach: Option<String>,
    /// A directory of the user that outlives `/tmp`, in which the daemon keeps a second bound of
    /// its fencing tokens. It is made if it does not exist.
    pub state: Option<PathBuf>,
    /// The socket, if somebody else has made it and goes on listening at it, such as a service
    /// manager that starts daemons when they are needed. It must be the socket at the daemon's
    /// place.
    pub socket: Option<Arc<Listener>>,
    /// Further details of the daemon for people: names and values.
    pub details: Vec<(String, String)>,
    /// Where the program logs, for clients that ask. [`tracing`] itself cannot tell this.
    pub log: Option<Arc<dyn Log>>,
    /// Whether the log tells names of locks even above the level debug. See the
    /// [crate](crate#logs).
    pub log_names: bool,
    /// Whether clients can own names. A client takes such a name again without asking, until
    /// somebody else asks for the name. Applies only where locks are not leased.
    pub delegate: bool,
    /// The group of the users whose processes the daemon serves besides those of its own user, at the
    /// [place of the machine's broker](crate::Place::of_system).
    pub group: Option<GroupId>,
    /// A stream that becomes readable, or ends, when the daemon has to end. This is for a program
    /// that gets signals to end. The daemon then ends as it does when a client asks for its end.
    pub end: Option<Arc<Stream>>,
}

/// What one connection can have at a time. The limits keep a faulty client from taking down the
/// daemon, which other clients use as well.
///
/// How long the parts of a message may be is part of the protocol: see `limits.rs` of `navlock-wire`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Agents.
    pub agents: usize,
    /// Pending requests and held locks.
    pub requests: usize,
    /// Bytes in the names of these requests and locks, and of the agents' buckets.
    pub name_bytes: usize,
    /// Queries not answered yet.
    pub queries: usize,
    /// How many connections the processes of one user may have, where several users share the daemon.
    pub connections_of_user: usize,
    /// How long the handshake may take.
    pub handshake: Duration,
}

impl Limits {
    /// What all connections of one user can have together, where several users share the daemon.
    pub(super) fn of_user(self) -> Self {
        Self {
            agents: self.agents.min(1 << 12),
            requests: self.requests.min(1 << 16),
            name_bytes: self.name_bytes.min(16 << 20),
            queries: self.queries.min(16),
            ..self
        }
    }
}

impl Default for Options {
    /// Ends after thirty seconds without a client, has ten seconds of recovery time, and lets
    /// clients own names.
    fn default() -> Self {
        Self {
            idle: Some(IDLE_TIME),
            limits: Limits::default(),
            recovery_time: RECOVERY_TIME,
            reach: None,
            state: None,
            socket: None,
            details: Vec::new(),
            log: None,
            log_names: false,
            delegate: true,
            group: None,
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
            connections_of_user: 1 << 10,
            handshake: Duration::from_secs(10),
        }
    }
}
