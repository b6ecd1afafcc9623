//! The messages from the daemon to a client.

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

/// One message from the daemon to a client.
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
        /// Which request.
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
        /// Which request.
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
        /// How it was lost.
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
        /// The status.
        status: Status,
    },
    /// What was claimed is settled, and requests are granted from now on. Sent once, after
    /// [`ToDaemon::Introduce`](crate::ToDaemon::Introduce) and all claims.
    Settled,
    /// Since version 3, in place of [`Welcome`](Self::Welcome): the session has begun, and its locks
    /// are seen beyond this machine.
    WelcomeShared {
        /// The version that is spoken in it.
        version: u16,
        /// How far they are seen, for people.
        reach: String,
    },
    /// Since version 3: until when this agent has its locks and requests. If the client hears
    /// nothing further by then, the agent's locks are lost. Sent before the agent's first grant,
    /// and whenever the time has changed while the agent holds something.
    Term {
        /// Which agent.
        agent: Agent,
        /// When its time is over.
        ends: BootTime,
    },
    /// Since version 4: the limits and settings under which the daemon runs.
    Details {
        /// To which question.
        query: Query,
        /// Names and values, in words for people. Releases know more or fewer of them.
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
        /// What that holder says of itself.
        agent: Option<AgentInfo>,
        /// How many hold it.
        holders: u64,
        /// How many requests are before the agent's first one; `None` if it has none in the queue.
        ahead: Option<u64>,
    },
    /// Since version 4, after each [`Term`](Self::Term): its other moments. Also sent for agents
    /// that only wait.
    TermBounds {
        /// Which agent.
        agent: Agent,
        /// When whoever keeps the locks was last heard of.
        heard: BootTime,
        /// By when it is to be heard of again. From then on something is wrong.
        due: BootTime,
        /// When others may be granted what the agent has.
        expires: BootTime,
    },
    /// Since version 4: somebody has removed files from the daemon's directory. The client is to see to it that its
    /// own file is there, or the next daemon will not know that the client lives.
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
        /// Which request.
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
        /// More such names.
        names: Vec<OwnedEntry>,
    },
    /// Since version 6: a picture of all that there is follows, and what was said before is to be forgotten.
    LookBegins {
        /// How many events are not told, because the looker was too slow.
        missed: u64,
        /// The PID namespace of the numbers of clients' processes, by its inode; `None` if that is not known.
        pids: Option<u64>,
    },
    /// Since version 6: a part of the picture or, after [`LookComplete`](Self::LookComplete), what has happened.
    LookEvents {
        /// The events, in their order.
        events: Vec<LookEvent>,
    },
    /// Since version 6: the picture is complete.
    LookComplete,
    /// Since version 6, before the answer to a question: what these agents say of themselves beyond
    /// what the answer tells.
    Annotated {
        /// To which question.
        query: Query,
        /// The agents that have said something, each with what it has said.
        agents: Vec<(ClientId, Meta)>,
    },
    /// Since version 6: the daemon's report on itself.
    Report {
        /// To which question.
        query: Query,
        /// The report.
        report: Report,
    },
    /// Since version 6: what is logged from now on.
    Logs {
        /// To which question.
        query: Query,
        /// What the daemon has set, or why nothing was changed, for people.
        outcome: Result<String, String>,
    },
    /// Since version 6: this request is in a deadlock, and has been for a while: it waits for others that wait for
    /// it.
    Deadlock {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Who waits for whom, for people.
        told: String,
        /// Whether it was made last of all requests in the deadlock.
        is_last: bool,
    },
    /// Since version 6: from how many holders the name was stolen, or why it was not.
    Stolen {
        /// To which question.
        query: Query,
        /// The number, or the reason.
        outcome: Result<u64, NotStolen>,
    },
    /// Since version 6, before [`LookBegins`](Self::LookBegins): the daemon waits for the clients of the daemon
    /// before it. The picture follows once they have come back, or were given up.
    Recovering,
    /// Since version 6, before an inspection: how many locks and requests it leaves out.
    LeftOut {
        /// To which question.
        query: Query,
        /// How many.
        count: u64,
    },
}
