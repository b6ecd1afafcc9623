//! The seam between the handles and a reach. A reach decides how far a user agent's locks are seen.
//!
//! A [`Reach`] opens buckets; each bucket is a [`Backend`]. Commands are calls that return at once;
//! later outcomes are polled for with a waker. Handles do everything through these two traits, so
//! that the daemon can serve any reach and one suite tests them all.

mod any;
mod memory;
mod reach;
mod term;
mod ticket;

use std::{
    fmt,
    future::{Future, ready},
    pin::Pin,
    task::{Poll, Waker},
    time::Duration,
};

use navlock_engine::{AgentId, FencingToken, RequestKind, ResourceName};

pub(crate) use self::{
    any::{AnyBackend, AnyReach},
    memory::{Board, Heard, Reader},
    ticket::PackedTicket,
};
pub use self::{
    memory::{MemoryBackend, MemoryReach},
    reach::{EvictFuture, Eviction, Looking, Reach, RevokeFuture},
    term::Term,
    ticket::Ticket,
};
use crate::{
    AgentInfo, ClientId, Error, Inspection, LockManagerSnapshot, Lost, Position,
    further::NameRef,
    look::{InDeadlock, LockId, Patience},
};

/// The lock manager of one bucket, wherever it is.
///
/// # Calling order
///
/// 1. [`open_agent`](Self::open_agent) makes an agent known. If the agent comes from another process,
///    [`reclaim`](Self::reclaim) is next.
/// 2. [`request`](Self::request) asks for a lock, and returns a ticket. If the answer is not there at
///    once, the caller names the locks that the request is [inside](Self::put_inside) of, says that the
///    request is [`made`](Self::made), and waits by [`poll_request`](Self::poll_request).
/// 3. After a grant, [`poll_lost`](Self::poll_lost) and [`lost`](Self::lost) tell whether the lock is
///    lost.
/// 4. [`finish`](Self::finish) ends the request or the lock.
/// 5. [`close_agent`](Self::close_agent) or [`terminate`](Self::terminate) ends the agent.
///
/// All other methods look at the bucket, or tell the reach more about an agent or a request. Most of
/// them have a default, for a reach that knows or shows nothing further.
///
/// # Contract
///
/// - No call blocks or runs a callback.
/// - A waker given to a call that returned [`Poll::Pending`] is called once the answer is there.
///   Of those given for one ticket to the same method, only the last counts.
/// - No waker is called or dropped while a lock is held that another call needs.
/// - [`finish`](Self::finish) may come at any time and any number of times. Once the request or
///   lock has ended, it changes nothing.
/// - Requests of one agent for one name are queued in the order of the calls.
pub trait Backend: fmt::Debug + Send + Sync {
    /// How many lanes there are. Requests whose tickets have different lanes share no memory that
    /// is written to when a lock is free and taken, so that threads do not slow each other.
    fn lanes(&self) -> usize {
        1
    }

    /// Makes an agent known, before its first request.
    fn open_agent(&self, client_id: ClientId) -> AgentId;

