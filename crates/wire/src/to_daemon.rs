//! What a client says.

use navlock_engine::{FencingToken, Mode, RequestId, RequestKind, ResourceName};
use serde::{Deserialize, Serialize};

use crate::{
    agent_info::{AgentInfo, Meta},
    ids::{Agent, ClientId, ClientKey, LockId, Moment, Query, Slot},
    serde_remote::{
        FencingTokenForm, ModeForm, RequestIdForm, RequestKindForm, name, optional_name,
    },
};

/// What a client says.
///
/// Agents and requests are numbered by the client, so that it need not wait for an answer before
/// it goes on; the numbers mean nothing in any other session.
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
    /// An agent is there, in this bucket.
    OpenAgent {
        /// Its number from now on.
        agent: Agent,
        /// What a snapshot calls it.
        client_id: ClientId,
        /// Its bucket's name.
        bucket: String,
    },
    /// The agent is gone, with all it has.
    CloseAgent {
        /// Which.
        agent: Agent,
    },
    /// The agent has ended: it waits for nothing, holds nothing, and gets nothing any more.
    Terminate {
        /// Which.
        agent: Agent,
    },
    /// The agent requests a lock.
    Request {
        /// Who.
        agent: Agent,
        /// The request's number; never used before in this session.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// The lock's name.
        #[serde(with = "name")]
        name: ResourceName,
        /// How.
        #[serde(with = "RequestKindForm")]
        kind: RequestKind,
    },
    /// Aborts a request or releases a lock, whichever it is by now.
    Finish {
        /// Which.
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
        /// Whose.
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
        /// Whose.
        agent: Agent,
        /// Its number.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// The lock's name.
        #[serde(with = "name")]
        name: ResourceName,
        /// How.
        #[serde(with = "RequestKindForm")]
        kind: RequestKind,
        /// When it was made: its place in the queue.
        since: Moment,
    },
    /// That was all the client claims.
    Claimed,
    /// What the agent says of itself.
    Describe {
        /// Which.
        agent: Agent,
        /// That.
        info: AgentInfo,
    },
    /// As [`Query`](Self::Query), with all that is known of it.
    Inspect {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: String,
        /// Of this name only.
        #[serde(with = "optional_name")]
        name: Option<ResourceName>,
    },
    /// Asks how the daemon is. Since version 4 also before [`Introduce`](Self::Introduce).
    Status {
        /// The question's number.
        query: Query,
    },
    /// Since version 4, before [`Introduce`](Self::Introduce): asks under what the daemon runs.
    Details {
        /// The question's number.
        query: Query,
    },
    /// Since version 4, in place of [`Introduce`](Self::Introduce): the daemon shall end. Its clients
    /// claim what they have from the next one.
    Stop,
    /// Since version 4: asks where an agent stands in the queue of a name, and who holds that; of the
    /// others in the queue only their number is told.
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
    /// Since version 5, once in a session: the client's own file is a map of the locks it holds, and
    /// of the names it owns. Answered by [`Mapped`](crate::FromDaemon::Mapped), or not at all by a
    /// daemon that has no use for it.
    Map {
        /// What the client has written into it: who reads the same sees the same memory.
        nonce: u64,
    },
    /// Since version 5, after [`Mapped`](crate::FromDaemon::Mapped): as [`Request`](Self::Request), with a
    /// slot of the map that the client has reserved, and in which it has described the request.
    RequestInSlot {
        /// Who.
        agent: Agent,
        /// The request's number; never used before in this session. What is taken in the slot later on
        /// is finished by it as well.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// The lock's name.
        #[serde(with = "name")]
        name: ResourceName,
        /// How.
        #[serde(with = "RequestKindForm")]
        kind: RequestKind,
        /// Where.
        slot: Slot,
    },
    /// Since version 6: what the agent says of itself beyond [`Describe`](Self::Describe).
    Annotate {
        /// Which.
        agent: Agent,
        /// That.
        meta: Meta,
    },
    /// Since version 6, after the request or the claim: it was made inside a lock, whose holder goes on, and
    /// lets go of it, only once this one was granted. Said for each of several.
    Inside {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Which lock.
        lock: LockId,
    },
    /// Since version 6, in place of [`Introduce`](Self::Introduce): asks what there is, and to be told
    /// what happens. Nothing else is said on this connection from then on.
    Look {
        /// In this bucket only.
        bucket: Option<String>,
        /// Of this name only.
        #[serde(with = "optional_name")]
        name: Option<ResourceName>,
        /// Whether also to be told what happens from then on.
        follow: bool,
    },
    /// Since version 6, before [`Introduce`](Self::Introduce): asks how it has gone with the daemon.
    Report {
        /// The question's number.
        query: Query,
    },
    /// Since version 6, before [`Introduce`](Self::Introduce): the daemon shall log this from now on.
    Log {
        /// The question's number.
        query: Query,
        /// What, in words of the daemon's program.
        filter: String,
    },
    /// Since version 6, before [`Introduce`](Self::Introduce): the name is to be taken from whoever holds it
    /// and let go of at once, if nobody holds it but these.
    Steal {
        /// The question's number.
        query: Query,
        /// The name's bucket.
        bucket: String,
        /// Which name.
        #[serde(with = "name")]
        name: ResourceName,
        /// Who was seen to hold it, each with its fencing token: an owner holds its name again and again by
        /// the same id.
        from: Vec<(LockId, u64)>,
        /// Who takes it, for those who lose it and those who look.
        info: AgentInfo,
    },
    /// Since version 6, after the request or the claim: it may give up by itself, so that nobody waits for it
    /// for ever.
    MayGiveUp {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
    },
}
