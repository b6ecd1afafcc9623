//! Agents: clients that can die as a whole.

use std::{
    fmt,
    str::FromStr,
    sync::OnceLock,
    task::{Context, Poll, Waker},
};

use navlock_engine::AgentId;
use uuid::Uuid;

use crate::{
    AgentInfo, Error, Lost,
    backend::{AnyBackend, Backend, PackedTicket},
    bucket::{BucketUse, OpenBucket},
    sync::{Arc, AtomicU8, Mutex, Ordering, lock},
    user_agent::Scope,
    waking,
};

/// What `query()` shows of an agent: the same for everything it has, different from every other
/// agent's, and not to be guessed.
///
/// Spec: "clientId", <https://w3c.github.io/web-locks/#concept-lock>
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Uuid);

impl ClientId {
    /// A new one, from the operating system's random numbers.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Its sixteen bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// The client id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ClientId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

/// An agent in a bucket. Lives as long as a handle, a guard or a pending request of it.
pub(crate) struct Agent {
    pub(crate) id: AgentId,
    bucket: Arc<BucketUse>,
    /// What ends it when it is closed.
    scope: Arc<Scope>,
    life: Arc<Life>,
}

/// What is known of an agent for as long as anybody asks.
#[derive(Debug)]
pub(crate) struct Life {
    /// Made when it is first asked for: random numbers of the operating system cost more than all
    /// the rest of an agent, and few are ever asked.
    client_id: OnceLock<ClientId>,
    /// Whether it has ended, and how: an [`Ended`], and [`ALIVE`] until then.
    ended: AtomicU8,
    /// Who is to be woken when it ends.
    watcher: Mutex<Option<Waker>>,
    /// Whether it is another's, for whom a host speaks.
    is_elsewhere: bool,
}

/// How an agent has ended.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Ended {
    Terminated = 1,
    Closed,
}

/// What is no [`Ended`].
const ALIVE: u8 = 0;

impl Agent {
    pub(crate) fn open(bucket: &Arc<BucketUse>, scope: &Arc<Scope>, life: Arc<Life>) -> Arc<Self> {
        let agent = Arc::new(Self {
            id: bucket.bucket.backend.open(&life),
            bucket: Arc::clone(bucket),
            scope: Arc::clone(scope),
            life,
        });
        scope.add(&agent);
        // Closed in between: who closed may have looked before this agent was there.
        if scope.is_closed() {
            Self::end_all(&[&agent], Ended::Closed);
        }
        agent
    }

    #[inline]
    pub(crate) fn backend(&self) -> &AnyBackend {
        &self.bucket.bucket.backend
    }

    pub(crate) fn bucket(&self) -> &Arc<BucketUse> {
        &self.bucket
    }

    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    pub(crate) fn describe(&self, info: &AgentInfo) {
        self.backend().describe(self.id, info);
    }

    /// Ends agents, with all they have. The first way to end is the one that is told.
    pub(crate) fn end_all(agents: &[&Arc<Self>], how: Ended) {
        // All of them before the backends act: whoever is woken by that is told the reason, and
        // takes no lock that is granted because another of them ends.
        for agent in agents {
            let (ended, how) = (&agent.life.ended, how as u8);
            let _ = ended.compare_exchange(ALIVE, how, Ordering::SeqCst, Ordering::SeqCst);
        }
        let mut agents = agents.to_vec();
        let bucket = |agent: &&Arc<Self>| Arc::as_ptr(&agent.bucket.bucket);
        agents.sort_by_key(bucket);
        // Also the second time: whoever returns from here finds that they have ended.
        for of_one_bucket in agents.chunk_by(|a, b| bucket(a) == bucket(b)) {
            let ids: Vec<_> = of_one_bucket.iter().map(|agent| agent.id).collect();
            of_one_bucket[0].backend().terminate_all(&ids);
        }
        // When those were woken who have to do with one of its locks.
        waking::wake_all(agents.iter().filter_map(|agent| lock(&agent.life.watcher).take()));
    }

    #[inline]
    pub(crate) fn life(&self) -> &Arc<Life> {
        &self.life
    }
}

impl Life {
    /// That of an agent that begins, and is to be called so.
    pub(crate) fn new(client_id: Option<ClientId>) -> Arc<Self> {
        let is_elsewhere = client_id.is_some();
        Arc::new(Self {
            client_id: client_id.map_or_else(OnceLock::new, OnceLock::from),
            ended: AtomicU8::new(ALIVE),
            watcher: Mutex::new(None),
            is_elsewhere,
        })
    }

