//! Requests for one lock.

mod deadlock;
mod future;
mod grant;
mod nested;
mod nesting;
mod timed_out;
mod with_handle;

use std::{fmt, future::IntoFuture, marker::PhantomData, time::Duration};

use navlock_engine::{Mode, ResourceName};

pub(crate) use self::nesting::Nesting;
pub use self::{
    future::LockFuture,
    grant::{Grant, Named},
    nested::NestedRequest,
};
use crate::{
    Error, Lock, LockGuard, LockOptions, blocking, environment::Environment, holding::Holding,
    sync::Arc,
};

/// A request for a lock, which is made only when you await it, [`run`](Self::run) something under
/// it, or block a thread on it.
///
/// `G` is what a grant gives: a [`LockGuard`], or an `Option` of it with
/// [`if_available`](Self::if_available). `N` is the name as it was given: it becomes a
/// [`ResourceName`] when the request is made. A struct that contains a request has to name that
/// type as well; a struct that contains the future of [`into_owned`](Self::into_owned) does not:
///
/// ```
/// # use navlock::{Error, LockFuture, LockGuard, LockRequest, UserAgent};
/// struct Asked<'a>(LockRequest<'a, LockGuard, &'a str>);
/// struct Owned(LockFuture<'static>);
///
/// let locks = UserAgent::new().lock_manager("app");
/// let guard = Asked(locks.lock("db").shared()).0.blocking()?;
/// let next = Owned(locks.lock("db").shared().into_owned());
/// # drop((guard, next));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
///
/// Awaiting, running and blocking fail in the same way, with the first of these that applies:
/// [`Error::NotFullyActive`], [`Error::Terminated`] or [`Error::Closed`]; [`Error::Unobtainable`];
/// [`Error::ReservedName`]; [`Error::StealIfAvailable`]; [`Error::StealShared`];
/// [`Error::SignalWithoutWaiting`]. While waiting: [`Error::Terminated`], [`Error::Closed`],
/// [`Error::Refused`], [`Error::Unreachable`]; and [`Error::Lost`] if the lock was granted and lost
/// again, because it was stolen or its lease has ended, before the waiting task was told.
#[must_use = "a request is made when it is awaited, run or blocked on"]
pub struct LockRequest<'a, G = LockGuard, N = ResourceName> {
    environment: &'a Arc<Environment>,
    name: N,
    options: LockOptions,
    grant: PhantomData<fn() -> G>,
}

impl<'a, G, N> LockRequest<'a, G, N> {
    #[inline]
    pub(crate) fn new(environment: &'a Arc<Environment>, name: N, options: LockOptions) -> Self {
        Self { environment, name, options, grant: PhantomData }
    }
}

impl<'a, N: Named> LockRequest<'a, LockGuard, N> {
    /// Asks for the lock only if it can be had at once. If not, the answer is `None`.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").if_available().blocking()?;
    /// assert!(guard.is_some());
    /// assert!(locks.lock("db").if_available().blocking()?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn if_available(mut self) -> LockRequest<'a, Option<LockGuard>, N> {
        self.options.if_available = true;
        LockRequest::new(self.environment, self.name, self.options)
    }

    /// Requests the lock and holds it while the future that `callback` returns runs.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # navlock::blocking::block_on(async {
    /// let lines = locks.lock("log").shared().run(async |_lock| 42).await?;
    /// assert_eq!(lines, 42);
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As awaiting the request, and [`Error::Lost`] once the callback runs: its future is then
    /// dropped where it awaits.
    ///
    /// # Cancel safety
    ///
    /// To drop the future aborts the request while it waits. Once the callback runs, to drop the
    /// future drops the callback's future, and then releases the lock.
    pub async fn run<F, T>(self, callback: F) -> Result<T, Error>
    where
        F: AsyncFnOnce(Lock) -> T,
    {
        let guard = self.await?;
        let lock = Lock::clone(&guard);
        let holding = Holding::of(guard);
        holding.during(callback(lock)).await
    }
}

