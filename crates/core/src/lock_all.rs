//! Requests for several locks.

use std::{
    error, fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
    vec,
};

use navlock_engine::{Mode, ResourceName};

use crate::{
    Error, Lock, LockFuture, LockGuard, LockManager, LockOptions, LockRequest, blocking,
    guard::{Held, Holding},
    inside::Polling,
    look::LockId,
    sync::{AtomicBool, Mutex, Ordering, lock},
};

/// Of so many locks that were taken, the last ones, it is said that the next one is waited for inside them.
/// Of more, that would take quadratic time.
const MOST_INSIDE: usize = 64;

/// A request for the locks of several names, not made yet. Await it, [`run`](Self::run) something
/// under it, or block a thread on it.
///
/// `G` is what it gives: the guards in the order in which they were taken, which is that of the
/// names, each once; or an `Option` of them with [`if_available`](Self::if_available).
///
/// It has a handle of its own, so that it can be a task:
///
/// ```
/// # use navlock_core::UserAgent;
/// # let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # tokio.block_on(async {
/// let locks = UserAgent::new().lock_manager("app");
/// let task = tokio::spawn(locks.lock_all(["from", "to"]).into_future());
/// drop(locks);
/// let guards = task.await.expect("the task does not panic")?;
/// assert_eq!(guards.len(), 2);
/// # Ok::<(), navlock_core::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// As [`LockRequest`], for the first name that has one, and [`Error::Lost`] if one of the locks was
/// lost while another was waited for; [`LockAllError`] says which. No lock is held then.
#[must_use = "a request is made when it is awaited, run or blocked on"]
pub struct LockAllRequest<G = Vec<LockGuard>> {
    locks: LockManager,
    names: Result<Vec<Wanted>, LockAllError>,
    options: LockOptions,
    grant: PhantomData<fn() -> G>,
}

/// The future of a [`LockAllRequest`].
///
/// # Cancel safety
///
/// Dropping it is the abort signal: what was taken is released, and the queue that it waits in is
/// left.
#[must_use = "futures do nothing unless polled"]
pub struct LockAllFuture<G = Vec<LockGuard>> {
    /// `None` once it has completed.
    state: Option<State>,
    grant: PhantomData<fn() -> G>,
}

/// Why a request for several names failed, and at which of them.
///
/// It becomes the [`Error`] alone where that is asked for, as by `?`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LockAllError {
    /// What went wrong.
    pub error: Error,
    /// With which name; `None` if it is the same with all.
    pub at: Option<FailedName>,
}

/// At which of several names a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailedName {
    /// At this one.
    Name(ResourceName),
    /// At the one that was given at this place, counted from 0. It is none that can be locked.
    Place(usize),
}

/// What a request for several names answers with: see [`LockAllRequest`].
pub trait GrantAll: sealed::Sealed + Sized {
    /// All locks were granted.
    #[doc(hidden)]
    fn from_guards(guards: Vec<LockGuard>) -> Self;

    /// Not all locks could be had at once.
    #[doc(hidden)]
    fn unavailable() -> Result<Self, Error>;
}

mod sealed {
    use crate::LockGuard;

    pub trait Sealed {}
    impl Sealed for Vec<LockGuard> {}
    impl Sealed for Option<Vec<LockGuard>> {}
}

impl GrantAll for Vec<LockGuard> {
    fn from_guards(guards: Vec<LockGuard>) -> Self {
        guards
    }

    #[cold]
    fn unavailable() -> Result<Self, Error> {
        <LockGuard as crate::Grant>::unavailable().map(|guard| vec![guard])
    }
}

impl GrantAll for Option<Vec<LockGuard>> {
    fn from_guards(guards: Vec<LockGuard>) -> Self {
        Some(guards)
    }

    fn unavailable() -> Result<Self, Error> {
        Ok(None)
    }
}

/// One of the names.
#[derive(Debug)]
pub(crate) struct Wanted {
    name: ResourceName,
    /// That of all, if it has none of its own.
    mode: Option<Mode>,
}

