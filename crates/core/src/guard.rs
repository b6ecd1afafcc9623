//! Locks that are held.

use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll},
    time::Duration,
};

use navlock_engine::{FencingToken, Mode, ResourceName};

use crate::{
    ClientId, Lost,
    backend::{Backend, PackedTicket, Term, Ticket},
    grip::Grip,
    holding::Held,
    lock::Lock,
    look::LockId,
    measure::Holds,
    seat::{Seat, Seats},
    spare,
    sync::Arc,
    watch::Place,
};

/// A lock that is held until this is dropped.
///
/// Forgetting a guard (`mem::forget`) holds the lock for as long as the process lives, or until
/// its agent is [terminated](crate::LockManager::terminate) or the lock is stolen.
///
/// It is a pointer, so that it is moved at no cost and makes no future large.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard(
    /// `None` once it is released, which is the last that becomes of it.
    Option<Box<Grip>>,
);

impl LockGuard {
    /// The guard of a lock that was granted to this agent.
    #[inline]
    pub(crate) fn new(
        name: ResourceName,
        mode: Mode,
        fencing_token: FencingToken,
        ticket: Ticket,
        seats: &Seats,
        holds: Holds,
    ) -> Self {
        // FAST: what the thread's last guard has left, with its count on the seat.
        match spare::take() {
            Some(mut grip) if grip.seat.is_of(&seats.agent) => {
                // Mostly it is the same name. To compare it is cheaper than to move it.
                if grip.lock.name != name {
                    grip.lock.name = name;
                }
                grip.lock.mode = mode;
                grip.lock.fencing_token = fencing_token;
                grip.ticket = ticket.into();
                grip.holds = holds;
                Self(Some(grip))
            }
            spare => {
                let lock = Lock::new(name, mode, fencing_token);
                Self::made_in(spare, lock, ticket.into(), Arc::clone(seats.seat()), holds)
            }
        }
    }

    /// The same with a seat that is counted already.
    pub(crate) fn anew(lock: Lock, ticket: PackedTicket, seat: Arc<Seat>, holds: Holds) -> Self {
        Self::made_in(spare::take(), lock, ticket, seat, holds)
    }

    /// The same in this place, if there is one.
    fn made_in(
        spare: Option<Box<Grip>>,
        lock: Lock,
        ticket: PackedTicket,
        seat: Arc<Seat>,
        holds: Holds,
    ) -> Self {
        let grip = Grip { lock, ticket, seat, holds, watch: OnceLock::new() };
        Self(Some(match spare {
            Some(mut place) => {
                *place = grip;
                place
            }
            None => Box::new(grip),
        }))
    }

    #[inline]
    fn grip(&self) -> &Grip {
        self.0.as_ref().expect("it is not released before it is dropped")
    }

    /// Completes when the lock is lost: stolen, or ended with its agent. It never completes while
    /// the lock is held, so race it against the work that needs the lock.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use navlock_core::{Lost, blocking::block_on};
    ///
    /// let guard = locks.lock("db").blocking()?;
    /// let thief = locks.lock("db").steal().blocking()?;
    /// assert_eq!(block_on(guard.lost()), Lost::Stolen);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing, and leaves nothing behind.
    pub fn lost(&self) -> LostFuture<'_> {
        LostFuture { guard: self, place: None }
    }

    /// This guard for a host that has many and polls each by hand.
    pub fn into_polled(self) -> PolledGuard {
        PolledGuard(self)
    }

    /// The same for who polls by hand and keeps no future: of the contexts given here, the last
    /// one is woken.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::task::{Context, Poll, Waker};
    ///
    /// use navlock_core::Lost;
    ///
    /// let guard = locks.lock("db").blocking()?;
    /// let context = Context::from_waker(Waker::noop());
    /// assert!(guard.poll_lost(&context).is_pending());
    /// let thief = locks.lock("db").steal().blocking()?;
    /// assert_eq!(guard.poll_lost(&context), Poll::Ready(Lost::Stolen));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        let grip = self.grip();
        grip.watch().poller(context.waker());
        grip.poll_lost_for_all()
    }

    /// Whether the lock is lost. What it protected may be in other hands, and dropping the guard
    /// releases nothing.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
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

    /// Who has stolen the lock, as [`LockManager::client_id`](crate::LockManager::client_id) calls it.
    /// `None` if it was not stolen, or the reach does not know by whom.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let bucket = UserAgent::new().bucket("app");
    /// # let (locks, others) = (bucket.lock_manager(), bucket.lock_manager());
    /// let guard = locks.lock("db").blocking()?;
    /// assert_eq!(guard.stolen_by(), None);
    /// let thief = others.lock("db").steal().blocking()?;
    /// assert_eq!(guard.stolen_by(), Some(others.client_id()));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn stolen_by(&self) -> Option<ClientId> {
        let Grip { seat, ticket, .. } = self.grip();
        seat.backend().stolen_by(ticket.unpack())
    }

    /// What it is known by to those who look, and to what is asked for
    /// [inside](crate::LockRequest::inside) it.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let (db, log) = (locks.lock("db").blocking()?, locks.lock("log").blocking()?);
    /// assert_ne!(db.id(), log.id());
    /// assert_eq!(db.id().client_id, locks.client_id());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn id(&self) -> LockId {
        let Grip { seat, ticket, .. } = self.grip();
        let serial = seat.backend().serial(ticket.unpack());
        LockId { client_id: seat.life.client_id(), serial }
    }

    /// Whether the lock is held, and for how long still if its keeper is not heard of: a warning
    /// before it is lost.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use navlock_core::LockState;
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

    /// For how long the lock is its holder's without further word from its keeper, and until when it
    /// is nobody else's; see [`Backend::term`]. `None` where locks do not end by themselves.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// match guard.term() {
    ///     Some(term) => println!("{:?} without word from its keeper", term.ends - term.now),
    ///     None => println!("in one process locks do not end by themselves"),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn term(&self) -> Option<Term> {
        let seat = &self.grip().seat;
        seat.backend().term(seat.id)
    }

    /// How the lock was lost, if it is.
    pub(crate) fn how_lost(&self) -> Option<Lost> {
        self.grip().lost()
    }
}