    /// [Adds](AgentInfo::update) what an agent says of itself, for [`inspect`](Self::inspect). A reach that does not show
    /// this need not note it.
    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        let _ = (agent, info);
    }

    /// Closes an agent, and ends the locks and requests that it still has. The caller does not use
    /// its id after this.
    fn close_agent(&self, agent: AgentId);

    /// Ends all requests and locks of the agent; each further request of it fails with
    /// [`Error::Terminated`].
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    fn terminate(&self, agent: AgentId);

    /// Ends several agents. A reach that can do so ends all of them at one moment, so that no lock
    /// is granted to one of them because another ends. With other reaches, such a grant reaches
    /// nobody, because the agents' handles know already that the agents have ended.
    fn terminate_all(&self, agents: &[AgentId]) {
        for agent in agents {
            self.terminate(*agent);
        }
    }

    /// Requests a lock. If the answer is not there at once, `waker` is called when it is. A reach that does not
    /// show the `details` need not note them.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-request-lock>
    ///
    /// # Errors
    ///
    /// [`Error::Terminated`] if the agent has ended; [`Error::Unreachable`] if the reach cannot be reached.
    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        details: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error>;

    /// The answer to a request that was not answered at once.
    ///
    /// # Errors
    ///
    /// Those of [`request`](Self::request), if the cause came while the request was pending, and
    /// [`Error::Lost`] if the lock was granted and lost again before anyone asked.
    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>>;

    /// Ready once the lock of this ticket, which had been granted, is lost.
    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost>;

    /// Whether the lock of this ticket, which had been granted, is lost, and how.
    fn lost(&self, ticket: Ticket) -> Option<Lost>;

    /// Who has stolen the lock of this ticket, until the ticket is [finished](Self::finish). `None` if it
    /// was lost otherwise, or the reach does not know.
    fn stolen_by(&self, ticket: Ticket) -> Option<ClientId> {
        let _ = ticket;
        None
    }

    /// The serial number of the request or lock of this ticket: it does not change, and no other request
    /// of the agent has it. Those who [look](crate::look) know the request by it.
    fn serial(&self, ticket: Ticket) -> u64 {
        ticket.id.serial()
    }

    /// Notes, for those who look, that the waiting request of this ticket was made inside one more lock. A
    /// reach that does not show this need not note it.
    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        let _ = (ticket, lock);
    }

    /// Says that the request of this ticket, which was just made and has to wait, is complete: its first
    /// [`put_inside`](Self::put_inside) calls are done. Called once, right after a [`request`](Self::request)
    /// without an answer. A reach that sends the request to another process may wait for this call, to send
    /// everything in one message.
    fn made(&self, ticket: Ticket) {
        let _ = ticket;
    }

    /// Notes, for those who look, how long the waiting request of this ticket waits, if not for ever. A reach that
    /// does not show this need not note it.
    fn note_patience(&self, ticket: Ticket, patience: Patience) {
        let _ = (ticket, patience);
    }

    /// The locks inside which this whole process runs, such as the command of `navlock run` does. All its
    /// requests are made inside them.
    fn surrounding(&self) -> &[LockId] {
        &[]
    }

    /// The deadlock that the waiting request of this ticket is part of, if it is known. If it becomes
    /// known later, the waker of [`poll_request`](Self::poll_request) is called.
    fn deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        let _ = ticket;
        None
    }

    /// The deadlock in which the request of this ticket [gives way](InDeadlock::gives_way), if there is one. The
    /// caller must then [finish](Self::finish) the request at once, so that it fails. Only one caller is told of a
    /// cycle: for later callers, the cycle is broken.
    fn fail_in_deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        self.deadlock(ticket).filter(|deadlock| deadlock.gives_way)
    }

    /// Ends a request or a lock: aborts a pending request, or releases a lock.
    ///
    /// Whatever is asked after this has returned, by any agent of this machine, finds that it has ended. For
    /// this, a backend may wait until somebody else takes its message: a second at most. So may
    /// [`close_agent`](Self::close_agent) and [`terminate`](Self::terminate).
    fn finish(&self, ticket: Ticket);

    /// What is held and what is pending in the whole bucket, at one moment.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-snapshot-state>
    fn query(&self) -> QueryFuture<'_>;

    /// What is held and what is pending, of one name or of all, with all details that the reach knows.
    /// If the reach knows no details, the answer tells what [`query`](Self::query) tells.
    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        let snapshot = self.query();
        Box::pin(async move {
            let mut snapshot = snapshot.await?;
            if let Some(name) = name {
                snapshot.held.retain(|lock| lock.name == name);
                snapshot.pending.retain(|request| request.name == name);
            }
            Ok(snapshot.into())
        })
    }

    /// The reference by which users of the reach tell each other of this name in this bucket. By default it
    /// is the name.
    fn name_ref(&self, name: &ResourceName) -> NameRef {
        NameRef(name.as_bytes().into())
    }

    /// What is held and what is pending, of all names or of the one with this reference, for those who look
    /// again and again: owners of names are not asked what they hold. If `with_silence` is set, the answer
    /// also tells which holders have not been heard of, for which the reach has to ask more.
    fn look(&self, name: Option<NameRef>, with_silence: bool) -> InspectFuture<'_> {
        let _ = with_silence;
        match name.map(|name| ResourceName::from_wtf8(&name.0)).transpose() {
            Ok(name) => self.inspect(name),
            // These bytes refer to no name of this reach.
            Err(_) => Box::pin(ready(Ok(Inspection::default()))),
        }
    }

    /// Where the agent of this client id stands in the queue of a name. A reach that can tell this
    /// without a list of the queue does so.
    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        let inspection = self.inspect(Some(name.clone()));
        Box::pin(async move { Ok(Position::among(inspection.await?, &name, client_id)) })
    }

    /// Until when the agent has its locks if the reach is not heard of again. `None` if its locks do not
    /// run out. The moment is on the clock that counts from the start of the machine, with the time in
    /// which the machine was suspended (`CLOCK_BOOTTIME` on Linux).
    ///
    /// At that moment the backend itself tells the agent that its locks are lost. This method is
    /// for hosts that speak for agents of other processes, which must know the moment themselves.
    fn ends(&self, agent: AgentId) -> Option<Duration> {
        let _ = agent;
        None
    }

    /// What [`ends`](Self::ends) tells, and also when the reach was last heard of, and until when nobody
    /// else can be granted the agent's locks. `None` if the agent's locks do not run out, and if the
    /// backend knows no more than [`ends`](Self::ends).
    fn term(&self, agent: AgentId) -> Option<Term> {
        let _ = agent;
        None
    }

    /// Bytes by which another process can end all locks and requests of the agent, if this process is
    /// killed together with the agent's. [`Reach::revoke`] takes them, and they mean nothing to anybody
    /// else. They are valid for as long as the agent has a lock or a request. `None` if the agent has no
    /// lease.
    fn lease(&self, agent: AgentId) -> Option<Vec<u8>> {
        let _ = agent;
        None
    }

    /// Takes over the locks and requests that an agent of the same client id had through another
    /// process, which has ended. To be called once, before the agent's first request.
    ///
    /// Returns, for each claim, the ticket of the lock or request, as if its
    /// [`request`](Self::request) had returned [`Poll::Pending`] here; `None` if the lock or
    /// request is not there any more. Locks and requests that the agent does not claim are released
    /// and aborted. The claims are in the order of their requests. The answer comes when the reach
    /// has answered or cannot be asked.
    fn reclaim(&self, agent: AgentId, claims: Vec<Claim>) -> ReclaimFuture<'_> {
        let _ = agent;
        Box::pin(ready(vec![None; claims.len()]))
    }

    /// Makes sure that no later grant in the bucket gets a smaller fencing token than this one. Returns
    /// whether the backend does that. This is for a host that makes some tokens itself. Where the
    /// backend returns `false`, the host must make no tokens.
    fn raise_tokens(&self, least: FencingToken) -> bool {
        let _ = least;
        false
    }

    /// Says that the bucket is about to be forgotten: it has no agents, and gets none. If a bucket
    /// of this name is opened after this call, its fencing tokens must go on from the last ones.
    fn retire(&self) {}
}

