//! A daemon's status.

/// A daemon's status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The number of its process.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// For how long it has run, in milliseconds.
    pub age: u64,
    /// How many clients are connected. If the connection that asks is a client, it counts as well.
    pub clients: u64,
    /// How many commands hold locks whose client was killed.
    pub orphans: u64,
    /// How many locks its clients hold.
    pub held: u64,
    /// How many requests of its clients are pending.
    pub pending: u64,
    /// How far its locks are seen, for people; `None` if that is this machine.
    pub reach: Option<String>,
    /// The limits and settings under which it runs, for people: names and values. Empty if a client
    /// asked for the status.
    pub details: Vec<(String, String)>,
}

impl Status {
    /// Puts together the daemon's answer, and the reach that it has told when we connected.
    pub(crate) fn new(status: navlock_wire::Status, reach: Option<&str>) -> Self {
        let navlock_wire::Status { pid, release, age, clients, orphans, held, pending } = status;
        let reach = reach.map(str::to_owned);
        let details = Vec::new();
        Self { pid, release, age, clients, orphans, held, pending, reach, details }
    }
}
