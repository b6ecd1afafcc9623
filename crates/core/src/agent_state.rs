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

/// The state of an agent, which is kept for as long as anybody may ask for it.
#[derive(Debug)]
pub(crate) struct AgentState {
    /// Made when it is first asked for: random numbers of the operating system cost more than all
    /// the rest of an agent, and few agents are ever asked for theirs.
    client_id: OnceLock<ClientId>,
    /// Whether and how the agent has ended: an [`Ended`], or [`ALIVE`] before its end. Changes
    /// once.
    ended: AtomicU8,
    /// The waker to call when the agent ends.
    watcher: Mutex<Option<Waker>>,
    /// Whether the agent belongs to another client, for which this process speaks as a host.
    is_elsewhere: bool,
}

/// Keeps an agent alive. Backends do not know what an agent is beyond its [`AgentState`].
pub(crate) type KeptAgent = Arc<dyn fmt::Debug + Send + Sync>;

/// How an agent has ended. Only [`AgentState`] knows this: to a backend, both ways are `terminate`.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Ended {
    Terminated = 1,
    Closed,
}

/// The value before the end, which is no [`Ended`].
const ALIVE: u8 = 0;

impl AgentState {
    /// The state of a new agent. A host that speaks for the agent gives the agent's client id.
    pub(crate) fn new(client_id: Option<ClientId>) -> Arc<Self> {
        let is_elsewhere = client_id.is_some();
        Arc::new(Self {
            client_id: client_id.map_or_else(OnceLock::new, OnceLock::from),
            ended: AtomicU8::new(ALIVE),
            watcher: Mutex::new(None),
            is_elsewhere,
        })
    }

    /// Whether the agent belongs to another client, for which this process speaks as a host. Then
    /// that client measures the agent's locks and requests, and the host keeps what the agent says
    /// of itself.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    pub(crate) fn client_id(&self) -> ClientId {
        *self.client_id.get_or_init(ClientId::random)
    }

    /// Ends the agent in this way, if it has not ended before.
    pub(crate) fn end(&self, how: Ended) {
        let how = how as u8;
        let _ = self.ended.compare_exchange(ALIVE, how, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Takes the waker to call now that the agent has ended.
    pub(crate) fn take_watcher(&self) -> Option<Waker> {
        lock(&self.watcher).take()
    }

    /// How the agent ended, if it did.
    #[inline]
    fn ended(&self) -> Option<Ended> {
        const CLOSED: u8 = Ended::Closed as u8;
        match self.ended.load(Ordering::Acquire) {
            ALIVE => None,
            CLOSED => Some(Ended::Closed),
            _ => Some(Ended::Terminated),
        }
    }

    /// # Errors
    ///
    /// How the agent ended, if it did.
    #[inline]
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        self.ended().map_or(Ok(()), |ended| Err(ended.error()))
    }

    /// Ready with how the agent ended, once it has. Of the contexts given here, the last one is woken.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<Error> {
        // Wakers are the caller's code. So they are cloned before the mutex is locked, and dropped after
        // it is unlocked.
        let before = {
            let waker = context.waker().clone();
            lock(&self.watcher).replace(waker)
        };
        drop(before);
        // Checked after the waker is stored, so that an end in between wakes the task.
        self.ended().map_or(Poll::Pending, |ended| Poll::Ready(ended.error()))
    }

    /// Corrects the error of a request that failed because its agent has ended. Backends know one way
    /// to end, `terminate`, but the agent may have been closed: see [`Ended`]. Also, the agent may have
    /// ended after a grant of which the request's task has not heard. In this case, nobody has held
    /// the lock, and the request fails like a waiting request.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error {
            Error::Terminated | Error::Lost(Lost::Terminated) => {
                self.ended().map_or(error, Ended::error)
            }
            other => other,
        }
    }

    /// Corrects how a lock was lost by the end of its agent, as [`explain`](Self::explain) does for a
    /// request.
    pub(crate) fn explain_lost(&self, lost: Lost) -> Lost {
        match lost {
            Lost::Terminated => self.ended().map_or(lost, Ended::lost),
            other => other,
        }
    }
}

impl Ended {
    /// The error of the agent's requests.
    fn error(self) -> Error {
        match self {
            Self::Terminated => Error::Terminated,
            Self::Closed => Error::Closed,
        }
    }

    /// How the agent's locks were lost.
    fn lost(self) -> Lost {
        match self {
            Self::Terminated => Lost::Terminated,
            Self::Closed => Lost::Closed,
        }
    }
}