impl LockAllRequest {
    pub(crate) fn new<N>(
        locks: &LockManager,
        names: impl Iterator<Item = (N, Option<Mode>)>,
    ) -> Self
    where
        N: TryInto<ResourceName, Error: Into<Error>>,
    {
        let wanted = |(place, (name, mode)): (usize, (N, _))| match name.try_into() {
            Ok(name) => Ok(Wanted { name, mode }),
            Err(error) => {
                Err(LockAllError { error: error.into(), at: Some(FailedName::Place(place)) })
            }
        };
        let names =
            names.enumerate().map(wanted).collect::<Result<Vec<_>, _>>().map(|mut names| {
                // Of one name the exclusive first: it is what remains, and does for both.
                names.sort_by(|a, b| {
                    let is_shared = |wanted: &Wanted| wanted.mode == Some(Mode::Shared);
                    a.name.cmp(&b.name).then(is_shared(a).cmp(&is_shared(b)))
                });
                names.dedup_by(|a, b| a.name == b.name);
                names
            });
        let options = LockOptions::default();
        Self { locks: locks.clone(), names, options, grant: PhantomData }
    }

    /// Asks for the locks only if all of them can be had at once: gives `None`, and has none of
    /// them, if one cannot.
    ///
    /// Those that come before it in the order of the names are taken and given back on the way, so
    /// somebody else who asks at that moment may be told that they are taken.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let holder = locks.lock("log").await?;
    /// assert!(locks.lock_all(["db", "log"]).if_available().await?.is_none());
    /// drop(holder);
    /// assert!(locks.lock_all(["db", "log"]).if_available().await?.is_some());
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn if_available(mut self) -> LockAllRequest<Option<Vec<LockGuard>>> {
        self.options.if_available = true;
        let Self { locks, names, options, .. } = self;
        LockAllRequest { locks, names, options, grant: PhantomData }
    }

    /// Requests the locks and holds them while the future that `callback` returns runs.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let names = locks.lock_all(["log", "db"]).shared().run(async |locks| {
    ///     locks.iter().map(|lock| lock.name().to_string()).collect::<Vec<_>>()
    /// });
    /// assert_eq!(names.await?, ["db", "log"]);
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`], for the first name that has one. If one of the locks is lost, all
    /// are released.
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::run`].
    pub async fn run<F, T>(self, callback: F) -> Result<T, LockAllError>
    where
        F: AsyncFnOnce(Vec<Lock>) -> T,
    {
        let guards = self.await?;
        let locks = guards.iter().map(|guard| Lock::clone(guard)).collect();
        let holding = Holding::of(guards);
        holding.during(callback(locks)).await
    }
}

impl LockAllRequest<Option<Vec<LockGuard>>> {
    /// Requests the locks and runs `callback`: with all locks held, or with `None` if one of them
    /// cannot be had at once.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let _guard = locks.lock("db").blocking()?;
    /// let both = locks.lock_all(["log", "db"]).if_available();
    /// assert!(!block_on(both.run(async |locks| locks.is_some()))?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`], for the first name that has one.
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::run`].
    pub async fn run<F, T>(self, callback: F) -> Result<T, LockAllError>
    where
        F: AsyncFnOnce(Option<Vec<Lock>>) -> T,
    {
        match self.await? {
            Some(guards) => {
                let locks = guards.iter().map(|guard| Lock::clone(guard)).collect();
                let holding = Holding::of(guards);
                holding.during(callback(Some(locks))).await
            }
            None => Ok(callback(None).await),
        }
    }
}

impl<G: GrantAll> LockAllRequest<G> {
    /// Asks for shared locks of all names that were given without a mode.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let _reader = locks.lock("db").shared().blocking()?;
    /// let readers = locks.lock_all(["log", "db"]).shared().blocking()?;
    /// assert_eq!(readers.len(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shared(mut self) -> Self {
        self.options.mode = Mode::Shared;
        self
    }

    /// Blocks the thread until the request is answered: the same as awaiting it, for code without
    /// an executor.
    ///
    /// ```
    /// # use navlock_core::UserAgent;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guards = locks.lock_all(["db", "log"]).blocking()?;
    /// # Ok::<(), navlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As awaiting it.
    pub fn blocking(self) -> Result<G, LockAllError> {
        blocking::block_on(self)
    }