/// How it is with a lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// It is held.
    Held,
    /// It is held, but its keeper has not been heard of when it should have. If that does not change,
    /// the lock is lost.
    Suspended {
        /// For how long the keeper has not been heard of.
        silent: Duration,
        /// After this time the lock is lost.
        left: Duration,
    },
    /// It is lost.
    Lost(Lost),
}

/// A guard whose loss is only polled for by hand. Otherwise it is the [`LockGuard`] that it was
/// made of, and the lock is released when it is dropped.
///
/// FAST: with nobody else to be told, the backend knows whom to wake and the guard need not: for a
/// daemon that is an allocation less for each lock.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct PolledGuard(LockGuard);

impl PolledGuard {
    /// Ready once the lock is lost. Of the contexts given here, the last one is woken.
    pub fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        self.0.grip().poll_lost(context.waker())
    }

    /// Releases the lock, as dropping it does. How it was lost until then, if it was.
    ///
    /// ```
    /// # use navlock_core::{Error, Lost, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?.into_polled();
    /// let thief = locks.lock("db").steal().blocking()?.into_polled();
    /// assert_eq!(guard.release(), Some(Lost::Stolen));
    /// assert_eq!(thief.release(), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn release(self) -> Option<Lost> {
        self.0.release()
    }

    /// See [`LockGuard::id`].
    pub fn id(&self) -> LockId {
        self.0.id()
    }

    /// See [`LockGuard::stolen_by`].
    pub fn stolen_by(&self) -> Option<ClientId> {
        self.0.stolen_by()
    }
}

impl Deref for PolledGuard {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.0
    }
}

/// The future of [`LockGuard::lost`].
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct LostFuture<'a> {
    guard: &'a LockGuard,
    /// Where its waker is noted, if it is.
    place: Option<Place>,
}

impl Future for LostFuture<'_> {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lost> {
        let grip = self.guard.grip();
        // Before the backend is asked: a loss from then on calls all who are noted.
        self.place = Some(grip.watch().enter(self.place, context.waker()));
        grip.poll_lost_for_all()
    }
}

impl Drop for LostFuture<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.guard.grip().watch().leave(place);
        }
    }
}

impl Held for LockGuard {
    type Loss = Lost;

    #[inline]
    fn losses(&self) -> Option<u64> {
        let Grip { seat, ticket, .. } = self.grip();
        seat.backend().losses(ticket.unpack())
    }

    fn lost(&self) -> Option<Lost> {
        self.how_lost()
    }

    fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        self.grip().poll_lost(context.waker())
    }

    fn each_id(&self, put: &mut dyn FnMut(LockId)) {
        put(self.id());
    }

    #[inline]
    fn release(mut self) -> Option<Lost> {
        let grip = self.0.take()?;
        let lost = grip.seat.release(grip.ticket);
        grip.holds.end(|| lost);
        spare::leave(grip);
        lost
    }
}

impl Deref for LockGuard {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.grip().lock
    }
}

impl Drop for LockGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(grip) = self.0.take() {
            grip.holds.end(|| grip.seat.lost(grip.ticket));
            grip.seat.finish(grip.ticket);
            spare::leave(grip);
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
