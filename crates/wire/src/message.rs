//! The messages.

use navlock_engine::{FencingToken, Mode, RequestId, RequestKind, ResourceName};
use serde::{Deserialize, Serialize};

use crate::{
    agent_info::{AgentInfo, Meta},
    failure::{Failure, Lost},
    ids::{Agent, ClientId, ClientKey, LockId, Moment, Query, Slot, Uptime},
    looking::LookEvent,
    report::Report,
    serde_remote::{
        FencingTokenForm, ModeForm, RequestIdForm, RequestKindForm, name, optional_name,
    },
    stealing::NotStolen,
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
    /// of the names it owns. Answered by [`Mapped`](FromDaemon::Mapped), or not at all by a daemon that
    /// has no use for it.
    Map {
        /// What the client has written into it: who reads the same sees the same memory.
        nonce: u64,
    },
    /// Since version 5, after [`Mapped`](FromDaemon::Mapped): as [`Request`](Self::Request), with a
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

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FromDaemon {
    /// The session has begun.
    Welcome {
        /// The version that is spoken in it.
        version: u16,
    },
    /// There will be no session.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// The request is a lock now.
    Granted {
        /// Which.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Its fencing token.
        #[serde(with = "FencingTokenForm")]
        token: FencingToken,
    },
    /// The lock could not be had at once, and only that was asked for.
    Unavailable {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
    },
    /// The request has ended without a lock.
    Failed {
        /// Which.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Why.
        failure: Failure,
    },
    /// The lock is not held any more, against its holder's will.
    Lost {
        /// Which request it had come from.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// How.
        how: Lost,
    },
    /// A part of a snapshot: one that is too long for a frame comes in several.
    Snapshot {
        /// To which question.
        query: Query,
        /// More held locks.
        held: Vec<SnapshotEntry>,
        /// More pending requests.
        pending: Vec<SnapshotEntry>,
        /// Whether this was the last part.
        last: bool,
    },
    /// There will be no snapshot.
    QueryFailed {
        /// To which question.
        query: Query,
        /// Why.
        failure: Failure,
    },
    /// Since version 2: a part of an inspection, as of a snapshot.
    Inspection {
        /// To which question.
        query: Query,
        /// The agents that are seen for the first time in this part.
        agents: Vec<(ClientId, AgentInfo)>,
        /// More held locks.
        held: Vec<InspectionEntry>,
        /// More pending requests.
        pending: Vec<InspectionEntry>,
        /// Whether this was the last part.
        last: bool,
    },
    /// How the daemon is.
    Status {
        /// To which question.
        query: Query,
        /// That.
        status: Status,
    },
    /// What was claimed is settled, and requests are granted from now on. Once, after
    /// [`ToDaemon::Introduce`] and whatever was claimed.
    Settled,
    /// Since version 3, in place of [`Welcome`](Self::Welcome): the session has begun, and its locks
    /// are seen beyond this machine.
    WelcomeShared {
        /// The version that is spoken in it.
        version: u16,
        /// How far they are seen, for people.
        reach: String,
    },
    /// Since version 3: until when what this agent has is its own. If nothing further is heard by
    /// then, its locks are lost. Said before its first grant, and whenever it has changed while it
    /// holds something.
    Term {
        /// Whose.
        agent: Agent,
        /// When that is over.
        ends: Uptime,
    },
    /// Since version 4: under what the daemon runs.
    Details {
        /// To which question.
        query: Query,
        /// What is known and how it is, in words for people. Releases know more or less.
        details: Vec<(String, String)>,
    },
    /// Since version 4: the daemon ends now, as it was asked to. The connection ends with it.
    Stopping,
    /// Since version 4: where an agent stands in the queue of a name.
    Position {
        /// To which question.
        query: Query,
        /// One of those who hold the name, if anybody does.
        holder: Option<InspectionEntry>,
        /// What that one says of itself.
        agent: Option<AgentInfo>,
        /// How many hold it.
        holders: u64,
        /// How many requests are before the agent's first one; `None` if it has none in the queue.
        ahead: Option<u64>,
    },
    /// Since version 4, after each [`Term`](Self::Term): the rest of it. Also said of agents that
    /// only wait.
    TermBounds {
        /// Whose.
        agent: Agent,
        /// When what keeps the locks was last heard of.
        heard: Uptime,
        /// By when it is to be heard of again. From then on something is wrong.
        due: Uptime,
        /// When others may be granted what the agent has.
        expires: Uptime,
    },
    /// Since version 4: somebody has removed files from the daemon's directory. The client is to see to
    /// it that its own is there, or the next daemon will not know that it lives.
    Register,
    /// Since version 5: the daemon has mapped the client's file, and found in it what the client said.
    Mapped {
        /// What the daemon has written into it.
        nonce: u64,
        /// Added to a [`Moment`], it gives a fencing token that is larger than all that were given up
        /// to that moment and smaller than those that will be given later.
        epoch: u64,
    },
    /// Since version 5: the request is a lock now, and its slot says so.
    GrantedInSlot {
        /// Which.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Its fencing token.
        #[serde(with = "FencingTokenForm")]
        token: FencingToken,
    },
    /// Since version 5, before the last part of an inspection: names that are owned and that nobody
    /// holds.
    Owned {
        /// To which question.
        query: Query,
        /// The agents that are seen for the first time in this part.
        agents: Vec<(ClientId, AgentInfo)>,
        /// More of them.
        names: Vec<OwnedEntry>,
    },
    /// Since version 6: what there is follows, and is all there is: what was said before is forgotten.
    LookBegins {
        /// How much has happened that is not told, because the looker was too slow.
        missed: u64,
        /// In which PID namespace the numbers of clients' processes are, by its inode; `None` if that is
        /// not known.
        pids: Option<u64>,
    },
    /// Since version 6: what there is or, after [`LookComplete`](Self::LookComplete), what has happened.
    LookEvents {
        /// In this order.
        events: Vec<LookEvent>,
    },
    /// Since version 6: that was all there is.
    LookComplete,
    /// Since version 6, before the answer to a question: what these agents say of themselves beyond
    /// what the answer tells.
    Annotated {
        /// To which question.
        query: Query,
        /// Who has said something.
        agents: Vec<(ClientId, Meta)>,
    },
    /// Since version 6: how it has gone.
    Report {
        /// To which question.
        query: Query,
        /// That.
        report: Report,
    },
    /// Since version 6: what is logged from now on.
    Logs {
        /// To which question.
        query: Query,
        /// That, or why it is as it was, for people.
        outcome: Result<String, String>,
    },
    /// Since version 6: this request, which waits, waits for others that wait for it, and has for a while.
    Deadlock {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Who waits for whom, for people.
        told: String,
        /// It is the one that was made last of all of them.
        is_last: bool,
    },
    /// Since version 6: the name was stolen from so many, or why it was not.
    Stolen {
        /// To which question.
        query: Query,
        /// That.
        outcome: Result<u64, NotStolen>,
    },
    /// Since version 6, before [`LookBegins`](Self::LookBegins): the clients of the daemon before are waited
    /// for. What there is follows once they have come back, or were given up.
    Recovering,
    /// Since version 6, before an inspection: how many locks and requests it leaves out.
    LeftOut {
        /// To which question.
        query: Query,
        /// So many.
        count: u64,
    },
}

/// One lock or one pending request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// The name that is held or waited for.
    #[serde(with = "name")]
    pub name: ResourceName,
    /// In which mode.
    #[serde(with = "ModeForm")]
    pub mode: Mode,
    /// By whom.
    pub client_id: ClientId,
}

/// One lock or one pending request, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectionEntry {
    /// What a snapshot says of it.
    pub entry: SnapshotEntry,
    /// For how long it has been held or pending, in milliseconds.
    pub age: Option<u64>,
    /// The fencing token of a held lock.
    pub token: Option<u64>,
}

/// A name that is an agent's to take without asking, until somebody else asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedEntry {
    /// The name, in which mode it can be taken, and by whom.
    pub entry: SnapshotEntry,
    /// For how long it has been the agent's, in milliseconds.
    pub age: u64,
    /// How often it was taken without asking since then.
    pub taken: u64,
}

/// How a daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// For how long it has run, in milliseconds.
    pub age: u64,
    /// How many clients are connected, with the one that asks.
    pub clients: u64,
    /// How many commands hold locks whose client was killed.
    pub orphans: u64,
    /// How many locks they hold.
    pub held: u64,
    /// How many requests of theirs are pending.
    pub pending: u64,
}