    /// The same, for no longer than `timeout`.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # use std::time::Duration;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let holder = locks.lock("log").blocking()?;
    /// let late = locks.lock_all(["db", "log"]).blocking_timeout(Duration::from_millis(1));
    /// assert_eq!(late.unwrap_err().to_string(), "\"log\": the lock could not be had in the time given");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As awaiting it, and [`Error::TimedOut`] with the name that was waited for, upon which what was
    /// held is released.
    pub fn blocking_timeout(mut self, timeout: Duration) -> Result<G, LockAllError> {
        // As with a signal, it ends without having been granted.
        self.options.signal |= !self.options.if_available;
        let mut future = self.into_future();
        let answer = blocking::block_on_timeout(&mut future, timeout);
        answer.unwrap_or_else(|| Err(future.timed_out()))
    }
}

impl<G: GrantAll> IntoFuture for LockAllRequest<G> {
    type Output = Result<G, LockAllError>;
    type IntoFuture = LockAllFuture<G>;

    fn into_future(self) -> LockAllFuture<G> {
        let Self { locks, names, options, .. } = self;
        LockAllFuture { state: Some(State::Unmade { locks, names, options }), grant: PhantomData }
    }
}

enum State {
    /// Not polled yet.
    Unmade {
        locks: LockManager,
        names: Result<Vec<Wanted>, LockAllError>,
        options: LockOptions,
    },
    Taking(Taking),
}

/// Locks that are taken, one after the other.
struct Taking {
    /// The one that is waited for.
    pending: Option<(ResourceName, LockFuture<'static, Option<LockGuard>>)>,
    left: vec::IntoIter<Wanted>,
    guards: Vec<LockGuard>,
    /// How many of the guards tell of their loss.
    watched: usize,
    losses: std::sync::Arc<Losses>,
    locks: LockManager,
    options: LockOptions,
}

impl<G: GrantAll> Future for LockAllFuture<G> {
    type Output = Result<G, LockAllError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = match self.state.take() {
            Some(State::Unmade { locks, names, options }) => Taking::new(locks, names, options),
            Some(State::Taking(taking)) => Ok(taking),
            None => panic!("a `LockAllFuture` was polled after it had completed"),
        };
        let mut taking = taken?;
        let answer = taking.poll(context);
        if answer.is_pending() {
            self.state = Some(State::Taking(taking));
            return Poll::Pending;
        }
        answer.map(|answer| match answer? {
            Some(guards) => Ok(G::from_guards(guards)),
            None => G::unavailable().map_err(LockAllError::from),
        })
    }
}

impl<G> LockAllFuture<G> {
    /// The error of a request that has taken too long: what it waited for is its name.
    fn timed_out(self) -> LockAllError {
        let error = Error::TimedOut;
        let name = match self.state {
            Some(State::Taking(Taking { pending: Some((name, mut request)), .. })) => {
                request.give_up();
                Some(name)
            }
            _ => None,
        };
        LockAllError { error, at: name.map(FailedName::Name) }
    }
}

impl Taking {
    fn new(
        locks: LockManager,
        names: Result<Vec<Wanted>, LockAllError>,
        options: LockOptions,
    ) -> Result<Self, LockAllError> {
        // The checks that come before the names'.
        locks.environment().obtain_lock_manager()?;
        let left = names?.into_iter();
        let guards = Vec::with_capacity(left.len());
        let losses = std::sync::Arc::default();
        Ok(Self { pending: None, left, guards, watched: 0, losses, locks, options })
    }

