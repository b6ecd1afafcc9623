//! How a daemon is.

/// How a daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// For how long it has run, in milliseconds.
    pub age: u64,
    /// How many clients are connected; with the one that asks, if it is one.
    pub clients: u64,
    /// How many commands hold locks whose client was killed.
    pub orphans: u64,
    /// How many locks its clients hold.
    pub held: u64,
    /// How many requests of theirs are pending.
    pub pending: u64,
    /// How far its locks are seen, for people; `None` if that is this machine.
    pub reach: Option<String>,
    /// Under what it runs, for people: what, and how it is. Empty if only a client asked.
    pub details: Vec<(String, String)>,
}

impl Status {
    /// What the daemon says when it is asked, and what it has said when it was connected to.
    pub(crate) fn new(status: navlock_wire::Status, reach: Option<&str>) -> Self {
        let navlock_wire::Status { pid, release, age, clients, orphans, held, pending } = status;
        let reach = reach.map(str::to_owned);
        let details = Vec::new();
        Self { pid, release, age, clients, orphans, held, pending, reach, details }
    }
}
