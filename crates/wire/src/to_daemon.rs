//! The messages from a client to the daemon.

use navlock_engine::{FencingToken, Mode, RequestId, RequestKind, ResourceName};
use serde::{Deserialize, Serialize};

use crate::{
    agent_info::{AgentInfo, Meta},
    ids::{Agent, ClientId, ClientKey, LockId, Moment, Query, Slot},
    serde_remote::{
        FencingTokenForm, ModeForm, RequestIdForm, RequestKindForm, name, optional_name,
    },
};

/// One message from a client to the daemon.
///
/// The client numbers its agents and requests, so that it need not wait for an answer before it
/// goes on. The numbers mean nothing in any other session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ToDaemon {
    /// First of all: the versions of the protocol that the client speaks.
    Hello {
        /// The oldest.
        oldest: u16,
        /// The newest.
        newest: u16,
    },
    /// Opens an agent in this bucket.
    OpenAgent {
        /// Its number from now on.
        agent: Agent,
        /// What a snapshot calls it.
        client_id: ClientId,
        /// Its bucket's name.
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
        /// The request's number; never used before in this session.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// The lock's name.
        #[serde(with = "name")]
        name: ResourceName,
        /// What kind of request it is.
        #[serde(with = "RequestKindForm")]
        kind: RequestKind,
    },
    /// Aborts the request, or releases the lock if the request has become one.
    Finish {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
    },
    /// Asks what is held and what is pending in a bucket.
    Query {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: String,
    },
    /// Since version 2, right after the greeting: who the client is.
    Introduce {
        /// Its key.
        client: ClientKey,
        /// Whether it was connected before. Then what it claims follows, each agent
        /// [opened](Self::OpenAgent) before its claims, up to [`Claimed`](Self::Claimed).
        returning: bool,
    },
    /// A lock that the client held when the daemon before this one ended.
    ClaimLock {
        /// Which agent.
        agent: Agent,
        /// The number of the request that it came from.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Its name.
        #[serde(with = "name")]
        name: ResourceName,
        /// How it is held.
        #[serde(with = "ModeForm")]
        mode: Mode,
        /// Its fencing token, which it keeps.
        #[serde(with = "FencingTokenForm")]
        token: FencingToken,
        /// When it was granted.
        since: Moment,
    },
    /// A request that was pending, as far as the client knows, when the daemon before this one
    /// ended.
    ClaimRequest {
        /// Which agent.
        agent: Agent,
        /// Its number.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// The lock's name.
        #[serde(with = "name")]
        name: ResourceName,
        /// What kind of request it is.
        #[serde(with = "RequestKindForm")]
        kind: RequestKind,
        /// When it was made: its place in the queue.
        since: Moment,
    },
    /// Ends the claims of this client.
    Claimed,
    /// What the agent says of itself.
    Describe {
        /// Which agent.
        agent: Agent,
        /// What it says.
        info: AgentInfo,
    },
    /// As [`Query`](Self::Query), with all details.
    Inspect {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: String,
        /// Of this name only.
        #[serde(with = "optional_name")]
        name: Option<ResourceName>,
    },
    /// Asks for the daemon's status. Since version 4 also before [`Introduce`](Self::Introduce).
    Status {
        /// The question's number.
        query: Query,
    },
    /// Since version 4, before [`Introduce`](Self::Introduce): asks for the limits and settings
    /// under which the daemon runs.
    Details {
        /// The question's number.
        query: Query,
    },
    /// Since version 4, in place of [`Introduce`](Self::Introduce): the daemon shall end. Its clients
    /// claim what they have from the next one.
    Stop,
    /// Since version 4: asks where an agent stands in the queue of a name, and who holds the name. Of
    /// the other requests in the queue, the answer tells only the number.
    Position {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: String,
        /// Which queue.
        #[serde(with = "name")]
        name: ResourceName,
        /// Which agent.
        client_id: ClientId,
    },
    /// Since version 5, at most once in a session: the client's own file is a map of the locks that
    /// it holds and of the names that it owns. The daemon answers
    /// [`Mapped`](crate::FromDaemon::Mapped), or nothing if it does not use the map.
    Map {
        /// The number that the client has written into the map. If the daemon reads the same number
        /// there, both see the same memory.
        nonce: u64,
    },
    /// Since version 5, after [`Mapped`](crate::FromDaemon::Mapped): as [`Request`](Self::Request), with a
    /// slot of the map that the client has reserved, and in which it has described the request.
    RequestInSlot {
        /// Which agent.
        agent: Agent,
        /// The request's number; never used before in this session. It also finishes what the client
        /// takes in the slot later.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// The lock's name.
        #[serde(with = "name")]
        name: ResourceName,
        /// What kind of request it is.
        #[serde(with = "RequestKindForm")]
        kind: RequestKind,
        /// The slot.
        slot: Slot,
    },
    /// Since version 6: what the agent says of itself beyond [`Describe`](Self::Describe).
    Annotate {
        /// Which agent.
        agent: Agent,
        /// What it says.
        meta: Meta,
    },
    /// Since version 6, after the request or the claim: the request was made inside a lock, whose holder
    /// releases it only after this request was granted. Sent once for each such lock.
    Inside {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Which lock.
        lock: LockId,
    },
    /// Since version 6, in place of [`Introduce`](Self::Introduce): asks for a picture of the locks
    /// and requests, and for the events after it. The client sends nothing else on this connection.
    Look {
        /// In this bucket only.
        bucket: Option<String>,
        /// Of this name only.
        #[serde(with = "optional_name")]
        name: Option<ResourceName>,
        /// Whether to be told the events after the picture as well.
        follow: bool,
    },
    /// Since version 6, before [`Introduce`](Self::Introduce): asks for the daemon's report on
    /// itself.
    Report {
        /// The question's number.
        query: Query,
    },
    /// Since version 6, before [`Introduce`](Self::Introduce): sets what the daemon logs from now on.
    Log {
        /// The question's number.
        query: Query,
        /// The filter, in the form that the daemon's program understands.
        filter: String,
    },
    /// Since version 6, before [`Introduce`](Self::Introduce): steals the name from its holders and releases
    /// it at once, unless somebody else than these holds it.
    Steal {
        /// The question's number.
        query: Query,
        /// The name's bucket.
        bucket: String,
        /// Which name.
        #[serde(with = "name")]
        name: ResourceName,
        /// The locks that were seen, each with its fencing token, because an owner takes its name again and
        /// again under the same id.
        from: Vec<(LockId, u64)>,
        /// Who steals it, to be told to those who lose it and to lookers.
        info: AgentInfo,
    },
    /// Since version 6, after the request or the claim: the request may give up by itself, so nobody waits
    /// for it for ever.
    MayGiveUp {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
    },
}
