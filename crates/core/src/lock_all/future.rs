//! The future of a request for several locks.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use navlock_engine::ResourceName;

use super::{
    error::LockAllError,
    grant::GrantAll,
    taking::{Ask, Taking, Unavailable, poll_lost},
};
use crate::{
    Error, Lock, LockGuard,
    environment::Environment,
    holding::Held,
    look::{InDeadlock, LockId},
    sync::Arc,
};

/// The future of a [`LockAllRequest`](crate::LockAllRequest).
///
/// # Cancel safety
///
/// To drop the future is the abort signal: the locks that were taken are released, and the request
/// that waits leaves its queue.
#[must_use = "futures do nothing unless polled"]
pub struct LockAllFuture<G = Vec<LockGuard>> {
    state: State,
    grant: PhantomData<fn() -> G>,
}

enum State {
    /// Not polled yet.
    Unmade {
        environment: Arc<Environment>,
        ask: Ask,
    },
    Taking(Taking),
    /// Answered. If a lock was not available at once, this has its name.
    Done(Option<ResourceName>),
}

impl<G: GrantAll> Future for LockAllFuture<G> {
    type Output = Result<G, LockAllError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = match mem::replace(&mut self.state, State::Done(None)) {
            State::Unmade { environment, ask } => Taking::new(environment, ask),
            State::Taking(taking) => Ok(taking),
            State::Done(_) => panic!("a `LockAllFuture` was polled after it had completed"),
        };
        let mut taking = taken?;
        let answer = taking.poll(context);
        if answer.is_pending() {
            self.state = State::Taking(taking);
            return Poll::Pending;
        }
        answer.map(|answer| match answer? {
            Ok(guards) => Ok(G::from_guards(guards)),
            Err(Unavailable(name)) => {
                self.state = State::Done(Some(name));
                G::unavailable().map_err(LockAllError::from)
            }
        })
    }
}

impl<G> LockAllFuture<G> {
    pub(super) fn unmade(environment: Arc<Environment>, ask: Ask) -> Self {
        Self { state: State::Unmade { environment, ask }, grant: PhantomData }
    }

    /// The locks that were taken so far, in the order in which they were taken. There are none before
    /// the future was polled, and none once it has completed.
    ///
    /// The guards stay with the future: if one of the locks is lost, the future fails.
    ///
    /// ```
    /// # use std::{future::IntoFuture, time::Duration};
    /// # use navlock::{Error, UserAgent, blocking::block_on_timeout};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let _holder = locks.lock("log").blocking()?;
    /// let mut both = locks.lock_all(["db", "log"]).into_future();
    /// assert!(block_on_timeout(&mut both, Duration::from_millis(1)).is_none());
    /// assert!(both.taken().map(|lock| lock.name()).eq(["db"]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn taken(&self) -> impl ExactSizeIterator<Item = &Lock> {
        // The guards themselves are not returned, because a lock has only one waker for its loss,
        // and the future needs this waker.
        let guards = match &self.state {
            State::Taking(taking) => taking.guards.as_slice(),
            State::Unmade { .. } | State::Done(_) => &[],
        };
        guards.iter().map(|guard| &**guard)
    }

    /// The name whose lock is waited for, if there is one; where any of several is waited for, the first. If the
    /// answer was `None`, this is the name whose lock was not available.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let _holder = locks.lock("log").blocking()?;
    /// let mut both = locks.lock_all(["db", "log"]).if_available().into_future();
    /// # use std::future::IntoFuture;
    /// assert!(block_on(&mut both)?.is_none());
    /// assert_eq!(both.name().expect("one is held"), "log");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn name(&self) -> Option<&ResourceName> {
        match &self.state {
            State::Taking(taking) => taking.pending.first().map(|(name, _)| name),
            State::Done(unavailable) => unavailable.as_ref(),
            State::Unmade { .. } => None,
        }
    }

    /// The deadlock that this request is part of, if it is part of one: see
    /// [`LockFuture::deadlock`](crate::LockFuture::deadlock).
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::{future::IntoFuture, time::Duration};
    ///
    /// use navlock::blocking::block_on_timeout;
    ///
    /// let log = locks.lock("log").blocking()?;
    /// let mut both = locks.lock_all(["db", "log"]).into_future();
    /// // It takes "db", and waits for "log".
    /// assert!(block_on_timeout(&mut both, Duration::ZERO).is_none());
    /// assert!(both.deadlock().is_none());
    ///
    /// let mut db = locks.lock("db").inside(&log).into_future();
    /// assert!(block_on_timeout(&mut db, Duration::ZERO).is_none());
    /// assert!(both.deadlock().is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn deadlock(&self) -> Option<InDeadlock> {
        match &self.state {
            State::Taking(taking) => taking.pending.first()?.1.deadlock(),
            State::Unmade { .. } | State::Done(_) => None,
        }
    }

    /// Aborts the request because it has taken too long, for callers that have a clock of their own: as
    /// [`LockFuture::time_out`](crate::LockFuture::time_out). The error has the name that was waited for.
    pub fn time_out(self) -> LockAllError {
        let first = match self.state {
            State::Taking(taking) => taking.pending.into_iter().next(),
            _ => None,
        };
        match first {
            Some((name, mut request)) => {
                LockAllError::of(&name, Error::TimedOut(request.timed_out()))
            }
            None => {
                Error::TimedOut("the locks could not be had in the time given".to_owned()).into()
            }
        }
    }
}

impl Held for Vec<LockGuard> {
    type Loss = LockAllError;

    fn losses(&self) -> Option<u64> {
        self.iter().map(Held::losses).sum()
    }

    fn lost(&self) -> Option<LockAllError> {
        self.iter().find_map(|guard| Some(LockAllError::of(guard.name(), guard.how_lost()?.into())))
    }

    fn poll_lost(&self, context: &Context<'_>) -> Poll<LockAllError> {
        poll_lost(self, context)
    }

    fn each_id(&self, put: &mut dyn FnMut(LockId)) {
        for guard in self {
            put(guard.id());
        }
    }

    fn release(self) -> Option<LockAllError> {
        // A lock that is lost from here on was held to the end.
        self.lost()
    }
}

impl<G> fmt::Debug for LockAllFuture<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Unmade { .. } => "LockAllFuture(not polled yet)",
            State::Taking(_) => "LockAllFuture(pending)",
            State::Done(_) => "LockAllFuture(done)",
        })
    }
}
