//! What has happened, as the clients see it.

use std::fmt;

use navlock_core::{LockInfo, Mode, host::RequestKind};

/// What a client has done.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) client: usize,
    pub(super) act: Act,
    /// After how many [events](Event) it can have had its effect. For a client that has gone, and for one whose clock is
    /// not known, this is earlier than it has begun: the broker lets these go first.
    pub(super) begun: usize,
    /// Whether it can still have its effect. It cannot if the client has died before it was sent.
    pub(super) is_sent: bool,
    /// Whether its client has taken or released the lock by a word.
    pub(super) is_taken: bool,
    /// Whether it may have had no effect, because the broker was killed.
    pub(super) may_fail: bool,
}

impl Operation {
    /// Which agent it is of, if it is of one.
    pub(super) fn agent(&self, all: &[Self]) -> Option<usize> {
        match self.act {
            Act::Request { agent, .. } | Act::EndAgent { agent } => Some(agent),
            Act::Finish { request } | Act::Lose { request } => all[request].agent(all),
            Act::Query | Act::Die => None,
        }
    }
}

/// Agents have a number that no other agent of any client has. Requests are numbered by their operation.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Request {
        agent: usize,
        name: usize,
        kind: RequestKind,
    },
    Finish {
        request: usize,
    },
    EndAgent {
        agent: usize,
    },
    /// The lock is taken away, because its client did not come back in time.
    Lose {
        request: usize,
    },
    Query,
    Die,
}

/// A lock or request in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) name: usize,
    pub(super) agent: usize,
    pub(super) is_shared: bool,
}

/// What follows from what was done, in the order of time.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// It has had its effect, as far as its client knows.
    Complete(usize),
    Granted(usize, u64),
    Unavailable(usize),
    Lost(usize),
    /// A question was answered: with locks and with requests.
    Answered(usize, Vec<Seen>, Vec<Seen>),
    /// The broker was killed, or a question was answered by a broker that was killed since: what it has granted and
    /// not told may come in another order.
    Forgotten,
}

impl Event {
    /// The operation that it follows from.
    pub(super) fn operation(&self) -> Option<usize> {
        let operation = match *self {
            Self::Complete(operation)
            | Self::Granted(operation, _)
            | Self::Unavailable(operation)
            | Self::Lost(operation)
            | Self::Answered(operation, ..) => operation,
            Self::Forgotten => return None,
        };
        Some(operation)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Whether the order of a client is that of its agents, because it owns names.
    pub(super) is_by_agent: bool,
    pub(super) operations: Vec<Operation>,
    pub(super) events: Vec<Event>,
    /// The same in words, and more of it.
    pub(super) words: Vec<String>,
}

impl History {
    pub(super) fn say(&mut self, words: fmt::Arguments<'_>) {
        self.words.push(words.to_string());
    }
}

pub(super) fn is_shared(kind: RequestKind) -> bool {
    kind.mode() == Mode::Shared
}

/// What the name of this number is called.
pub(super) fn name_of(name: usize) -> &'static str {
    ["a", "b", "c"][name]
}

/// This lock or request of a snapshot.
pub(super) fn seen(lock: &LockInfo) -> Seen {
    let name = (0..3).find(|name| lock.name == name_of(*name)).unwrap_or(3);
    let agent =
        lock.client_id.to_bytes().iter().rev().fold(0, |id, byte| id * 256 + usize::from(*byte));
    Seen { name, agent, is_shared: lock.mode == Mode::Shared }
}
