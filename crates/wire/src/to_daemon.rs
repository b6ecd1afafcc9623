//! The messages from a client to the daemon.

use std::sync::Arc;

use navlock_core::{AgentInfo, look::LockId};
use navlock_engine::{FencingToken, Mode, Patience, RequestId, RequestKind, ResourceName};
use serde::{Deserialize, Serialize};

use crate::{
    file_task::FileTask,
    ids::{Agent, ClientId, ClientKey, Moment, Query, Slot},
    limits::{short_enough, short_or_none},
};

/// A message from a client to the daemon, with the time at which it was sent.
///
/// The daemon acts on the messages of all its clients in the order of these times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent<Message = ToDaemon> {
    /// When the message was encoded. Messages of one connection are encoded in the order in which they
    /// are sent.
    pub at: Moment,
    /// The message.
    pub message: Message,
}

/// One message from a client to the daemon.
///
/// The client numbers its agents and requests, so that it need not wait for an answer before it
/// goes on. The numbers mean nothing in any other session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ToDaemon {
    /// Says which versions of the protocol the client speaks. The first message of a connection.
    Hello {
        /// The oldest of these versions.
        oldest: u16,
        /// The newest of these versions.
        newest: u16,
    },
    /// Opens an agent in this bucket.
    OpenAgent {
        /// The agent's number from now on.
        agent: Agent,
        /// The id by which snapshots name the agent.
        client_id: ClientId,
        /// The bucket's name.
        bucket: String,
    },
    /// Closes the agent: its requests and locks end.
    CloseAgent {
        /// Which agent.
        agent: Agent,
    },
    /// Terminates the agent: its requests and locks end, and it gets none any more.
    Terminate {
        /// Which agent.
        agent: Agent,
    },
    /// The agent requests a lock.
    Request {
        /// Which agent.
        agent: Agent,
        /// The request's number; never used before in this session. The number also finishes what the
        /// client takes in the slot later.
        request: RequestId,
        /// The lock's name.
        #[serde(deserialize_with = "short_enough")]
        name: ResourceName,
        /// What kind of request it is.
        kind: RequestKind,
        /// The slot of the map that the client has reserved, and in which it has described the request.
        /// Given only after [`Mapped`](crate::FromDaemon::Mapped).
        slot: Option<Slot>,
    },
    /// Aborts the request, or releases the lock if the request has become one.
    Finish {
        /// Which request.
        request: RequestId,
    },
    /// Asks what is held and what is pending in a bucket.
    Query {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: Arc<str>,
    },
    /// Says who the client is. Sent right after the greeting.
    Introduce {
        /// The client's key.
        client: ClientKey,
        /// Whether the client was connected before. Then its claims follow, up to
        /// [`Claimed`](Self::Claimed). Each agent is [opened](Self::OpenAgent) before its claims.
        returning: bool,
    },
    /// Claims a lock that the client held when the daemon before this one ended.
    ClaimLock {
        /// Which agent.
        agent: Agent,
        /// The number of the request that the lock came from.
        request: RequestId,
        /// The lock's name.
        #[serde(deserialize_with = "short_enough")]
        name: ResourceName,
        /// How the lock is held.
        mode: Mode,
        /// The lock's fencing token, which the lock keeps.
        token: FencingToken,
        /// When the lock was granted.
        since: Moment,
    },
    /// Claims a request that was pending, as far as the client knows, when the daemon before this
    /// one ended.
    ClaimRequest {
        /// Which agent.
        agent: Agent,
        /// The request's number.
        request: RequestId,
        /// The lock's name.
        #[serde(deserialize_with = "short_enough")]
        name: ResourceName,
        /// What kind of request it is.
        kind: RequestKind,
        /// When the request was made. This decides its place in the queue.
        since: Moment,
    },
    /// Ends the claims of this client.
    Claimed,
    /// Tells what the agent says of itself.
    Describe {
        /// Which agent.
        agent: Agent,
        /// What the agent says.
        info: AgentInfo,
    },
    /// Asks what [`Query`](Self::Query) asks, with all details.
    Inspect {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: Arc<str>,
        /// The one lock name that is asked for; `None` for all names.
        #[serde(deserialize_with = "short_or_none")]
        name: Option<ResourceName>,
    },
    /// Asks for the daemon's status, also before [`Introduce`](Self::Introduce).
    Status {
        /// The question's number.
        query: Query,
    },
    /// Asks the daemon to end. Its clients claim what they have from the next one. Sent in place of
    /// [`Introduce`](Self::Introduce).
    Stop,
    /// Asks where an agent stands in the queue of a name, and who holds the name. Of the other
    /// requests in the queue, the answer tells only the number.
    Position {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: Arc<str>,
        /// Which queue.
        #[serde(deserialize_with = "short_enough")]
        name: ResourceName,
        /// Which agent.
        client_id: ClientId,
    },
    /// Says that the client's own file is a map of the locks that the client holds and of the names
    /// that it owns. The daemon answers [`Mapped`](crate::FromDaemon::Mapped), or nothing if it does
    /// not use the map. Sent at most once in a session.
    Map {
        /// The number that the client has written into the map. If the daemon reads the same number
        /// there, both see the same memory.
        nonce: u64,
    },
    /// The request was made inside a lock, whose holder releases it only after this request was
    /// granted. Sent once for each such lock, after the request or the claim.
    Inside {
        /// Which request.
        request: RequestId,
        /// Which lock.
        lock: LockId,
    },
    /// Asks for a picture of the locks and requests, and for the events after it. The client sends
    /// nothing else on this connection. Sent in place of [`Introduce`](Self::Introduce).
    Look {
        /// The one bucket that is asked for; `None` for all buckets.
        bucket: Option<String>,
        /// The one lock name that is asked for; `None` for all names.
        #[serde(deserialize_with = "short_or_none")]
        name: Option<ResourceName>,
        /// Whether the events after the picture are asked for as well.
        follow: bool,
    },
    /// Sets what the daemon logs from now on. Sent before [`Introduce`](Self::Introduce).
    Log {
        /// The question's number.
        query: Query,
        /// The filter, in the form that the daemon's program understands.
        filter: String,
    },
    /// Steals a name from the holders that were seen, and releases it at once. Nothing is stolen if
    /// somebody else holds the name. Sent before [`Introduce`](Self::Introduce).
    Steal {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: String,
        /// Which name.
        #[serde(deserialize_with = "short_enough")]
        name: ResourceName,
        /// The locks that were seen, each with its fencing token, because an owner takes its name again
        /// and again under the same id.
        from: Vec<(LockId, FencingToken)>,
        /// Who steals the name, as those who lose it and those who look are told.
        info: AgentInfo,
    },
    /// How long the request waits, if not for ever. Sent after the request or the claim.
    Patience {
        /// Which request.
        request: RequestId,
        /// How long.
        patience: Patience,
    },
    /// Says what the lock of a request is for. Sent before the request or the claim, so that nobody sees
    /// the request without it.
    Why {
        /// Which request.
        request: RequestId,
        /// What its lock is for.
        why: String,
    },
    /// Asks for one of the client's files. With the [answer](crate::FromDaemon::File) come two descriptors of a file
    /// that was made: one by which the file is locked, and another one. Sent before
    /// [`Introduce`](Self::Introduce), on a connection of its own.
    File {
        /// The client's key.
        client: ClientKey,
        /// What is to be done.
        task: FileTask,
    },
}
