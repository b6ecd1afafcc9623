//! What callers want of a store.

use std::collections::HashMap;

use navlock_core::{
    AgentInfo, ClientId, Error, FencingToken, ResourceName,
    host::{Claim, Eviction, Ticket, Unheard},
};
use navlock_engine::{AgentId, RequestId};
use tokio::sync::oneshot;

use crate::{
    hash::HashState,
    lease::Share,
    names::NameKey,
    query::{Asks, QueryResult},
    table::{AgentSerial, Finished},
};

/// What a caller wants of the store. A bucket and an agent are known by their numbers in the table.
#[derive(Debug)]
pub(crate) enum Message {
    /// The bucket may be open already.
    OpenBucket {
        /// The bucket.
        bucket: u64,
        /// Its name.
        name: String,
    },
    /// One user of the bucket has gone.
    CloseBucket {
        /// The bucket.
        bucket: u64,
    },
    /// There is a new agent.
    OpenAgent {
        /// The bucket.
        bucket: u64,
        /// The number of the agent.
        serial: AgentSerial,
        /// Its id for callers.
        agent: AgentId,
        /// Its client id.
        client_id: ClientId,
    },
    /// An agent has said something of itself.
    Describe {
        /// The number of the agent.
        serial: AgentSerial,
        /// What it has said.
        info: AgentInfo,
    },
    /// A request was said to be made inside a lock, or to give up by itself.
    Nested {
        /// The number of the agent.
        serial: AgentSerial,
    },
    /// If this connection owns the name, it has to write the name's locks, so that others see them.
    /// The reason is that a request waits elsewhere inside one of these locks, or that the name was
    /// owned for a run that is over.
    Leave {
        /// The bucket.
        bucket: u64,
        /// The name.
        name: NameKey,
    },
    /// An agent has ended. This has all its locks and requests that the store may know of.
    EndAgent {
        /// The number of the agent.
        serial: AgentSerial,
        /// Its locks and requests.
        ended: Vec<(RequestId, Finished)>,
    },
    /// A request was made, which the table has.
    Request {
        /// The bucket.
        bucket: u64,
        /// The number of the agent.
        serial: AgentSerial,
        /// The request.
        id: RequestId,
        /// The name.
        name: NameKey,
    },
    /// A request or lock has ended.
    Finish {
        /// The request.
        id: RequestId,
        /// What the store may know of it.
        finished: Finished,
    },
    /// A caller asks about all names, or about one.
    Query {
        /// The bucket.
        bucket: u64,
        /// The name, if one is asked for.
        name: Option<NameKey>,
        /// How many locks and requests are wanted at most.
        most: usize,
        /// Whether owners of names are asked what is held.
        asks: Asks,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<QueryResult, Error>>,
    },
    /// An agent claims what it had through another connection of this machine, which has ended.
    Reclaim {
        /// The number of the agent.
        serial: AgentSerial,
        /// What it claims.
        claims: Vec<Claim>,
        /// For each claim the ticket, if it was found.
        answer: oneshot::Sender<Vec<Option<Ticket>>>,
    },
    /// Agents are dead, whose shares these are. What they have left is to be ended.
    Revoke {
        /// The shares.
        left: Vec<Share>,
        /// Whether all of it has ended.
        answer: oneshot::Sender<bool>,
    },
    /// A person takes a name away from the holders that were seen.
    Evict {
        /// The name of the bucket.
        bucket: String,
        /// The name.
        name: ResourceName,
        /// Who was seen to hold it, each with its token.
        seen: Vec<(ClientId, FencingToken)>,
        /// What came of it.
        answer: oneshot::Sender<Result<Eviction, Error>>,
    },
    /// A looker asks which of these leases of others were not renewed in time.
    Silences {
        /// The leases.
        leases: Vec<i64>,
        /// Those that were not.
        answer: oneshot::Sender<Silences>,
    },
}

/// The leases that were not renewed in time.
pub(crate) type Silences = HashMap<i64, Unheard, HashState>;
