//! The seam between the handles and a reach: how far a user agent's locks are seen.
//!
//! A [`Reach`] opens buckets; each is a [`Backend`]. Commands go in as calls that return at once;
//! what comes of them is polled for with a waker. Everything that a face can do is done through
//! these two traits, so that the daemon serves any of them and one suite tests them all.

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
    memory::{Board, Heard},
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
    look::{InDeadlock, LockId},
    sighting::{NameRef, Sighting},
};

/// The lock manager of one bucket, wherever it is.
///
/// # Contract
///
/// - No call blocks or runs a callback.
/// - A waker given to a call that returned [`Poll::Pending`] is called once the answer is there.
///   Of those given for one ticket to the same method, only the last counts.
/// - No waker is called or dropped while a lock is held that another call needs.
/// - [`finish`](Self::finish) may come at any time, any number of times, also long after the
///   request or lock has ended, and then changes nothing.
/// - Requests of one agent for one name are queued in the order of the calls.
pub trait Backend: fmt::Debug + Send + Sync {
    /// How many lanes there are. Requests whose tickets have different lanes share no memory that
    /// is written to when a lock is free and taken, so that threads do not slow each other.
    fn lanes(&self) -> usize {
        1
    }

    /// Makes an agent known, before its first request.
    fn open_agent(&self, client_id: ClientId) -> AgentId;

    /// Notes what an agent says of itself, for [`inspect`](Self::inspect). A reach that does not
    /// keep it need not.
    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        let _ = (agent, info);
    }

    /// Forgets an agent that has nothing any more, or ends it with all it has. Its id is not used
    /// by the caller after this.
    fn close_agent(&self, agent: AgentId);

    /// Ends all that the agent waits for and holds; each further request of it fails with
    /// [`Error::Terminated`].
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    fn terminate(&self, agent: AgentId);

    /// Ends several agents. A reach that can do so ends them as one, so that nothing is granted to
    /// one of them because another ends; where it cannot, what is granted so reaches nobody, because
    /// their handles know by now that they have ended.
    fn terminate_all(&self, agents: &[AgentId]) {
        for agent in agents {
            self.terminate(*agent);
        }
    }

    /// Requests a lock. If the answer is not there at once, `waker` is called when it is.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-request-lock>
    ///
    /// # Errors
    ///
    /// [`Error::Terminated`] if the agent has ended; [`Error::Unreachable`] if the reach is not
    /// to be had.
    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error>;

    /// The answer to a request that was not answered at once.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request), if that happened while the request was pending, and
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

    /// Which of all that its agent has asked for the request or lock of this ticket is: the same for as
    /// long as it is there, and of no other of the agent's. Those who [look](crate::look) know it by this.
    fn serial(&self, ticket: Ticket) -> u64 {
        ticket.id.serial()
    }

    /// Notes, for those who look, that the request of this ticket, which waits, was made inside that lock,
    /// besides those that were said before. A reach that shows nothing of it need not.
    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        let _ = (ticket, lock);
    }

    /// All that there is to be said at once of the request of this ticket, which was just made and has to wait,
    /// was [said](Self::put_inside). Called once, right after the [`request`](Self::request) that was not
    /// answered: a reach that tells another process of it may keep that back until then, to say all in one.
    fn made(&self, ticket: Ticket) {
        let _ = ticket;
    }

    /// Notes, for those who look, that the request of this ticket, which waits, may give up by itself, as one
    /// that has a signal: so nobody waits for it for ever. A reach that shows nothing of it need not.
    fn note_may_give_up(&self, ticket: Ticket) {
        let _ = ticket;
    }

    /// The locks inside which this whole process runs, and with it all that it asks for: as the command of a
    /// `navlock run` does.
    fn surrounding(&self) -> &[LockId] {
        &[]
    }

    /// The deadlock that the request of this ticket, which waits, is part of, if that is known. Where it
    /// comes to be known later, the waker of [`poll_request`](Self::poll_request) is called.
    fn deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        let _ = ticket;
        None
    }

    /// The same for who is to fail in it and [finish](Self::finish) this request at once, if by that there came
    /// to be a circle. To whom it is told so, it is told alone: for whoever asks later, the circle is
    /// broken.
    fn fail_in_deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        self.deadlock(ticket).filter(|deadlock| deadlock.is_last)
    }

    /// Ends a request or a lock: aborts the one, releases the other.
    fn finish(&self, ticket: Ticket);

    /// What is held and what is pending in the whole bucket, at one moment.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-snapshot-state>
    fn query(&self) -> QueryFuture<'_>;

    /// The same with all that is known of it, of one name or of all; without more than
    /// [`query`](Self::query) says if the reach knows no more.
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

    /// The same of all names with what else the reach can find out, for those who look: it may ask whoever
    /// keeps the locks more than once for it.
    fn look(&self) -> SightFuture<'_> {
        let inspection = self.inspect(None);
        Box::pin(async move { Ok(inspection.await?.into()) })
    }

    /// How all who use the reach can name this name of the bucket to each other. By default it is the name.
    fn name_ref(&self, name: &ResourceName) -> NameRef {
        NameRef(name.as_bytes().into())
    }

    /// As [`look`](Self::look), of the one name that is called so; with who has not been heard of, or without,
    /// for which less is asked.
    fn look_at(&self, name: NameRef, with_silence: bool) -> SightFuture<'_> {
        let _ = with_silence;
        let inspection = ResourceName::from_wtf8(&name.0).map(|name| self.inspect(Some(name)));
        Box::pin(async move {
            // What is called in another way is no name here.
            let Ok(inspection) = inspection else { return Ok(Sighting::default()) };
            Ok(inspection.await?.into())
        })
    }

    /// Where the agent of this client id stands in the queue of a name. A reach that can tell without
    /// saying what else is in the queue does.
    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        let inspection = self.inspect(Some(name.clone()));
        Box::pin(async move { Ok(Position::among(inspection.await?, &name, client_id)) })
    }

    /// Until when all that the agent has is its own without further word from the reach: a moment
    /// on the clock that counts from the start of the machine, with the time in which it was
    /// suspended (`CLOCK_BOOTTIME` on Linux). `None` if it has nothing that could run out.
    ///
    /// At that moment the backend tells it by itself that its locks are lost. This is for those
    /// who speak for agents of other processes, which must know by themselves.
    fn ends(&self, agent: AgentId) -> Option<Duration> {
        let _ = agent;
        None
    }

    /// The same in full: when the reach was last heard of, and until when nobody else can be granted
    /// what the agent has. `None` as well if the backend does not know more than
    /// [`ends`](Self::ends).
    fn term(&self, agent: AgentId) -> Option<Term> {
        let _ = agent;
        None
    }

    /// What another process needs to end all that the agent has, should this one be killed together
    /// with the agent's: for [`Reach::revoke`]. Of no meaning to anybody else, and good for as long as
    /// the agent has anything. `None` if it has no lease.
    fn lease(&self, agent: AgentId) -> Option<Vec<u8>> {
        let _ = agent;
        None
    }

    /// Goes on with what an agent of the same client id had through another process, which has
    /// ended. To be called once, before the agent's first request.
    ///
    /// For each claim the ticket of the lock or request, as if its [`request`](Self::request) had
    /// returned [`Poll::Pending`] here; `None` if it is not there (any more). What the agent had
    /// and does not claim is released and aborted. The claims are in the order of their requests.
    /// The answer comes when the reach has been asked, or cannot be.
    fn recall(&self, agent: AgentId, claims: Vec<Claim>) -> RecallFuture<'_> {
        let _ = agent;
        Box::pin(ready(vec![None; claims.len()]))
    }

    /// Has no grant from here on get a smaller fencing token than this one, in the whole bucket. Whether
    /// the backend does that: for a host that gives others itself in between, and must not where its
    /// reach knows better.
    fn raise_tokens(&self, least: FencingToken) -> bool {
        let _ = least;
        false
    }

    /// The bucket is about to be forgotten: it has no agents, and gets none. If it is opened
    /// again after this call, its fencing tokens must go on where these end.
    fn retire(&self) {}
}

