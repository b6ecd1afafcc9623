//! What a daemon says.

use navlock_engine::{FencingToken, RequestId};
use serde::{Deserialize, Serialize};

use crate::{
    agent_info::{AgentInfo, Meta},
    entries::{InspectionEntry, OwnedEntry, SnapshotEntry, Status},
    failure::{Failure, Lost},
    ids::{Agent, BootTime, ClientId, Query},
    looking::LookEvent,
    report::Report,
    serde_remote::{FencingTokenForm, RequestIdForm},
    stealing::NotStolen,
};

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
    /// [`ToDaemon::Introduce`](crate::ToDaemon::Introduce) and whatever was claimed.
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
        ends: BootTime,
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
        heard: BootTime,
        /// By when it is to be heard of again. From then on something is wrong.
        due: BootTime,
        /// When others may be granted what the agent has.
        expires: BootTime,
    },
    /// Since version 4: somebody has removed files from the daemon's directory. The client is to see to
    /// it that its own is there, or the next daemon will not know that it lives.
    Register,
    /// Since version 5: the daemon has mapped the client's file, and found in it what the client said.
    Mapped {
        /// What the daemon has written into it.
        nonce: u64,
        /// Added to a [`Moment`](crate::Moment), it gives a fencing token that is larger than all that
        /// were given up to that moment and smaller than those that will be given later.
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
