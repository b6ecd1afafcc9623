//! What daemons answer about themselves.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::Numbers;

/// A daemon's status, and what has happened since the daemon began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The number of the daemon's process.
    pub pid: u32,
    /// The daemon's release.
    pub release: String,
    /// How long the daemon has run, in milliseconds.
    pub age: u64,
    /// How far the daemon's locks are seen, as a text for people. `None` if they are seen on this
    /// machine only.
    pub reach: Option<String>,
    /// The names and values of the limits and settings under which the daemon runs, for people. Not
    /// every release knows all of them. The list is empty if a client asked for the status.
    pub details: Vec<(String, String)>,
    /// The numbers that the daemon has counted. If the connection that asks belongs to a client, this
    /// client counts too.
    pub numbers: Numbers,
    /// Why the latest sessions have ended, the latest one first. Usual ends do not push unusual ends
    /// out of this list.
    pub ends: Vec<SessionEnd>,
    /// Where the daemon logs, if its program says so.
    pub log: Option<LogState>,
    /// The PID namespace in which the daemon runs and sees the numbers of its clients' processes,
    /// by its inode (`/proc/self/ns/pid` on Linux). `None` if that is not known.
    pub pid_namespace: Option<u64>,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// When the session ended.
    pub at: SystemTime,
    /// The client's process, if it is known.
    pub pid: Option<u32>,
    /// Why the session ended, as a text for people.
    pub why: String,
}

/// Where a daemon logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogState {
    /// The file, or `None` if the daemon logs to its error stream.
    pub file: Option<String>,
    /// What is logged.
    pub filter: String,
}
