//! The future of a request for one lock.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use navlock_engine::{Mode, Patience, RequestKind, ResourceName};

use super::{Grant, Named, nesting::Nesting};
use crate::{
    Error, Lock, LockGuard, LockOptions,
    agent_ref::{AgentRef, AgentRefs},
    backend::{Answer, AnyBackend, Backend, PackedTicket, RequestDetails, Ticket},
    environment::Environment,
    guard::PolledGuard,
    measure::Waits,
    sync::Arc,
};

/// The future of a [`LockRequest`](crate::LockRequest).
///
/// # Cancel safety
///
/// To drop the future aborts the request: a waiting request leaves its queue, and requests that
/// waited only because of it are granted. If the grant was on its way, the lock is released. To
/// forget the future (`mem::forget`) keeps the place in the queue, and then the lock that is
/// granted there.
#[must_use = "futures do nothing unless polled"]
pub struct LockFuture<'a, G = LockGuard, N = ResourceName> {
    pub(super) state: State<'a, N>,
    grant: PhantomData<fn() -> G>,
}

pub(super) enum State<'a, N> {
    /// Not polled yet.
    Unmade {
        environment: &'a Arc<Environment>,
        /// The name, which is taken out when the request is made.
        name: Option<N>,
        options: LockOptions,
    },
    /// Not polled yet, with a handle of its own.
    Owned {
        environment: Arc<Environment>,
        name: Result<ResourceName, Error>,
        options: LockOptions,
        nesting: Option<Box<Nesting>>,
    },
    /// In the queue, or granted without the task knowing yet.
    Pending(Pending),
    /// Answered.
    Done,
}

/// A request that was made.
pub(super) struct Pending {
    pub(super) name: ResourceName,
    mode: Mode,
    pub(super) ticket: PackedTicket,
    pub(super) agent: Arc<AgentRef>,
    pub(super) waits: Waits,
    /// For a request that fails in a deadlock: the waker to call once it is known what the request
    /// is inside of.
    pub(super) fails_on_deadlock: Option<Arc<Waker>>,
}

impl<'a, G, N> LockFuture<'a, G, N> {
    /// The future of a request that is not made yet.
    #[inline]
    pub(super) fn unmade(environment: &'a Arc<Environment>, name: N, options: LockOptions) -> Self {
        let state = State::Unmade { environment, name: Some(name), options };
        Self { state, grant: PhantomData }
    }

    /// The future of a request that is not made yet, with a handle of its own.
    pub(super) fn owned(
        environment: Arc<Environment>,
        name: Result<ResourceName, Error>,
        options: LockOptions,
        nesting: Option<Box<Nesting>>,
    ) -> Self {
        let state = State::Owned { environment, name, options, nesting };
        Self { state, grant: PhantomData }
    }
}

/// Nothing in the future is ever pinned.
impl<G, N> Unpin for LockFuture<'_, G, N> {}

impl<G: Grant, N: Named> Future for LockFuture<'_, G, N> {
    type Output = Result<G, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.state {
            State::Unmade { .. } => self.make(context),
            State::Owned { .. } => self.make_owned(context),
            _ => self.poll_made(context),
        }
    }
}

