//! What the thread knows of an agent: what it has said of itself, and its lease.

use std::time::Duration;

use navlock_core::{AgentInfo, ClientId};
use navlock_engine::AgentId;

use crate::{clock::Uptime, notes::cut_info};

/// How much later the description of an agent is written to the store.
const SETTLED: Duration = Duration::from_millis(200);

/// The longest pause before the description is written again, while the store may have an older one.
const LONGEST: Duration = Duration::from_secs(5);

/// An agent, as the thread knows it.
#[derive(Debug)]
pub(crate) struct Agent {
    /// Its bucket.
    pub(crate) bucket: u64,
    /// Its id in the [table](crate::table::Table).
    pub(crate) id: AgentId,
    /// The client id by which all machines know it.
    pub(crate) client_id: ClientId,
    /// What it has said of itself.
    pub(crate) info: AgentInfo,
    /// `Some` while what the store has of the agent may still contain an older description.
    pub(crate) stale: Option<Stale>,
    /// Whether this connection has looked for the agent's locks and requests of another connection.
    pub(crate) is_reclaimed: bool,
    pub(super) under: Under,
}

/// The lease of an agent's locks and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    /// The agent has no lease, and has requested nothing that needs one.
    Nothing,
    /// The agent waits for a lease.
    Coming,
    Lease(i64),
}

impl Agent {
    /// An agent that has said nothing yet and has no lease.
    pub(crate) fn new(bucket: u64, id: AgentId, client_id: ClientId) -> Self {
        let (info, under) = (AgentInfo::default(), Under::Nothing);
        Self { bucket, id, client_id, info, stale: None, is_reclaimed: false, under }
    }

    /// The agent has said this of itself. What does not fit into a value is cut.
    pub(crate) fn describe(&mut self, info: &AgentInfo) {
        self.info.update(info);
        cut_info(&mut self.info);
        if let Some(stale) = &mut self.stale {
            stale.since = Uptime::now();
        }
        self.say_anew();
    }

    /// Notes that the store may not have all that the agent has said of itself and of its requests. However often
    /// the agent says something new of them, the earlier news is written in time.
    pub(crate) fn say_anew(&mut self) {
        let stale = self.stale.get_or_insert_with(|| Stale {
            since: Uptime::now(),
            pause: SETTLED,
            is_writing: false,
        });
        stale.pause = SETTLED;
    }

    /// The lease of the agent's locks and requests.
    pub(crate) fn lease(&self) -> Option<i64> {
        match self.under {
            Under::Lease(id) => Some(id),
            Under::Nothing | Under::Coming => None,
        }
    }

    /// Whether the agent has no lease, and waits for none.
    pub(crate) fn has_no_lease(&self) -> bool {
        self.under == Under::Nothing
    }
}

/// Says that the description of an agent has changed, and may not be written everywhere yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stale {
    /// After this time and `pause`, what the store has is looked at again.
    since: Uptime,
    pause: Duration,
    /// Whether the description is being written. That is done once at a time, because the store may be slow, and
    /// what it tells may be late.
    is_writing: bool,
}

impl Stale {
    /// Whether it is time to write the description.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_writing && self.since.elapsed() >= self.pause
    }

    /// The store was looked at, and the description is being written if `is_writing` is set.
    pub(crate) fn looked(&mut self, is_writing: bool) {
        (self.since, self.is_writing) = (Uptime::now(), is_writing);
    }

    /// The description was written, or could not be.
    pub(crate) fn written(&mut self) {
        self.looked(false);
        self.pause = (self.pause * 2).min(LONGEST);
    }
}