    /// All guards, or `None` if one is not to be had at once. Not to be called again after that.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Vec<LockGuard>>, LockAllError>> {
        loop {
            let Some((name, request)) = &mut self.pending else {
                let Some(wanted) = self.left.next() else { break };
                self.pending = Some(self.ask(wanted));
                continue;
            };
            let polling = Polling::begin();
            let polled = Pin::new(request).poll(context);
            if polled.is_pending() {
                let held = self.guards.iter().rev().take(MOST_INSIDE);
                polling.waits(|put| held.clone().for_each(|guard| put(guard.id())));
            }
            let answer = match polled {
                Poll::Ready(answer) => answer,
                // Who has lost what it had waits for no more: it would be let go of again.
                Poll::Pending => return self.poll_lost(context).map(Err),
            };
            match answer {
                Ok(Some(guard)) => self.guards.push(guard),
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(LockAllError::of(name, error))),
            }
            self.pending = None;
        }
        // The first may have been lost while the last was waited for.
        let guards = std::mem::take(&mut self.guards);
        Poll::Ready(match guards.lost() {
            Some(lost) => Err(lost),
            None => Ok(Some(guards)),
        })
    }

    fn ask(&self, wanted: Wanted) -> (ResourceName, LockFuture<'static, Option<LockGuard>>) {
        let Wanted { name, mode } = wanted;
        let options = LockOptions { mode: mode.unwrap_or(self.options.mode), ..self.options };
        let request = LockRequest::new(self.locks.environment(), name.clone(), options);
        (name, request.into_owned())
    }

    /// Ready once one of the locks that were taken is lost.
    ///
    /// Each guard is asked once, and from then on tells of its loss by itself: with many names, each
    /// of which is waited for, to ask all of them each time would take quadratic time.
    fn poll_lost(&mut self, context: &Context<'_>) -> Poll<LockAllError> {
        let waker = Waker::from(std::sync::Arc::clone(&self.losses));
        loop {
            self.losses.tell(context.waker());
            for guard in &self.guards[self.watched..] {
                if let Poll::Ready(lost) = guard.poll_lost(&Context::from_waker(&waker)) {
                    return Poll::Ready(LockAllError::of(guard.name(), lost.into()));
                }
                self.watched += 1;
            }
            // After the task was noted: who tells of a loss from here on wakes it.
            if !self.losses.any.swap(false, Ordering::SeqCst) {
                return Poll::Pending;
            }
            // One of them, and it is not said which.
            self.watched = 0;
        }
    }
}

/// Who is told when any of several locks is lost: one waker to all guards.
#[derive(Default)]
struct Losses {
    any: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Losses {
    /// Has this task woken, in place of the one before.
    fn tell(&self, task: &Waker) {
        let task = task.clone();
        let replaced = lock(&self.task).replace(task);
        // Foreign code, like all that wakers do.
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
        // Each is asked, so that each knows whom to wake.
        self.iter().fold(Poll::Pending, |any, guard| match guard.poll_lost(context) {
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
        // Whatever is lost from here on was held to the end.
        self.lost()
    }
}

impl LockAllError {
    fn of(name: &ResourceName, error: Error) -> Self {
        Self { error, at: Some(FailedName::Name(name.clone())) }
    }
}

impl From<Error> for LockAllError {
    fn from(error: Error) -> Self {
        Self { error, at: None }
    }
}

impl From<LockAllError> for Error {
    fn from(failed: LockAllError) -> Self {
        failed.error
    }
}

impl fmt::Display for LockAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(FailedName::Name(name)) => write!(f, "{name:?}: {}", self.error),
            Some(FailedName::Place(place)) => write!(f, "name {}: {}", place + 1, self.error),
            None => self.error.fmt(f),
        }
    }
}

/// Without a [source](error::Error::source): its text has all that the [`Error`] says.
impl error::Error for LockAllError {}

impl<G> fmt::Debug for LockAllRequest<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockAllRequest")
            .field("names", &self.names)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<G> fmt::Debug for LockAllFuture<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            Some(State::Unmade { .. }) => "LockAllFuture(not polled yet)",
            Some(State::Taking(_)) => "LockAllFuture(pending)",
            None => "LockAllFuture(done)",
        })
    }
}