impl<G: Grant, N: Named> LockFuture<'_, G, N> {
    /// Makes the request.
    #[inline]
    fn make(&mut self, context: &Context<'_>) -> Poll<Result<G, Error>> {
        // FAST: the state is taken field by field. If it were moved as a whole, it would be loaded
        // in other pieces than those in which it was stored a moment ago, and the CPU would have to
        // wait.
        let State::Unmade { environment, name, options } = &mut self.state else {
            unreachable!("asked for by `poll`, which has looked")
        };
        let (environment, options) = (*environment, *options);
        let Some(name) = name.take() else {
            unreachable!("taken only here, and the state is another from here on")
        };
        self.state = State::Done;
        let name = || name.try_into().map_err(Into::into);
        self.make_in(environment, name, options, context, (RequestDetails::default(), false))
    }

    /// Makes the request in this environment. If it waits and `has_nesting` is set, the caller is about to
    /// say inside which locks it is made.
    ///
    /// Spec: the method steps of <https://w3c.github.io/web-locks/#api-lock-manager-request>
    #[inline]
    pub(super) fn make_in(
        &mut self,
        environment: &Environment,
        name: impl FnOnce() -> Result<ResourceName, Error>,
        options: LockOptions,
        context: &Context<'_>,
        (details, has_nesting): (RequestDetails<'_>, bool),
    ) -> Poll<Result<G, Error>> {
        // 1–2. BY TYPE: options have their defaults, the environment is the handle's.
        // 3–4.
        let refs = environment.obtain_lock_manager()?;
        // 5.
        let name = name()?;
        // 6–8.
        let kind: RequestKind = options.kind()?;
        // 9–10. BY TYPE: a caller whose signal has fired does not poll; this future is the promise.
        // 11.
        let (agent, waker) = (refs.agent.id, context.waker());
        let waits = Waits::begin(refs.agent.state());
        // A request that may give up by itself is said to be inside nothing.
        let nested = (!options.signal).then_some(waker);
        // FAST: each kind of backend has its own call of `made_now`, so that what the in-memory backend
        // returns stays in registers.
        match refs.agent.backend() {
            AnyBackend::Memory(memory) => self.made_now(
                memory.request(agent, &name, kind, details, waker),
                name,
                kind,
                refs,
                waits,
                nested,
                has_nesting,
            ),
            AnyBackend::Other(other) => self.made_now(
                other.request(agent, &name, kind, details, waker),
                name,
                kind,
                refs,
                waits,
                nested,
                has_nesting,
            ),
        }
        // 12. The promise was returned before it was polled.
    }

    /// Goes on with a request that was just made. `nested` is the waker of the task, if the request can be
    /// inside a lock.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "FAST: in registers")]
    fn made_now(
        &mut self,
        answered: Result<(Ticket, Poll<Answer>), Error>,
        name: ResourceName,
        kind: RequestKind,
        refs: &AgentRefs,
        waits: Waits,
        nested: Option<&Waker>,
        has_nesting: bool,
    ) -> Poll<Result<G, Error>> {
        let mode = kind.mode();
        match answered {
            Ok((ticket, Poll::Ready(Answer::Granted(token)))) => {
                let guard = LockGuard::new(name, mode, token, ticket, refs, waits.granted());
                Poll::Ready(Ok(G::from_guard(guard)))
            }
            Ok((_, Poll::Ready(Answer::Unavailable))) => {
                waits.unavailable();
                Poll::Ready(G::unavailable())
            }
            Ok((ticket, Poll::Pending)) => {
                let (agent, ticket) = (Arc::clone(refs.here()), ticket.into());
                let waker = nested.filter(|_| refs.agent.scope().fails_on_deadlock());
                let (waits, fails_on_deadlock) = (waits.pending(), None);
                let mut pending = Pending { name, mode, ticket, agent, waits, fails_on_deadlock };
                if let Some(waker) = waker {
                    pending.fail_on_deadlock(waker);
                }
                self.state = State::Pending(pending);
                if nested.is_some() {
                    self.tell_surroundings();
                } else {
                    self.note_patience(Patience::MayGiveUp);
                }
                if !has_nesting {
                    self.tell_made();
                }
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(refs.agent.state().explain(error))),
        }
    }

    /// Polls a request that was made.
    pub(super) fn poll_made(&mut self, context: &Context<'_>) -> Poll<Result<G, Error>> {
        self.answered(|backend, ticket| backend.poll_request(ticket, context.waker()))
    }

    /// Takes in the answer of the backend.
    #[inline]
    fn answered(
        &mut self,
        ask: impl FnOnce(&AnyBackend, Ticket) -> Poll<Result<Answer, Error>>,
    ) -> Poll<Result<G, Error>> {
        let State::Pending(pending) = &self.state else {
            panic!("a `LockFuture` was polled after it had completed")
        };
        let Pending { ticket, agent, .. } = pending;
        let Poll::Ready(answer) = ask(agent.backend(), ticket.unpack()) else {
            return match pending.fails_in_deadlock() {
                Some(deadlock) => self.fail_in(deadlock),
                None => Poll::Pending,
            };
        };
        let State::Pending(Pending { name, mode, ticket, agent, waits, .. }) =
            mem::replace(&mut self.state, State::Done)
        else {
            unreachable!("it was pending a moment ago")
        };
        // The grant may be due to the end of another agent, which ends together with this one.
        let answer = answer.and_then(|answer| agent.state.check_alive().map(|()| answer));
        Poll::Ready(match answer {
            Ok(Answer::Granted(token)) => {
                let lock = Lock::new(name, mode, token);
                Ok(G::from_guard(LockGuard::anew(lock, ticket, agent, waits.granted())))
            }
            Ok(Answer::Unavailable) => {
                waits.unavailable();
                G::unavailable()
            }
            Err(error) => {
                // If the lock was granted, this call gives it to the next waiter. If not, the
                // backend may keep the reason of the failure until this call.
                agent.finish(ticket);
                Err(agent.state.explain(error))
            }
        })
    }
}

