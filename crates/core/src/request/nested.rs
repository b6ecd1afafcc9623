//! Requests that are made inside locks, and what becomes of those that wait for each other.

use std::{
    future::IntoFuture,
    mem,
    task::{Poll, Waker},
    time::Duration,
};

use navlock_engine::ResourceName;

use super::{
    Grant, LockFuture, LockRequest, Named,
    future::{Pending, State},
};
use crate::{
    Error, Lock, LockGuard, LockOptions,
    backend::Backend,
    blocking,
    guard::Holding,
    inside,
    look::{InDeadlock, LockId},
    sync::Arc,
};

/// A [`LockRequest`] of which it was said what it is inside of, or that it is to fail in a deadlock:
/// [`LockRequest::inside`], [`LockRequest::fail_on_deadlock`]. It is awaited and blocked on as that is.
///
/// FAST: most requests say nothing of the kind, and are smaller for that.
#[must_use = "a request is made when it is awaited or blocked on"]
#[derive(Debug)]
pub struct NestedRequest<'a, G = LockGuard, N = ResourceName> {
    request: LockRequest<'a, G, N>,
    said: Said,
}

/// What few say of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    inside: Vec<LockId>,
    fails_on_deadlock: bool,
}

impl<'a, G, N> NestedRequest<'a, G, N> {
    /// This request, of which nothing was said yet: for who has to say something of some only.
    pub fn of(request: LockRequest<'a, G, N>) -> Self {
        Self { request, said: Said::default() }
    }

    /// Says that it is made inside this lock as well: see [`LockRequest::inside`].
    pub fn inside(mut self, lock: impl Into<LockId>) -> Self {
        self.said.inside.push(lock.into());
        self
    }

    /// Has it fail in a deadlock: see [`LockRequest::fail_on_deadlock`].
    pub fn fail_on_deadlock(mut self) -> Self {
        self.said.fails_on_deadlock = true;
        self
    }
}

impl<G: Grant, N: Named> NestedRequest<'_, G, N> {
    /// Blocks the thread until the request is answered: see [`LockRequest::blocking`].
    ///
    /// # Errors
    ///
    /// As awaiting it.
    pub fn blocking(self) -> Result<G, Error> {
        blocking::block_on(self)
    }

    /// As [`LockRequest::blocking_timeout`]. It gives up by itself, so it is inside nothing.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::blocking_timeout`].
    pub fn blocking_timeout(self, timeout: Duration) -> Result<G, Error> {
        self.request.blocking_timeout(timeout)
    }

    /// As [`LockRequest::into_owned`].
    pub fn into_owned(self) -> LockFuture<'static, G> {
        let mut owned = self.request.into_owned();
        if let State::Owned { said, .. } = &mut owned.state {
            *said = Some(Box::new(self.said));
        }
        owned
    }
}