    /// Whether it is another's, for whom a host speaks, and what it has is counted and told there.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    pub(crate) fn client_id(&self) -> ClientId {
        *self.client_id.get_or_init(ClientId::random)
    }

    /// # Errors
    ///
    /// How the agent ended, if it did.
    #[inline]
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        const CLOSED: u8 = Ended::Closed as u8;
        match self.ended.load(Ordering::Acquire) {
            ALIVE => Ok(()),
            CLOSED => Err(Error::Closed),
            _ => Err(Error::Terminated),
        }
    }

    /// Ready with how the agent ended, once it has. Of the contexts given here, the last one is woken.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<Error> {
        // Foreign, so not while the mutex is locked.
        let before = {
            let waker = context.waker().clone();
            lock(&self.watcher).replace(waker)
        };
        drop(before);
        // After that, so that whoever ends it in between wakes it.
        match self.check_alive() {
            Ok(()) => Poll::Pending,
            Err(ended) => Poll::Ready(ended),
        }
    }

    /// What the backend cannot know: that its `terminate` was the user agent's `close`.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error {
            Error::Terminated => self.check_alive().err().unwrap_or(error),
            Error::Lost(lost) => self.explain_lost(lost).into(),
            other => other,
        }
    }

    /// The same for a lock that was lost.
    pub(crate) fn explain_lost(&self, lost: Lost) -> Lost {
        match (lost, self.check_alive()) {
            (Lost::Terminated, Err(Error::Closed)) => Lost::Closed,
            _ => lost,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.scope.remove(self);
        self.backend().close_agent(self.id);
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a guard or a pending request knows of its agent, one for each group of threads: it counts
/// itself here and not on the agent, so that two threads which use one handle write to two counters,
/// and do not slow each other.
///
/// Those keep their agent alive. Where the backend is the one in memory, it knows which agents have
/// something, and sees to that itself ([`AnyBackend::leave`]): there a seat keeps nothing but memory.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Seat {
    pub(crate) id: AgentId,
    pub(crate) life: Arc<Life>,
    /// The agent's bucket: a guard needs it to be released.
    bucket: Arc<OpenBucket>,
    /// Who is kept alive by it.
    keeps: Option<Arc<Agent>>,
}

impl Seat {
    pub(crate) fn new(agent: &Arc<Agent>) -> Self {
        let bucket = Arc::clone(&agent.bucket.bucket);
        Self {
            id: agent.id,
            life: Arc::clone(&agent.life),
            keeps: (!bucket.backend.keeps_agents()).then(|| Arc::clone(agent)),
            bucket,
        }
    }

    /// Whether it is one of this agent's.
    #[inline]
    pub(crate) fn is_of(&self, agent: &Agent) -> bool {
        Arc::ptr_eq(&self.life, &agent.life)
    }

    #[inline]
    pub(crate) fn backend(&self) -> &AnyBackend {
        &self.bucket.backend
    }

    /// Whether nothing ends when it does: it may be kept for longer than it is needed.
    #[inline]
    pub(crate) fn keeps_only_memory(&self) -> bool {
        self.keeps.is_none()
    }

    /// How the lock of the ticket was lost, if it is.
    pub(crate) fn lost(&self, ticket: PackedTicket) -> Option<Lost> {
        let lost = self.backend().lost(ticket.unpack())?;
        Some(self.life.explain_lost(lost))
    }

    /// Ends what the ticket stands for.
    #[inline]
    pub(crate) fn finish(&self, ticket: PackedTicket) {
        match self.backend() {
            AnyBackend::Memory(memory) => drop(memory.finish_as(self.id, ticket.unpack())),
            AnyBackend::Other(other) => other.finish(ticket.unpack()),
        }
    }

    /// Ends the lock of the ticket. How it was lost until now, if it was.
    #[inline]
    pub(crate) fn release(&self, ticket: PackedTicket) -> Option<Lost> {
        let lost = match self.backend() {
            AnyBackend::Memory(memory) => memory.finish_as(self.id, ticket.unpack()),
            AnyBackend::Other(other) => {
                let lost = other.lost(ticket.unpack());
                other.finish(ticket.unpack());
                lost
            }
        };
        lost.map(|lost| self.life.explain_lost(lost))
    }
}