impl LockFuture<'static, Option<LockGuard>> {
    /// Polls a request that was made, for a host that also polls the granted lock by hand. If the
    /// lock is granted, this call is also the first [`PolledGuard::poll_lost`], with the same
    /// context. If the lock was granted and has been lost since, the answer is [`Error::Lost`]. If
    /// the agent has ended, the answer is how the agent ended, as for a waiting request.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # use navlock::{Error, LockOptions, UserAgent};
    /// let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// let context = &mut Context::from_waker(Waker::noop());
    /// let mut next = locks.lock_with("db", LockOptions::default()).into_owned();
    /// # assert!(std::future::Future::poll(std::pin::Pin::new(&mut next), context).is_pending());
    /// assert!(next.poll_watched(context).is_pending());
    /// drop(guard);
    /// assert!(matches!(next.poll_watched(context), Poll::Ready(Ok(Some(_)))));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of a [`LockRequest`](crate::LockRequest).
    ///
    /// # Panics
    ///
    /// If the future was not polled before, or has been answered.
    pub fn poll_watched(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<PolledGuard>, Error>> {
        let answered =
            self.answered(|backend, ticket| backend.poll_watched(ticket, context.waker()));
        answered.map_ok(|guard| guard.map(LockGuard::into_polled))
    }

    /// The future of a request that was made through another process and has this ticket here.
    pub(crate) fn made(
        name: ResourceName,
        mode: Mode,
        ticket: Ticket,
        agent: Arc<AgentRef>,
    ) -> Self {
        let ticket = ticket.into();
        let (waits, fails_on_deadlock) = (Waits::elsewhere(), None);
        let pending = Pending { name, mode, ticket, agent, waits, fails_on_deadlock };
        Self { state: State::Pending(pending), grant: PhantomData }
    }
}

impl<G, N> LockFuture<'_, G, N> {
    /// The name and mode of the request, if it was made and is not answered yet: see the example of
    /// [`detach`](Self::detach).
    pub fn pending(&self) -> Option<(&ResourceName, Mode)> {
        match &self.state {
            State::Pending(Pending { name, mode, .. }) => Some((name, *mode)),
            _ => None,
        }
    }

    /// The same request, in its place in the queue, without the lock manager's handle, which a
    /// request that was made does not need any more. `None` if it is not [pending](Self::pending).
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::{future::IntoFuture, time::Duration};
    ///
    /// use navlock::blocking::{block_on, block_on_timeout};
    ///
    /// let guard = locks.lock("db").blocking()?;
    /// let mut next = locks.lock("db").into_future();
    /// assert!(block_on_timeout(&mut next, Duration::ZERO).is_none());
    /// if let Some((name, mode)) = next.pending() {
    ///     eprintln!("waiting for {name} ({mode})");
    /// }
    /// let next = next.detach().expect("it waits");
    /// drop((locks, guard));
    /// // The agent lives as long as its request.
    /// let guard = block_on(next)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn detach(mut self) -> Option<LockFuture<'static, G>> {
        match mem::replace(&mut self.state, State::Done) {
            State::Pending(pending) => {
                Some(LockFuture { state: State::Pending(pending), grant: PhantomData })
            }
            _ => None,
        }
    }
}

impl<G, N> Drop for LockFuture<'_, G, N> {
    #[inline]
    fn drop(&mut self) {
        if let State::Pending(Pending { ticket, agent, .. }) = &self.state {
            agent.finish(*ticket);
        }
    }
}

impl<G, N> fmt::Debug for LockFuture<'_, G, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Unmade { .. } | State::Owned { .. } => "LockFuture(not polled yet)",
            State::Pending(_) => "LockFuture(pending)",
            State::Done => "LockFuture(done)",
        })
    }
}
