//! Guards: a lock is held for as long as its guard exists.

mod loss;

use std::{
    fmt,
    ops::Deref,
    sync::OnceLock,
    task::{Context, Poll},
    time::Duration,
};

use navlock_engine::{FencingToken, Mode, ResourceName};

pub use self::loss::{LostFuture, PolledGuard};
use crate::{
    ClientId, Lost,
    agent_ref::{AgentRef, AgentRefs},
    backend::{PackedTicket, Term, Ticket},
    guard_cache,
    held_lock::HeldLock,
    holding::Held,
    lock::Lock,
    look::LockId,
    measure::Holds,
    sync::Arc,
};

/// A lock that is held until this guard is dropped.
///
/// Forgetting a guard (`mem::forget`) holds the lock for as long as the process lives, or until
/// its agent is [terminated](crate::LockManager::terminate) or the lock is stolen.
///
/// A guard is one pointer, so it is cheap to move and makes no future large.
///
/// When the drop has returned, the lock is free for everybody who asks for it from then on. A guard of a lock
/// that processes share may wait for this until its message is sent: for a second at most, if the broker does
/// not read, as when it is stopped.
///
/// ```
/// # use navlock::{Error, UserAgent};
/// # let locks = UserAgent::new().lock_manager("app");
/// let guard = locks.lock("db").blocking()?;
/// // The guard is also the lock that it holds.
/// println!("{} is held with the token {:?}", guard.name(), guard.fencing_token());
/// drop(guard);
/// assert!(locks.lock("db").if_available().blocking()?.is_some());
/// # Ok::<(), Error>(())
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard(
    /// `None` only while the guard is dropped, after its lock was released.
    Option<Box<HeldLock>>,
);

impl LockGuard {
    /// The guard of a lock that was granted to this agent.
    #[inline]
    pub(crate) fn new(
        name: ResourceName,
        mode: Mode,
        fencing_token: FencingToken,
        ticket: Ticket,
        refs: &AgentRefs,
        holds: Holds,
    ) -> Self {
        // FAST: reuses the memory of the thread's last guard, with its count on the agent's reference.
        match guard_cache::take() {
            Some(mut held) if held.agent.is_of(&refs.agent) => {
                // Mostly the name is the same, and comparing names is cheaper than moving one.
                if held.lock.name != name {
                    held.lock.name = name;
                }
                held.lock.mode = mode;
                held.lock.fencing_token = fencing_token;
                held.ticket = ticket.into();
                held.holds = holds;
                Self(Some(held))
            }
            spare => {
                let lock = Lock::new(name, mode, fencing_token);
                Self::made_in(spare, lock, ticket.into(), Arc::clone(refs.here()), holds)
            }
        }
    }

    /// The guard of a lock that was granted, with a reference to the agent that is counted already.
    pub(crate) fn anew(
        lock: Lock,
        ticket: PackedTicket,
        agent: Arc<AgentRef>,
        holds: Holds,
    ) -> Self {
        Self::made_in(guard_cache::take(), lock, ticket, agent, holds)
    }

    /// Makes the guard in the memory that is given, or else in new memory.
    fn made_in(
        spare: Option<Box<HeldLock>>,
        lock: Lock,
        ticket: PackedTicket,
        agent: Arc<AgentRef>,
        holds: Holds,
    ) -> Self {
        let held = HeldLock { lock, ticket, agent, holds, watch: OnceLock::new() };
        Self(Some(match spare {
            Some(mut place) => {
                *place = held;
                place
            }
            None => Box::new(held),
        }))
    }

    #[inline]
    fn held(&self) -> &HeldLock {
        self.0.as_ref().expect("it is not released before it is dropped")
    }

