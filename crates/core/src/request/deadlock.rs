//! Deadlocks of a request that has to wait: how the backend is told inside which locks the request was
//! made, and how long it waits; and how the request fails in a deadlock.

use std::{
    mem,
    task::{Poll, Waker},
};

use super::{
    Grant, LockFuture, Named,
    future::{Pending, State},
    nesting::Nesting,
};
use crate::{
    Error, LockOptions, inside,
    look::{InDeadlock, LockId, Patience},
    sync::Arc,
};

impl<G: Grant, N: Named> LockFuture<'_, G, N> {
    /// Tells the backend inside which locks of the process's surroundings a request that has to wait
    /// was made, also if the request names locks itself. Also notes the request, so that a callback
    /// that is being polled can say the same of its own lock.
    #[cold]
    pub(super) fn tell_surroundings(&self) {
        let State::Pending(Pending { agent, ticket, fails_on_deadlock, .. }) = &self.state else {
            return;
        };
        let backend = agent.backend();
        for lock in backend.surrounding() {
            backend.put_inside(ticket.unpack(), *lock);
        }
        inside::note(agent, *ticket);
        if let Some(waker) = fails_on_deadlock {
            inside::wake_when_known(waker);
        }
    }

    /// Tells the backend that it has been told everything about a request that has to wait: see
    /// [`Backend::made`].
    #[inline]
    pub(super) fn tell_made(&self) {
        if let State::Pending(Pending { agent, ticket, .. }) = &self.state {
            agent.backend().made(ticket.unpack());
        }
    }

    /// Tells the backend the nesting of a request that has to wait. The request may prove to be in
    /// a deadlock.
    #[cold]
    pub(super) fn tell_nesting(
        &mut self,
        nesting: Nesting,
        options: LockOptions,
        waker: &Waker,
    ) -> Poll<Result<G, Error>> {
        let State::Pending(pending) = &mut self.state else {
            unreachable!("it has just been made, and waits")
        };
        let Nesting { inside, fails_on_deadlock, .. } = nesting;
        if fails_on_deadlock {
            pending.fail_on_deadlock(waker);
        }
        let inside = if options.signal { Vec::new() } else { inside };
        for lock in inside {
            pending.agent.backend().put_inside(pending.ticket.unpack(), lock);
        }
        pending.agent.backend().made(pending.ticket.unpack());
        if options.signal {
            return Poll::Pending;
        }
        if let Some(waker) = &pending.fails_on_deadlock {
            inside::wake_when_known(waker);
        }
        match pending.fails_in_deadlock() {
            Some(deadlock) => self.fail_in(deadlock),
            None => Poll::Pending,
        }
    }

    /// Ends the request with the error of this deadlock.
    #[cold]
    pub(super) fn fail_in(&mut self, deadlock: InDeadlock) -> Poll<Result<G, Error>> {
        if let State::Pending(Pending { ticket, agent, .. }) =
            mem::replace(&mut self.state, State::Done)
        {
            agent.finish(ticket);
        }
        Poll::Ready(Err(Error::Deadlock(deadlock.told)))
    }
}

impl<G, N> LockFuture<'_, G, N> {
    /// Says that the request, if it waits, was made inside this lock. This does what
    /// [`LockRequest::inside`](crate::LockRequest::inside) does, for hosts that know this only
    /// afterwards. If the request [fails](crate::LockRequest::fail_on_deadlock) because of this
    /// call, it does so when it is polled.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::{future::IntoFuture, time::Duration};
    ///
    /// use navlock::blocking::{block_on, block_on_timeout};
    ///
    /// let account = locks.lock("account").blocking()?;
    /// let mut again = locks.lock("account").fail_on_deadlock().into_future();
    /// assert!(block_on_timeout(&mut again, Duration::ZERO).is_none());
    /// // Only now does the host know that the holder of the lock waits for this request.
    /// again.put_inside(account.id());
    /// let failed = block_on(again);
    /// assert!(matches!(failed, Err(Error::Deadlock(_))));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn put_inside(&self, lock: LockId) {
        if let State::Pending(Pending { ticket, agent, .. }) = &self.state {
            agent.backend().put_inside(ticket.unpack(), lock);
        }
    }

    /// Says how long the request waits, if it does. This is for hosts that know only afterwards that it has a
    /// signal. Who says that it gives way has to end it in a deadlock: others go on waiting for that.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::{future::IntoFuture, time::Duration};
    ///
    /// use navlock::{blocking::block_on_timeout, look::Patience};
    ///
    /// let account = locks.lock("account").blocking()?;
    /// let mut again = locks.lock("account").inside(&account).into_future();
    /// assert!(block_on_timeout(&mut again, Duration::ZERO).is_none());
    /// assert!(again.deadlock().is_some());
    /// // A script has an abort signal for it after all.
    /// again.note_patience(Patience::MayGiveUp);
    /// assert!(again.deadlock().is_none());
    /// # Ok::<(), Error>(())
    /// ```
    #[cold]
    pub fn note_patience(&self, patience: Patience) {
        if let State::Pending(Pending { ticket, agent, .. }) = &self.state {
            agent.backend().note_patience(ticket.unpack(), patience);
        }
    }

    /// The deadlock that the waiting request is part of, if that is known. In one process, this is
    /// the state of now. In other reaches, this is what the reach has told so far, and the future's
    /// waker is called when the reach tells of a deadlock.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::{future::IntoFuture, time::Duration};
    ///
    /// use navlock::blocking::block_on_timeout;
    ///
    /// let account = locks.lock("account").blocking()?;
    /// let mut again = locks.lock("account").inside(&account).into_future();
    /// assert!(block_on_timeout(&mut again, Duration::ZERO).is_none());
    /// let deadlock = again.deadlock().expect("it waits for a holder that waits for it");
    /// eprintln!("{}", deadlock.told);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn deadlock(&self) -> Option<InDeadlock> {
        match &self.state {
            State::Pending(Pending { ticket, agent, .. }) => {
                agent.backend().deadlock(ticket.unpack())
            }
            _ => None,
        }
    }
}

impl Pending {
    /// Notes that the request fails in a deadlock. This comes before it is said to be inside a lock.
    pub(super) fn fail_on_deadlock(&mut self, waker: &Waker) {
        self.fails_on_deadlock = Some(Arc::new(waker.clone()));
        self.agent.backend().note_patience(self.ticket.unpack(), Patience::GivesWay);
    }

    /// The deadlock in which the request has to fail, because it is the one that gives way.
    pub(super) fn fails_in_deadlock(&self) -> Option<InDeadlock> {
        // FAST: few requests ask to fail.
        self.fails_on_deadlock.as_ref()?;
        self.agent.backend().fail_in_deadlock(self.ticket.unpack())
    }
}
