//! The messages from the daemon to a client.

use navlock_core::{Inspected, LockInfo, Position};
use navlock_engine::{FencingToken, RequestId};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Failure, HowLost},
    ids::{Agent, BootTime, Query},
    looking::LookEvent,
    status::Status,
    stealing::NotStolen,
};

/// The moments of a [term](FromDaemon::Term) apart from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermBounds {
    /// When the service that keeps the locks was last heard of.
    pub heard: BootTime,
    /// By when that service is to be heard of again. From then on something is wrong.
    pub due: BootTime,
    /// When others may be granted what the agent has.
    pub expires: BootTime,
}

/// One message from the daemon to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FromDaemon {
    /// The session has begun.
    Welcome {
        /// The version that is spoken in the session.
        version: u16,
        /// How far the locks are seen, for people, if they are seen beyond this machine.
        reach: Option<String>,
    },
    /// There will be no session.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// The request is a lock now.
    Granted {
        /// Which request.
        request: RequestId,
        /// The lock's fencing token.
        token: FencingToken,
        /// Whether the request's slot says so as well.
        in_slot: bool,
    },
    /// The lock could not be had at once, and only that was asked for.
    Unavailable {
        /// Which request.
        request: RequestId,
    },
    /// The request has ended without a lock.
    Failed {
        /// Which request.
        request: RequestId,
        /// Why.
        failure: Failure,
    },
    /// The lock is not held any more, against its holder's will.
    Lost {
        /// The request that the lock came from.
        request: RequestId,
        /// How the lock was lost, and who has stolen it.
        how: HowLost,
    },
    /// A part of a snapshot. A snapshot that is too long for a frame comes in several parts.
    Snapshot {
        /// To which question.
        query: Query,
        /// More held locks.
        held: Vec<LockInfo>,
        /// More pending requests.
        pending: Vec<LockInfo>,
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
    /// A part of an inspection, which comes in parts as a snapshot does.
    Inspection {
        /// To which question.
        query: Query,
        /// More held locks.
        held: Vec<Inspected>,
        /// More pending requests.
        pending: Vec<Inspected>,
        /// More names that are owned and that nobody holds.
        owned: Vec<Inspected>,
        /// How many locks and requests are left out.
        left_out: u64,
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
    /// Tells until when this agent has its locks and requests. If the client hears nothing further by
    /// then, the agent's locks are lost. Sent before the agent's first grant, and whenever the time has
    /// changed while the agent holds something.
    Term {
        /// Which agent.
        agent: Agent,
        /// When the agent's time is over.
        ends: BootTime,
        /// The other moments of the term, if they are known.
        bounds: Option<TermBounds>,
    },
    /// The daemon ends now, as it was asked to. The connection ends with it.
    Stopping,
    /// Where an agent stands in the queue of a name.
    Position {
        /// To which question.
        query: Query,
        /// The place.
        position: Position,
    },
    /// Somebody has removed files from the daemon's directory. The client is to see to it that its own
    /// file is there, or the next daemon will not know that the client lives.
    Register,
    /// The daemon has mapped the client's file, and found in it what the client said.
    Mapped {
        /// What the daemon has written into the file.
        nonce: u64,
        /// The sum of this number and a [`Moment`](crate::Moment) of the client's clock is a fencing token.
        /// The token is larger than all tokens that were given up to that moment, and smaller than those
        /// that will be given later.
        epoch: u64,
    },
    /// A picture of all locks and requests follows. The looker is to forget what it was told before.
    LookBegins {
        /// How many events are not told, because the looker was too slow.
        missed: u64,
        /// The inode of the PID namespace in which the process numbers of clients are meant; `None` if
        /// it is not known.
        pids: Option<u64>,
    },
    /// A part of the picture or, after [`LookComplete`](Self::LookComplete), what has happened.
    LookEvents {
        /// The events, in their order.
        events: Vec<LookEvent>,
    },
    /// The picture is complete.
    LookComplete,
    /// What is logged from now on.
    Logs {
        /// To which question.
        query: Query,
        /// What the daemon has set, or why nothing was changed, for people.
        outcome: Result<String, String>,
    },
    /// The request has been in a deadlock for a while: it waits for others that wait for it.
    Deadlock {
        /// Which request.
        request: RequestId,
        /// Who waits for whom, for people.
        told: String,
        /// Whether it is this request that gives way.
        gives_way: bool,
    },
    /// From how many holders the name was stolen, or why it was not.
    Stolen {
        /// To which question.
        query: Query,
        /// The number, or the reason.
        outcome: Result<u64, NotStolen>,
    },
    /// The daemon waits for the clients of the daemon before it. The picture follows once they have come
    /// back, or were given up. Sent before [`LookBegins`](Self::LookBegins).
    Recovering,
    /// What was to be done with a file is done, or why it is not, for people.
    File {
        /// The outcome.
        outcome: Result<(), String>,
    },
}
