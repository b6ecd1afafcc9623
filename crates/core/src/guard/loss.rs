//! How the holder of a lock is told that the lock is lost.
//!
//! A backend calls one waker for each lock. So a held lock is watched in one of three ways:
//!
//! | watched by | the backend calls |
//! |---|---|
//! | nobody, as most locks are | nobody |
//! | the one owner of a [`PolledGuard`], of work under a lock, or of a request for several locks | the owner's waker |
//! | anybody who has the [`LockGuard`] and asks | a [`Watch`](crate::watch::Watch), which calls all of them |
//!
//! Nobody else can ask for the loss of a guard that has one owner: the guard has been moved into
//! what the owner polls.

use std::{
    future::Future,
    ops::Deref,
    pin::Pin,
    task::{Context, Poll},
};

use super::LockGuard;
use crate::{ClientId, Lost, holding::Held, lock::Lock, look::LockId, watch::Place};

impl LockGuard {
    /// Completes when the lock is lost: stolen, or ended with its agent. It never completes while
    /// the lock is held, so race it against the work that needs the lock.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use navlock::{Lost, blocking::block_on};
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

    /// This guard for a host that has many guards and polls each by hand.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::task::{Context, Waker};
    ///
    /// let mut guards = vec![locks.lock("db").blocking()?.into_polled()];
    /// let thief = locks.lock("db").steal().blocking()?;
    /// // When the host is woken, it polls its guards, and drops those whose locks are lost.
    /// let context = Context::from_waker(Waker::noop());
    /// guards.retain(|guard| guard.poll_lost(&context).is_pending());
    /// assert!(guards.is_empty());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn into_polled(self) -> PolledGuard {
        PolledGuard(self)
    }

    /// Ready once the lock is lost. This is for callers that poll by hand and keep no future. Of
    /// the contexts given here, the last one is woken.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::task::{Context, Poll, Waker};
    ///
    /// use navlock::Lost;
    ///
    /// let guard = locks.lock("db").blocking()?;
    /// let context = Context::from_waker(Waker::noop());
    /// assert!(guard.poll_lost(&context).is_pending());
    /// let thief = locks.lock("db").steal().blocking()?;
    /// assert_eq!(guard.poll_lost(&context), Poll::Ready(Lost::Stolen));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        let held = self.held();
        held.watch().poller(context.waker());
        held.poll_lost_for_all()
    }
}

/// A guard of which the loss is only polled for by hand, as in the example of
/// [`LockGuard::into_polled`]. In all else it is like the [`LockGuard`] that it was made of: the lock
/// is released when the guard is dropped.
///
/// FAST: nobody else has to be told, so the backend keeps the owner's waker and the guard keeps
/// none. That spares a daemon one allocation for each lock.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct PolledGuard(LockGuard);

impl PolledGuard {
    /// Ready once the lock is lost. Of the contexts given here, the last one is woken.
    pub fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        self.0.held().poll_lost(context.waker())
    }

    /// Releases the lock, as dropping the guard does. Returns how the lock was lost before, if it
    /// was.
    ///
    /// ```
    /// # use navlock::{Error, Lost, UserAgent};
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
    /// The place where the waker of this future is noted, if it is noted.
    place: Option<Place>,
}

impl Future for LostFuture<'_> {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lost> {
        let held = self.guard.held();
        // The waker is noted before the backend is asked, because a loss from then on calls all
        // wakers that are noted.
        self.place = Some(held.watch().enter(self.place, context.waker()));
        held.poll_lost_for_all()
    }
}

impl Drop for LostFuture<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.guard.held().watch().leave(place);
        }
    }
}