impl<N: Named> NestedRequest<'_, LockGuard, N> {
    /// As [`LockRequest::run`].
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::run`].
    pub async fn run<F, T>(self, callback: F) -> Result<T, Error>
    where
        F: AsyncFnOnce(Lock) -> T,
    {
        let guard = self.await?;
        let lock = Lock::clone(&guard);
        Holding::of(guard).during(callback(lock)).await
    }
}

impl<'a, G: Grant, N: Named> IntoFuture for NestedRequest<'a, G, N> {
    type Output = Result<G, Error>;
    type IntoFuture = LockFuture<'a, G, N>;

    fn into_future(self) -> LockFuture<'a, G, N> {
        // FAST: of few requests anything is said, so they may cost a handle of their own.
        let LockRequest { environment, name, options, .. } = self.request;
        let (name, said) = (name.try_into().map_err(Into::into), Some(Box::new(self.said)));
        LockFuture::owned(Arc::clone(environment), name, options, said)
    }
}

impl<G: Grant, N: Named> LockFuture<'_, G, N> {
    /// Says inside what a request that has to wait is without anybody saying so.
    #[cold]
    pub(super) fn say_surroundings(&self) {
        let State::Pending(Pending { seat, ticket, fails_on_deadlock, .. }) = &self.state else {
            return;
        };
        let backend = seat.backend();
        for lock in backend.surrounding() {
            backend.put_inside(ticket.unpack(), *lock);
        }
        inside::note(seat, *ticket);
        if let Some(waker) = fails_on_deadlock {
            inside::wake_when_said(waker);
        }
    }

    /// All has been said of a request that has to wait.
    #[inline]
    pub(super) fn end_saying(&self) {
        if let State::Pending(Pending { seat, ticket, .. }) = &self.state {
            seat.backend().made(ticket.unpack());
        }
    }

    /// Says of a request that has to wait that it may give up by itself.
    #[cold]
    pub(super) fn say_it_may_give_up(&self) {
        if let State::Pending(Pending { seat, ticket, .. }) = &self.state {
            seat.backend().note_may_give_up(ticket.unpack());
        }
    }

    /// Says what was said of a request that has to wait. It may find that it would wait for ever.
    #[cold]
    pub(super) fn say(
        &mut self,
        said: Said,
        options: LockOptions,
        waker: &Waker,
    ) -> Poll<Result<G, Error>> {
        let State::Pending(pending) = &mut self.state else {
            unreachable!("it has just been made, and waits")
        };
        let Said { inside, fails_on_deadlock } = said;
        if fails_on_deadlock {
            pending.fails_on_deadlock = Some(Arc::new(waker.clone()));
        }
        let inside = if options.signal { Vec::new() } else { inside };
        for lock in inside {
            pending.seat.backend().put_inside(pending.ticket.unpack(), lock);
        }
        pending.seat.backend().made(pending.ticket.unpack());
        if options.signal {
            return Poll::Pending;
        }
        if let Some(waker) = &pending.fails_on_deadlock {
            inside::wake_when_said(waker);
        }
        match pending.fails_in_deadlock() {
            Some(deadlock) => self.fail_in(deadlock),
            None => Poll::Pending,
        }
    }

    /// Goes no further.
    #[cold]
    pub(super) fn fail_in(&mut self, deadlock: InDeadlock) -> Poll<Result<G, Error>> {
        if let State::Pending(Pending { ticket, seat, .. }) =
            mem::replace(&mut self.state, State::Done)
        {
            seat.finish(ticket);
        }
        Poll::Ready(Err(Error::Deadlock(deadlock.told)))
    }
}

impl<G, N> LockFuture<'_, G, N> {
    /// Says that the request, if it waits, was made inside this lock: as
    /// [`LockRequest::inside`], for hosts that know it only afterwards. One that
    /// [fails](LockRequest::fail_on_deadlock) because of that does so when it is polled.
    pub fn put_inside(&self, lock: LockId) {
        if let State::Pending(Pending { ticket, seat, .. }) = &self.state {
            seat.backend().put_inside(ticket.unpack(), lock);
        }
    }

    /// Says of the request, if it waits, that it may give up by itself, as one that has a signal, for hosts that
    /// know it only afterwards: nobody waits for it for ever.
    pub fn note_may_give_up(&self) {
        if let State::Pending(Pending { ticket, seat, .. }) = &self.state {
            seat.backend().note_may_give_up(ticket.unpack());
        }
    }

    /// The deadlock that the request, which waits, is part of, if it is known to be: in one process, as of
    /// now; elsewhere, as far as the reach has told so. There the future's waker is called when it does.
    pub fn deadlock(&self) -> Option<InDeadlock> {
        match &self.state {
            State::Pending(Pending { ticket, seat, .. }) => {
                seat.backend().deadlock(ticket.unpack())
            }
            _ => None,
        }
    }
}

impl Pending {
    /// The deadlock that it is to fail in, because it has closed the circle.
    pub(super) fn fails_in_deadlock(&self) -> Option<InDeadlock> {
        // FAST: few ask.
        self.fails_on_deadlock.as_ref()?;
        self.seat.backend().fail_in_deadlock(self.ticket.unpack())
    }
}
