//! The future of a request for several locks.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    task::{Context, Poll, Wake, Waker},
    vec,
};

use navlock_engine::{Mode, ResourceName};

use super::{error::LockAllError, grant::GrantAll};
use crate::{
    Error, Lock, LockFuture, LockGuard, LockOptions, LockRequest,
    environment::Environment,
    holding::Held,
    look::{InDeadlock, LockId},
    request::Nesting,
    sync::{Arc, AtomicBool, Mutex, Ordering, lock},
};

/// A request for the next lock says inside which locks it is. It names the locks that were taken last, at
/// most this many. To name all of them would take quadratic time.
const MOST_INSIDE: usize = 64;

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

/// One of the names.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) name: ResourceName,
    /// `None` if the mode of the whole request applies to this name.
    pub(super) mode: Option<Mode>,
}

/// What is asked for.
#[derive(Debug)]
pub(super) struct Ask {
    /// The names, sorted, each once.
    pub(super) names: Result<Vec<Wanted>, LockAllError>,
    pub(super) options: LockOptions,
    pub(super) fails_on_deadlock: bool,
    pub(super) why: String,
    /// Whether one of the names is enough. Then they are in the order in which they were given.
    pub(super) is_any: bool,
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

/// The state while the locks are taken, one after the other.
struct Taking {
    /// The request for the lock that is waited for; where one lock is enough, a request for each.
    pending: Vec<(ResourceName, LockFuture<'static, Option<LockGuard>>)>,
    left: vec::IntoIter<Wanted>,
    guards: Vec<LockGuard>,
    /// How many of the guards have been told to wake this future when their locks are lost.
    watched: usize,
    losses: std::sync::Arc<Losses>,
    environment: Arc<Environment>,
    options: LockOptions,
    fails_on_deadlock: bool,
    /// What the locks are for.
    why: String,
    is_any: bool,
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

    /// The deadlock that this request is part of, if it is part of one: see [`LockFuture::deadlock`].
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

    /// The error of a request that has taken too long, with the name that it waited for.
    pub(super) fn timed_out(self) -> LockAllError {
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

/// The lock of this name cannot be had at once.
struct Unavailable(ResourceName);

impl Taking {
    fn new(environment: Arc<Environment>, ask: Ask) -> Result<Self, LockAllError> {
        let Ask { names, mut options, fails_on_deadlock, why, is_any } = ask;
        // These checks come before those of the names.
        environment.obtain_lock_manager()?;
        let left = names?;
        // All options are checked before the first lock is taken, because a request that is refused
        // must not have stolen anything.
        if left.is_empty() {
            options.kind()?;
            if is_any {
                return Err(Error::refused("no names were given, of which one could be had").into());
            }
        }
        for Wanted { name, mode } in &left {
            let checked = LockOptions { mode: mode.unwrap_or(options.mode), ..options }.kind();
            checked.map_err(|error| LockAllError::of(name, error))?;
        }
        // A request that waits for any of several names gives each of the others up by itself.
        options.signal |= is_any && !options.steal && !options.if_available;
        let left = left.into_iter();
        let guards = Vec::with_capacity(left.len());
        let losses = std::sync::Arc::default();
        let (pending, watched) = (Vec::new(), 0);
        Ok(Self {
            pending,
            left,
            guards,
            watched,
            losses,
            environment,
            options,
            fails_on_deadlock,
            why,
            is_any,
        })
    }

    /// Ready with all guards, or with the name of a lock that cannot be had at once. Not to be called
    /// again after it was ready.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Result<Vec<LockGuard>, Unavailable>, LockAllError>> {
        if self.is_any {
            return self.poll_any(context);
        }
        loop {
            let Some((name, request)) = self.pending.first_mut() else {
                let Some(wanted) = self.left.next() else { break };
                let request = self.ask(wanted);
                self.pending.push(request);
                continue;
            };
            // FAST: only a request that has to wait needs to say inside which locks it was made.
            let nesting = || Nesting {
                inside: self.guards.iter().rev().take(MOST_INSIDE).map(LockGuard::id).collect(),
                fails_on_deadlock: self.fails_on_deadlock,
                why: String::new(),
            };
            let answer = match request.poll_nested(context, &self.why, nesting) {
                Poll::Ready(answer) => answer,
                // After a loss there is no use in waiting for more locks, because all of them would
                // be released.
                Poll::Pending => return self.poll_lost(context).map(Err),
            };
            match answer {
                Ok(Some(guard)) => self.guards.push(guard),
                Ok(None) => return Poll::Ready(Ok(Err(Unavailable(name.clone())))),
                Err(error) => return Poll::Ready(Err(LockAllError::of(name, error))),
            }
            self.pending.clear();
        }
        // The first lock may have been lost while the last one was waited for.
        let guards = mem::take(&mut self.guards);
        Poll::Ready(match guards.lost() {
            Some(lost) => Err(lost),
            None => Ok(Ok(guards)),
        })
    }

    /// Ready with one guard, or with the name of a lock that cannot be had at once, if none can.
    fn poll_any(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Result<Vec<LockGuard>, Unavailable>, LockAllError>> {
        let mut unavailable = None;
        let mut at = 0;
        loop {
            let Some((name, request)) = self.pending.get_mut(at) else {
                // A name is requested only if none before it is free.
                let Some(wanted) = self.left.next() else { break };
                let request = self.ask(wanted);
                self.pending.push(request);
                continue;
            };
            let why = &self.why;
            match request.poll_nested(context, why, Nesting::default) {
                Poll::Ready(Ok(Some(guard))) => {
                    // The others leave their queues. One that was granted meanwhile is given back.
                    self.pending.clear();
                    return Poll::Ready(Ok(Ok(vec![guard])));
                }
                Poll::Ready(Ok(None)) => {
                    unavailable.get_or_insert_with(|| Unavailable(name.clone()));
                    drop(self.pending.remove(at));
                }
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(LockAllError::of(name, error)));
                }
                Poll::Pending => at += 1,
            }
        }
        match unavailable {
            Some(unavailable) if self.pending.is_empty() => Poll::Ready(Ok(Err(unavailable))),
            _ => Poll::Pending,
        }
    }

    /// The request for the next name.
    fn ask(&self, wanted: Wanted) -> (ResourceName, LockFuture<'static, Option<LockGuard>>) {
        let Wanted { name, mode } = wanted;
        let options = LockOptions { mode: mode.unwrap_or(self.options.mode), ..self.options };
        let request = LockRequest::new(&self.environment, name.clone(), options);
        (name, request.into_owned())
    }

    /// Ready once one of the locks that were taken is lost.
    ///
    /// Each guard is asked once, and from then on tells of its loss by itself. With many names, of
    /// which each is waited for, it would take quadratic time to ask all guards each time.
    fn poll_lost(&mut self, context: &Context<'_>) -> Poll<LockAllError> {
        let waker = Waker::from(std::sync::Arc::clone(&self.losses));
        loop {
            self.losses.tell(context.waker());
            for guard in &self.guards[self.watched..] {
                if let Poll::Ready(lost) = Held::poll_lost(guard, &Context::from_waker(&waker)) {
                    return Poll::Ready(LockAllError::of(guard.name(), lost.into()));
                }
                self.watched += 1;
            }
            // This is asked after the task was noted, so a loss from here on wakes the task.
            if !self.losses.any.swap(false, Ordering::SeqCst) {
                return Poll::Pending;
            }
            // One of the locks was lost, and it is not said which: all guards are asked again.
            self.watched = 0;
        }
    }
}

/// One waker for all guards, which wakes the task when any of the locks is lost.
#[derive(Default)]
struct Losses {
    any: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Losses {
    /// Notes that this task is to be woken, in place of the earlier one.
    fn tell(&self, task: &Waker) {
        let task = task.clone();
        let replaced = lock(&self.task).replace(task);
        // Dropping a waker calls the caller's code, so it is not done while the mutex is locked.
        drop(replaced);
    }
}

impl Wake for Losses {
    fn wake(self: std::sync::Arc<Self>) {
        self.any.store(true, Ordering::SeqCst);
        let task = lock(&self.task).take();
        if let Some(task) = task {
            task.wake();
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
        // All guards are asked, so that each one knows whom to wake.
        self.iter().fold(Poll::Pending, |any, guard| match Held::poll_lost(guard, context) {
            Poll::Ready(lost) => Poll::Ready(LockAllError::of(guard.name(), lost.into())),
            Poll::Pending => any,
        })
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