/// The future of [`Backend::query`].
pub type QueryFuture<'a> =
    Pin<Box<dyn Future<Output = Result<LockManagerSnapshot, Error>> + Send + 'a>>;

/// The future of [`Backend::inspect`] and [`Backend::look`].
pub type InspectFuture<'a> = Pin<Box<dyn Future<Output = Result<Inspection, Error>> + Send + 'a>>;

/// The future of [`Backend::position`].
pub type PositionFuture<'a> = Pin<Box<dyn Future<Output = Result<Position, Error>> + Send + 'a>>;

/// The future of [`Backend::reclaim`].
pub type ReclaimFuture<'a> = Pin<Box<dyn Future<Output = Vec<Option<Ticket>>> + Send + 'a>>;

/// What is known of a request when it is made, besides what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDetails<'a> {
    /// What the lock is for; empty if the request does not say it.
    pub why: &'a str,
    /// The [serial number](Backend::serial) that the request has already, if a host makes it for the agent of
    /// another process. All machines know the request by it.
    pub serial: Option<u64>,
}

/// A lock or request that an agent claims to have had through another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The [serial number](RequestDetails::serial) with which it was made.
    pub serial: u64,
    /// The name.
    pub name: ResourceName,
    /// The kind of request that it was.
    pub kind: RequestKind,
    /// The token of the lock; `None` if the agent has not heard of a grant.
    pub token: Option<FencingToken>,
}

/// The answer to a request that is neither aborted nor terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The lock is held from now on.
    Granted(FencingToken),
    /// The lock could not be had at once, and only that was asked for.
    Unavailable,
}
