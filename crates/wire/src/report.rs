//! A daemon's report on itself: what it has counted, and what else has happened.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// A daemon's report on itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What was counted so far, and present values, by name. Releases have more or fewer of them.
    pub numbers: Vec<(String, u64)>,
    /// For how long requests have waited until they were granted. Each entry is a bound in
    /// nanoseconds, and the number of requests that waited for no longer than that, but longer than
    /// the bound before it.
    pub waits: Vec<(u64, u64)>,
    /// How many have waited for longer than all bounds.
    pub longer: u64,
    /// For how long all have waited together, in nanoseconds.
    pub waited: u64,
    /// The last ends of sessions, the last one first.
    pub ends: Vec<SessionEnd>,
    /// Where the daemon logs, if its program says so.
    pub log: Option<LogState>,
    /// The PID namespace in which the daemon runs and sees the numbers of its clients' processes,
    /// by its inode (`/proc/self/ns/pid` on Linux). `None` if that is not known.
    pub pids: Option<u64>,
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