/// The future of [`Backend::query`].
pub type QueryFuture<'a> =
    Pin<Box<dyn Future<Output = Result<LockManagerSnapshot, Error>> + Send + 'a>>;

/// The future of [`Backend::inspect`].
pub type InspectFuture<'a> = Pin<Box<dyn Future<Output = Result<Inspection, Error>> + Send + 'a>>;

/// The future of [`Backend::look`].
pub type SightFuture<'a> = Pin<Box<dyn Future<Output = Result<Sighting, Error>> + Send + 'a>>;

/// The future of [`Backend::position`].
pub type PositionFuture<'a> = Pin<Box<dyn Future<Output = Result<Position, Error>> + Send + 'a>>;

/// The future of [`Backend::recall`].
pub type RecallFuture<'a> = Pin<Box<dyn Future<Output = Vec<Option<Ticket>>> + Send + 'a>>;

/// A lock or request that an agent says to have had through another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Of which name.
    pub name: ResourceName,
    /// What it asked for.
    pub kind: RequestKind,
    /// The lock's; `None` if the agent has not heard of a grant.
    pub token: Option<FencingToken>,
    /// When it was asked for, before anybody was told: nanoseconds on `CLOCK_MONOTONIC`, which all
    /// processes of the machine share.
    pub since: u64,
}

/// What becomes of a request that is neither aborted nor terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The lock is held from now on.
    Granted(FencingToken),
    /// The lock could not be had at once, and only that was asked for.
    Unavailable,
}
