//! Clients, agents, locks and requests, as lookers see them.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use navlock_engine::{FencingToken, Mode, Patience};

use super::LockId;
use crate::AgentInfo;

/// A process that is connected, or was connected when it was killed and its command inherited its
/// locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Client {
    /// The process id; 0 if that is not known.
    pub pid: u32,
    /// When it connected.
    #[cfg_attr(feature = "serde", serde(skip, default = "unset"))]
    pub since: Instant,
    /// Its state.
    pub state: ClientState,
}

impl Client {
    /// A process of which nothing further is known.
    pub fn new(pid: u32, state: ClientState) -> Self {
        Self { pid, since: Instant::now(), state }
    }
}

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ClientState {
    /// It is connected.
    Connected,
    /// It was killed. Its command has inherited its locks, and still runs.
    Orphaned,
    /// It was connected to an earlier broker, it lives, and it has not come back, because it is
    /// stopped or has nothing to do.
    Sleeping,
}

impl ClientState {
    /// The state in one word, which is the same in everything that navlock prints.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Orphaned => "orphaned",
            Self::Sleeping => "sleeping",
        }
    }
}

/// The time of what was read, until the reader sets it: the same for all, so that what was read twice is
/// equal.
fn unset() -> Instant {
    static UNSET: OnceLock<Instant> = OnceLock::new();
    *UNSET.get_or_init(Instant::now)
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Agent {
    /// Its bucket.
    pub bucket: Arc<str>,
    /// What it says of itself.
    pub info: Arc<AgentInfo>,
    /// The number of its client's connection; `None` if the agent belongs to another machine.
    pub client: Option<u64>,
    /// Says that the agent's machine should have been heard of and was not. `None` if the machine was
    /// heard of, or if that is not known.
    pub silence: Option<Silence>,
}

impl Agent {
    /// An agent in this bucket.
    pub fn new(bucket: Arc<str>, info: Arc<AgentInfo>, client: Option<u64>) -> Self {
        Self { bucket, info, client, silence: None }
    }
}

/// Says that a machine has not been heard of: it is gone, stopped, cut off, or late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "Duration", into = "Duration")
)]
#[non_exhaustive]
pub struct Silence {
    /// Since when nothing was heard of the machine, to a second.
    pub since: Instant,
    /// When others can be granted the machine's locks, at the latest, if nothing is heard of it.
    pub ends: Instant,
}

impl Silence {
    /// A silence from `since` on, by which the locks end at `ends`.
    pub fn new(since: Instant, ends: Instant) -> Self {
        Self { since, ends }
    }
}

/// A silence by which the locks end this long after it has begun. Its time is not set.
impl From<Duration> for Silence {
    fn from(left: Duration) -> Self {
        let since = unset();
        Self { since, ends: since.checked_add(left).unwrap_or(since) }
    }
}

impl From<Silence> for Duration {
    fn from(Silence { since, ends }: Silence) -> Self {
        ends.saturating_duration_since(since)
    }
}

/// A request, a lock, or a name that is owned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Entry {
    /// The id of the request or lock.
    pub id: LockId,
    /// The mode.
    pub mode: Mode,
    /// When the request was made or, for a lock, granted. For an entry that
    /// [is older](Self::is_older), when somebody began to look.
    #[cfg_attr(feature = "serde", serde(skip, default = "unset"))]
    pub since: Instant,
    /// Whether the entry was there before `since`: in one process, no clock is read while nobody looks.
    /// Such an entry is at least as old as `since` says.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub is_older: bool,
    /// The fencing token of a lock.
    pub token: Option<FencingToken>,
    /// For a request: the locks inside which it was made. The holders of these locks release them only
    /// after the request was granted. Empty if it was made inside no lock, or if nobody has said so.
    pub inside: Vec<LockId>,
    /// For a request: how long it waits, as far as somebody has said so.
    pub patience: Patience,
    /// What this lock is for; `None` if only its agent says what its locks are for.
    pub why: Option<Arc<str>>,
    /// How often its owner has taken the name without asking.
    pub taken: u64,
    /// The order of requests of several machines, whose clocks differ: a request with a greater number
    /// was made later. 0 where `since` tells the order.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub order: u64,
}

impl Entry {
    /// An entry of which nothing else is known, since now.
    pub fn new(id: LockId, mode: Mode) -> Self {
        Self {
            id,
            mode,
            since: Instant::now(),
            token: None,
            inside: Vec::new(),
            patience: Patience::Endless,
            why: None,
            taken: 0,
            order: 0,
            is_older: false,
        }
    }

    /// What is known of the agent of the lock or request, of which this is `info`, with what the lock
    /// is for.
    pub fn with_why(&self, info: Option<&Arc<AgentInfo>>) -> Option<Arc<AgentInfo>> {
        let Some(why) = &self.why else { return info.cloned() };
        let mut info = info.cloned().unwrap_or_default();
        why.as_ref().clone_into(&mut Arc::make_mut(&mut info).why);
        Some(info)
    }

    /// What tells which of several requests was made last: the order, and then the time. No two are the same.
    pub(super) fn made(&self) -> impl Ord + use<> {
        (self.order, self.since, self.id)
    }

    /// For how long the request has waited, or the lock has been held. The least time, if the entry
    /// [is older](Self::is_older).
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}