    /// Whether the lock is lost. Then another holder may be working with what the lock protected,
    /// and dropping the guard releases nothing.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// assert!(!guard.is_lost());
    /// let thief = locks.lock("db").steal().blocking()?;
    /// assert!(guard.is_lost());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn is_lost(&self) -> bool {
        self.how_lost().is_some()
    }

    /// The [client id](crate::LockManager::client_id) of the agent that has stolen the lock. `None` if
    /// it was not stolen, or the reach does not know by whom.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let bucket = UserAgent::new().bucket("app");
    /// # let (locks, others) = (bucket.lock_manager(), bucket.lock_manager());
    /// let guard = locks.lock("db").blocking()?;
    /// assert_eq!(guard.stolen_by(), None);
    /// let thief = others.lock("db").steal().blocking()?;
    /// assert_eq!(guard.stolen_by(), Some(others.client_id()));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn stolen_by(&self) -> Option<ClientId> {
        let HeldLock { agent, ticket, .. } = self.held();
        agent.backend().stolen_by(ticket.unpack())
    }

    /// The id by which those who look know the lock, and by which a request says that it is made
    /// [inside](crate::LockRequest::inside) the lock.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let (db, log) = (locks.lock("db").blocking()?, locks.lock("log").blocking()?);
    /// assert_ne!(db.id(), log.id());
    /// assert_eq!(db.id().client_id, locks.client_id());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn id(&self) -> LockId {
        let HeldLock { agent, ticket, .. } = self.held();
        let serial = agent.backend().serial(ticket.unpack());
        LockId { client_id: agent.state.client_id(), serial }
    }

    /// Whether the lock is held. If the service that keeps the lock has not been heard of in time,
    /// this also says for how long the lock is still held, as a warning before the loss.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use navlock::LockState;
    ///
    /// let guard = locks.lock("db").blocking()?;
    /// match guard.state() {
    ///     LockState::Suspended { left, .. } => eprintln!("the lock may be lost in {left:?}"),
    ///     state => assert_eq!(state, LockState::Held),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn state(&self) -> LockState {
        if let Some(lost) = self.how_lost() {
            return LockState::Lost(lost);
        }
        match self.term().and_then(|term| term.suspended()) {
            Some((silent, left)) => LockState::Suspended { silent, left },
            None => LockState::Held,
        }
    }

    /// For how long the holder still has the lock if the service that keeps the lock is not heard
    /// of again, and until when nobody else can be granted the lock; see
    /// [`Backend::term`](crate::host::Backend::term). `None` where locks do not end by themselves.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// match guard.term() {
    ///     Some(term) => println!("{:?} without word from the service", term.ends - term.now),
    ///     None => println!("in one process locks do not end by themselves"),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn term(&self) -> Option<Term> {
        let agent = &self.held().agent;
        agent.backend().term(agent.id)
    }

    /// How the lock was lost, if it is.
    pub(crate) fn how_lost(&self) -> Option<Lost> {
        self.held().lost()
    }
}

/// The state of a lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// It is held.
    Held,
    /// It is held, but the service that keeps it has not been heard of in time. If that does not
    /// change, the lock is lost.
    Suspended {
        /// For how long the service has not been heard of.
        silent: Duration,
        /// After this time the lock is lost.
        left: Duration,
    },
    /// It is lost.
    Lost(Lost),
}

impl Held for LockGuard {
    type Loss = Lost;

    #[inline]
    fn losses(&self) -> Option<u64> {
        let HeldLock { agent, ticket, .. } = self.held();
        agent.backend().losses(ticket.unpack())
    }

    fn lost(&self) -> Option<Lost> {
        self.how_lost()
    }

    fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        self.held().poll_lost(context.waker())
    }

    fn each_id(&self, put: &mut dyn FnMut(LockId)) {
        put(self.id());
    }

    #[inline]
    fn release(mut self) -> Option<Lost> {
        let held = self.0.take()?;
        let lost = held.agent.release(held.ticket);
        held.holds.end(|| lost);
        guard_cache::put(held);
        lost
    }
}

impl Deref for LockGuard {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.held().lock
    }
}

impl Drop for LockGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.holds.end(|| held.agent.lost(held.ticket));
            held.agent.finish(held.ticket);
            guard_cache::put(held);
        }
    }
}

impl From<&LockGuard> for LockId {
    fn from(guard: &LockGuard) -> Self {
        guard.id()
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&**self).finish()
    }
}
