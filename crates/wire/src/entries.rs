//! What daemons answer about themselves.

use serde::{Deserialize, Serialize};

/// A daemon's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The number of the daemon's process.
    pub pid: u32,
    /// The daemon's release.
    pub release: String,
    /// How long the daemon has run, in milliseconds.
    pub age: u64,
    /// How many clients are connected. If the connection that asks belongs to a client, this client
    /// counts too.
    pub clients: u64,
    /// How many commands hold locks although the client of these locks was killed.
    pub orphans: u64,
    /// How many locks the daemon's clients hold.
    pub held: u64,
    /// How many requests of the daemon's clients are pending.
    pub pending: u64,
    /// How far the daemon's locks are seen, as a text for people. `None` if they are seen on this
    /// machine only.
    pub reach: Option<String>,
    /// The names and values of the limits and settings under which the daemon runs, for people. Not
    /// every release knows all of them. The list is empty if a client asked for the status.
    pub details: Vec<(String, String)>,
}
