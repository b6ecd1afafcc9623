//! A daemon's status.

/// A daemon's status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The names and values of the limits and settings under which the daemon runs, for people. The
    /// list is empty if a client asked for the status.
    pub details: Vec<(String, String)>,
}

impl Status {
    /// Combines the daemon's answer with the reach that the daemon reported when we connected.
    pub(crate) fn new(status: navlock_wire::Status, reach: Option<&str>) -> Self {
        let navlock_wire::Status { pid, release, age, clients, orphans, held, pending } = status;
        let reach = reach.map(str::to_owned);
        let details = Vec::new();
        Self { pid, release, age, clients, orphans, held, pending, reach, details }
    }
}
