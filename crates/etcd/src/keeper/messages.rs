//! What a keeper is told, what it has called, and what calls have come to.

use std::time::Duration;

use navlock_core::{
    AgentInfo, ClientId, Error,
    host::{Claim, Ticket},
};
use navlock_engine::{AgentId, RequestId};
use tokio::sync::oneshot;

use super::history::Known;
use crate::{
    clock::Uptime,
    data::{Answer, Listing, Transaction},
    failure::Failure,
    keys::{BucketKeys, NameKey},
    lease::{LeaseEvent, LeaseName, Renewal},
    query::Seen,
    table::{AgentSerial, Finished},
    transactions::Operation,
    watch::Watched,
};

/// What it is told.
pub(crate) enum Message {
    /// It may be open already.
    OpenBucket {
        bucket: u64,
        name: String,
    },
    CloseBucket {
        bucket: u64,
    },
    OpenAgent {
        bucket: u64,
        serial: AgentSerial,
        agent: AgentId,
        client_id: ClientId,
    },
    Describe {
        serial: AgentSerial,
        info: AgentInfo,
    },
    /// More is known of what it waits for.
    Nested {
        serial: AgentSerial,
    },
    /// Somebody waits elsewhere inside a lock of this name, or it was ours for a run that is over: others have
    /// to know of it, if it is ours.
    Leave {
        bucket: u64,
        name: NameKey,
    },
    /// With what etcd may know of it.
    EndAgent {
        serial: AgentSerial,
        ended: Vec<(RequestId, Finished)>,
    },
    Request {
        bucket: u64,
        serial: AgentSerial,
        id: RequestId,
        name: NameKey,
    },
    Finish {
        id: RequestId,
        finished: Finished,
    },
    /// About all names, or one.
    Query {
        bucket: u64,
        name: Option<NameKey>,
        /// How many keys are of interest.
        most: usize,
        /// Whether who owns a name is asked what is held of it.
        asks: bool,
        answer: oneshot::Sender<Result<Seen, Error>>,
    },
    Recall {
        serial: AgentSerial,
        claims: Vec<Claim>,
        answer: oneshot::Sender<Vec<Option<Ticket>>>,
    },
    /// From the calls that go on: those that keep a lease, and those that watch.
    Lease {
        lease: i64,
        word: LeaseEvent,
    },
    Watched {
        watch: u64,
        watched: Watched,
    },
}

/// What is to be called. Each comes to a [`Done`], unless it says otherwise.
#[derive(Debug)]
pub(crate) enum Call {
    Operate {
        of: Operated,
        transaction: Transaction,
    },
    /// Waits before something is tried again: by then it may not be wanted any more.
    Pause {
        of: Operated,
        delay: Duration,
    },
    List {
        of: Listed,
        known: Known,
        prefix: Vec<u8>,
        /// How many keys of it.
        most: usize,
        delay: Duration,
    },
    Lease {
        delay: Duration,
    },
    /// It comes to nothing.
    Revoke {
        lease: i64,
    },
    /// Asks which keys stand under a lease.
    LookUnder {
        lease: i64,
        why: Why,
    },
    /// Removes what is nobody's. It comes to nothing.
    Write {
        transaction: Transaction,
    },
    /// Writes locks of agents that were recalled.
    Adopt {
        of: u64,
        transaction: Transaction,
    },
    /// Writes what an agent has said of itself, on which nothing depends.
    Describe {
        of: AgentSerial,
        transaction: Transaction,
    },
    /// Keeps a lease until it is let go. It is new, and good for this long; or else it was another's,
    /// and is renewed at once. It comes to [`Message::Lease`].
    Keep {
        lease: i64,
        time_to_live: Option<Duration>,
    },
    LetGo {
        lease: i64,
    },
    /// Watches what begins so, from this revision or from now on, until it is told not to. It comes to
    /// [`Message::Watched`].
    Watch {
        watch: u64,
        keys: BucketKeys,
        prefix: Vec<u8>,
        from: Option<i64>,
    },
    Unwatch {
        watch: u64,
    },
}

/// Why it is asked which keys stand under a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// To find what is nobody's, and what should be there and is not.
    Sweep,
    /// To find what agents of this bucket have there that go on with it.
    Left(u64),
}

/// What a call has come to.
#[derive(Debug)]
pub(crate) enum Done {
    Operated(Operated, Result<Answer, Failure>),
    /// It is time to try this again.
    Paused(Operated),
    Listed(Listed, Known, Result<Listing, Failure>),
    Leased(Result<(LeaseName, Renewal), Failure>),
    /// What was to be written for this recall.
    Adopted(u64, Result<Answer, Failure>),
    /// It was written what this agent says of itself, or not.
    Described(AgentSerial),
    /// The keys under this lease.
    Under(i64, Why, Result<Vec<Vec<u8>>, Failure>),
}

/// An operation on its way.
#[derive(Clone, Debug)]
pub(crate) struct Operated {
    pub(super) bucket: u64,
    pub(super) name: NameKey,
    pub(super) operation: Operation,
    /// How often it was tried before.
    pub(super) tries: u32,
    /// What was known when it was sent.
    pub(super) known: Known,
    /// Since when the owner of the name is asked for it.
    pub(super) asked: Option<Uptime>,
}

/// What a list is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed {
    /// The name of this watch, since that began for the nth time.
    Name(u64, u64),
    /// This query.
    Query(u64),
    /// Why etcd does not know of this lease.
    Lease(i64),
}