impl<N: Named> LockRequest<'_, Option<LockGuard>, N> {
    /// Requests the lock and runs `callback`: with the lock held, or with `None` if it cannot be
    /// had at once.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # navlock::blocking::block_on(async {
    /// let guard = locks.lock("db").await?;
    /// let ran = locks.lock("db").if_available().run(async |lock| lock.is_some());
    /// assert!(!ran.await?);
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`run`](LockRequest::run) of a request that waits.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](LockRequest::run) of a request that waits.
    pub async fn run<F, T>(self, callback: F) -> Result<T, Error>
    where
        F: AsyncFnOnce(Option<Lock>) -> T,
    {
        match self.await? {
            Some(guard) => {
                let lock = Lock::clone(&guard);
                let holding = Holding::of(guard);
                holding.during(callback(Some(lock))).await
            }
            None => Ok(callback(None).await),
        }
    }
}

impl<G: Grant, N: Named> LockRequest<'_, G, N> {
    /// Asks for a shared lock.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let readers = [(); 2].map(|()| locks.lock("db").shared().blocking());
    /// assert!(readers.iter().all(Result::is_ok));
    /// assert!(locks.lock("db").if_available().blocking()?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn shared(mut self) -> Self {
        self.options.mode = Mode::Shared;
        self
    }

    /// Asks for the exclusive lock even if others hold locks of this name: these holders lose their
    /// locks. The request goes before all that wait.
    ///
    /// The holders that lose their locks may still be at work. So steal only to recover from a
    /// holder that will not end.
    ///
    /// With [`shared`](Self::shared) or [`if_available`](LockRequest::if_available) the request fails,
    /// as the specification has it, when it is awaited: with [`Error::StealShared`] or
    /// [`Error::StealIfAvailable`].
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let victim = locks.lock("db").blocking()?;
    /// let thief = locks.lock("db").steal().blocking()?;
    /// assert!(victim.is_lost() && !thief.is_lost());
    /// // Only the exclusive lock can be stolen, and what is stolen is had at once.
    /// assert_eq!(locks.lock("db").shared().steal().blocking().unwrap_err(), Error::StealShared);
    /// assert_eq!(locks.lock("db").if_available().steal().blocking().unwrap_err(), Error::StealIfAvailable);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn steal(mut self) -> Self {
        self.options.steal = true;
        self
    }

    /// The future of this request, with a handle of its own, so that the future can outlive the
    /// handle that the request was started from. This is for tasks, which must not borrow.
    ///
    /// ```
    /// # use navlock::UserAgent;
    /// # let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # tokio.block_on(async {
    /// let locks = UserAgent::new().lock_manager("app");
    /// let task = tokio::spawn(locks.lock("db").shared().into_owned());
    /// drop(locks);
    /// let guard = task.await.expect("the task does not panic")?;
    /// # drop(guard);
    /// # Ok::<(), navlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn into_owned(self) -> LockFuture<'static, G> {
        let Self { environment, name, options, .. } = self;
        let name = name.try_into().map_err(Into::into);
        let environment = Arc::clone(environment);
        LockFuture::owned(environment, name, options, None)
    }

    /// Blocks the thread until the request is answered: the same as awaiting it, for code without
    /// an executor. Do not use it in async code, where it would block the executor's thread.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As awaiting it.
    pub fn blocking(self) -> Result<G, Error> {
        blocking::block_on(self)
    }

    /// Blocks the thread until the request is answered, for no longer than `timeout`.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use std::time::Duration;
    ///
    /// let guard = locks.lock("db").blocking()?;
    /// let late = locks.lock("db").blocking_timeout(Duration::from_millis(1));
    /// let error = late.unwrap_err();
    /// assert!(matches!(error, Error::TimedOut(_)));
    /// // Behind this, the text says who holds the lock.
    /// assert!(error.to_string().starts_with("\"db\": the lock could not be had in the time given"));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As awaiting it, and [`Error::TimedOut`]; the request has then left its queue.
    pub fn blocking_timeout(self, timeout: Duration) -> Result<G, Error> {
        self.may_give_up().into_future().block_for(timeout)
    }

    /// The request, which may give up by itself, as a request with a signal may.
    fn may_give_up(mut self) -> Self {
        self.options.signal |= !self.options.steal && !self.options.if_available;
        self
    }
}

impl<'a, G: Grant, N: Named> IntoFuture for LockRequest<'a, G, N> {
    type Output = Result<G, Error>;
    type IntoFuture = LockFuture<'a, G, N>;

    #[inline]
    fn into_future(self) -> LockFuture<'a, G, N> {
        let Self { environment, name, options, .. } = self;
        LockFuture::unmade(environment, name, options)
    }
}

impl<G, N: fmt::Debug> fmt::Debug for LockRequest<'_, G, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRequest")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
