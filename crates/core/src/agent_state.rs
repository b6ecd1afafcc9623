//! The state of an agent: its client id, and whether and how it has ended.

use std::{
    fmt,
    sync::OnceLock,
    task::{Context, Poll, Waker},
};

use crate::{
    Error, Lost,
    client_id::ClientId,
    sync::{Arc, AtomicU8, Mutex, Ordering, lock},
};

/// What is known of an agent for as long as anybody asks.
#[derive(Debug)]
pub(crate) struct AgentState {
    /// Made when it is first asked for: random numbers of the operating system cost more than all
    /// the rest of an agent, and few are ever asked.
    client_id: OnceLock<ClientId>,
    /// Whether it has ended, and how: an [`Ended`], and [`ALIVE`] until then. It changes once.
    ended: AtomicU8,
    /// Who is to be woken when it ends.
    watcher: Mutex<Option<Waker>>,
    /// Whether it is another's, for whom a host speaks.
    is_elsewhere: bool,
}

/// Keeps an agent alive. What an agent is beyond its [`AgentState`] only those above the backends know.
pub(crate) type KeptAgent = Arc<dyn fmt::Debug + Send + Sync>;

/// How an agent has ended.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Ended {
    Terminated = 1,
    Closed,
}

/// What is no [`Ended`].
const ALIVE: u8 = 0;

impl AgentState {
    /// The state of an agent that begins. A host that speaks for it gives its client id.
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

    /// The agent ends so, if it has not ended before.
    pub(crate) fn end(&self, how: Ended) {
        let how = how as u8;
        let _ = self.ended.compare_exchange(ALIVE, how, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Who is to be woken now that it has ended.
    pub(crate) fn take_watcher(&self) -> Option<Waker> {
        lock(&self.watcher).take()
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
