//! Clients, agents, locks and requests, as who looks is shown them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use navlock_engine::{FencingToken, Mode};

use super::LockId;
use crate::AgentInfo;

/// A process that is connected, or was when it left locks to its command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Client {
    /// Its number; 0 if that is not known.
    pub pid: u32,
    /// Since when.
    pub since: Instant,
    /// How it is.
    pub state: ClientState,
}

impl Client {
    /// A process of which no more is known.
    pub fn new(pid: u32, state: ClientState) -> Self {
        Self { pid, since: Instant::now(), state }
    }
}

/// How a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientState {
    /// It is connected.
    Connected,
    /// It was killed, and its command, which goes on, keeps its locks.
    Orphaned,
    /// It has not come back since a broker before this one, and lives: it is stopped, or has nothing to
    /// say.
    Sleeping,
}

impl ClientState {
    /// In one word: the same in all that navlock prints.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Orphaned => "orphaned",
            Self::Sleeping => "sleeping",
        }
    }
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agent {
    /// Its bucket.
    pub bucket: Arc<str>,
    /// What it says of itself.
    pub info: Arc<AgentInfo>,
    /// The number of the connection that it is of; `None` if it is another machine's.
    pub client: Option<u64>,
    /// Its machine has not been heard of when it should have been. `None` if it has, or that is not known.
    pub silence: Option<Silence>,
}

impl Agent {
    /// An agent in this bucket.
    pub fn new(bucket: Arc<str>, info: Arc<AgentInfo>, client: Option<u64>) -> Self {
        Self { bucket, info, client, silence: None }
    }
}

/// That a machine has not been heard of: it is gone, stopped or cut off, or it is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Silence {
    /// Since when, to a second.
    pub since: Instant,
    /// When others can have what it has, at the latest, if that stays so.
    pub ends: Instant,
}

impl Silence {
    /// One that lasts from then to then.
    pub fn new(since: Instant, ends: Instant) -> Self {
        Self { since, ends }
    }
}

/// A request, a lock, or a name that is owned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Which.
    pub id: LockId,
    /// In which mode.
    pub mode: Mode,
    /// When it was requested or, once it is a lock, granted; or, of one that [is
    /// older](Self::is_older), when somebody began to look.
    pub since: Instant,
    /// Whether it was there before `since`: in one process nobody reads a clock while nobody looks. Then it
    /// is known that it is so old at least.
    pub is_older: bool,
    /// The fencing token of a lock.
    pub token: Option<FencingToken>,
    /// Of a request, the locks inside which it was made: their holders go on, and let go of them, only once
    /// it was granted. Empty if it was made inside none, or nobody said so.
    pub inside: Vec<LockId>,
    /// Of a request, whether it may give up by itself, as one that waits for so long or has a signal: it
    /// keeps nobody waiting for ever. `false` if nobody said so.
    pub may_give_up: bool,
    /// How often its owner has taken the name without asking.
    pub taken: u64,
    /// Of requests of several machines, whose clocks differ: the one with the greater number was made later. 0
    /// where `since` tells.
    pub order: u64,
}

impl Entry {
    /// One of which no more is known, since now.
    pub fn new(id: LockId, mode: Mode) -> Self {
        Self {
            id,
            mode,
            since: Instant::now(),
            token: None,
            inside: Vec::new(),
            may_give_up: false,
            taken: 0,
            order: 0,
            is_older: false,
        }
    }

    /// For how long it has been what it is; at least, if it [is older](Self::is_older).
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}
