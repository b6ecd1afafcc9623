//! Requests for several locks.

mod error;
mod future;
mod grant;
mod taking;

use std::{fmt, future::IntoFuture, marker::PhantomData, time::Duration};

use navlock_engine::{Mode, ResourceName};

use self::taking::{Ask, How, Wanted};
pub use self::{
    error::{FailedName, LockAllError},
    future::LockAllFuture,
    grant::GrantAll,
};
use crate::{
    Error, LockGuard, LockOptions, blocking, environment::Environment, holding::Holding, sync::Arc,
};

/// A request for whichever of several names is free first: see
/// [`LockManager::lock_any`](crate::LockManager::lock_any).
pub type LockAnyRequest<G = LockGuard> = LockAllRequest<G>;

/// The future of a [`LockAnyRequest`].
pub type LockAnyFuture<G = LockGuard> = LockAllFuture<G>;

/// A request for the locks of several names, which is made only when you await it,
/// [`run`](Self::run) something under it, or block a thread on it.
///
/// `G` is what a grant gives: one guard for each distinct name, sorted by name, which is also the order
/// in which the locks are taken. With [`if_available`](Self::if_available), it is an `Option` of
/// these guards.
///
/// The request has a handle of its own, so that its future can be a task:
///
/// ```
/// # use navlock::UserAgent;
/// # let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # tokio.block_on(async {
/// let locks = UserAgent::new().lock_manager("app");
/// let task = tokio::spawn(locks.lock_all(["from", "to"]).into_future());
/// drop(locks);
/// let guards = task.await.expect("the task does not panic")?;
/// assert_eq!(guards.len(), 2);
/// # Ok::<(), navlock::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// Those of [`LockRequest`](crate::LockRequest), for the first name at which the request fails, and
/// [`Error::Lost`] if one of the locks was lost while another was waited for; [`LockAllError`] says
/// which name it is. No lock is held after an error.
#[must_use = "a request is made when it is awaited, run or blocked on"]
pub struct LockAllRequest<G = Vec<LockGuard>> {
    environment: Arc<Environment>,
    ask: Ask,
    grant: PhantomData<fn() -> G>,
}

impl<G> LockAllRequest<G> {
    /// A request for all of the names or, if `is_any` is set, for one of them.
    pub(crate) fn new<N>(
        environment: &Arc<Environment>,
        names: impl Iterator<Item = (N, Option<Mode>)>,
        is_any: bool,
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
                if is_any {
                    return names;
                }
                // For each name, exclusive comes before shared: `dedup_by` keeps the first, and an
                // exclusive lock is enough for both.
                names.sort_by(|a, b| {
                    let is_shared = |wanted: &Wanted| wanted.mode == Some(Mode::Shared);
                    a.name.cmp(&b.name).then(is_shared(a).cmp(&is_shared(b)))
                });
                names.dedup_by(|a, b| a.name == b.name);
                names
            });
        let how = How {
            options: LockOptions::default(),
            fails_on_deadlock: false,
            why: String::new(),
            is_any,
        };
        let (environment, ask) = (Arc::clone(environment), Ask { names, how });
        Self { environment, ask, grant: PhantomData }
    }

    /// Asks with options that came from elsewhere, in any combination, as
    /// [`LockManager::lock_with`] does for one name. The request gives `None` only with
    /// `if_available`.
    ///
    /// The options replace what earlier calls, such as [`shared`](Self::shared), have chosen. A name
    /// that was given with a mode keeps that mode. If the options are refused for one of the names, no
    /// lock is requested. Where one of several names is enough, the list has one guard.
    ///
    /// ```
    /// # use navlock::{Error, LockOptions, Mode, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let options = LockOptions { mode: Mode::Shared, ..LockOptions::default() };
    /// let guards = locks.lock_all(["db", "log"]).with_options(options).blocking()?;
    /// assert_eq!(guards.map(|guards| guards.len()), Some(2));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// [`LockManager::lock_with`]: crate::LockManager::lock_with
    pub fn with_options(mut self, options: LockOptions) -> LockAllRequest<Option<Vec<LockGuard>>> {
        self.ask.how.options = options;
        let Self { environment, ask, .. } = self;
        LockAllRequest { environment, ask, grant: PhantomData }
    }
}

impl LockAllRequest {
    /// Asks for the locks only if all of them can be had at once. If one of them cannot be had at once,
    /// the request gives `None` and holds none of them.
    ///
    /// In that case the locks of the names before that one, in the order of the names, are taken and given
    /// back. Somebody else who asks for one of these locks meanwhile may be told that it is taken.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
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
        self.ask.how.options.if_available = true;
        let Self { environment, ask, .. } = self;
        LockAllRequest { environment, ask, grant: PhantomData }
    }
}

impl LockAnyRequest {
    /// Asks for one of the locks only if one can be had at once. If none can, the request gives `None`.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let first = locks.lock_any(["db-1", "db-2"]).if_available().blocking()?;
    /// let second = locks.lock_any(["db-1", "db-2"]).if_available().blocking()?;
    /// assert_eq!(second.as_ref().expect("one is free").name(), "db-2");
    /// assert!(locks.lock_any(["db-1", "db-2"]).if_available().blocking()?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn if_available(mut self) -> LockAnyRequest<Option<LockGuard>> {
        self.ask.how.options.if_available = true;
        let Self { environment, ask, .. } = self;
        LockAllRequest { environment, ask, grant: PhantomData }
    }
}

impl<G: GrantAll> LockAllRequest<G> {
    /// Requests the locks and holds them while the future that `callback` returns runs. The callback is given
    /// the locks, or the one lock. After [`if_available`](Self::if_available) it is given `None` if they
    /// cannot be had at once.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let names = locks.lock_all(["log", "db"]).shared().run(async |locks| {
    ///     locks.iter().map(|lock| lock.name().to_string()).collect::<Vec<_>>()
    /// });
    /// assert_eq!(names.await?, ["db", "log"]);
    ///
    /// let _holder = locks.lock("db-1").await?;
    /// let which = locks.lock_any(["db-1", "db-2"]).run(async |lock| lock.name().to_string());
    /// assert_eq!(which.await?, "db-2");
    /// let both = locks.lock_all(["db-1", "db-2"]).if_available();
    /// assert!(!both.run(async |locks| locks.is_some()).await?);
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`](crate::LockRequest::run), for the first name at which the request
    /// fails. If one of the locks is lost, all are released.
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::run`](crate::LockRequest::run).
    pub async fn run<F, T>(self, callback: F) -> Result<T, LockAllError>
    where
        F: AsyncFnOnce(G::Locks) -> T,
    {
        let (guards, locks) = self.await?.into_guards();
        Holding::of(guards).during(callback(locks)).await
    }

    /// Asks for shared locks of all names that were given without a mode.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let _reader = locks.lock("db").shared().blocking()?;
    /// let readers = locks.lock_all(["log", "db"]).shared().blocking()?;
    /// assert_eq!(readers.len(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shared(mut self) -> Self {
        self.ask.how.options.mode = Mode::Shared;
        self
    }

    /// Lets the request fail in a deadlock: see
    /// [`LockRequest::fail_on_deadlock`](crate::LockRequest::fail_on_deadlock). The request
    /// for each lock says that it is inside the locks that this call has already taken. If there are
    /// more than 64, the request names only the last 64, and a deadlock through an earlier one is not
    /// found.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let nested = locks.request("log", async |_| {
    ///     locks.lock_all(["db", "log"]).fail_on_deadlock().await.map(drop)
    /// });
    /// assert!(matches!(nested.await?.unwrap_err().error, Error::Deadlock(_)));
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn fail_on_deadlock(mut self) -> Self {
        self.ask.how.fails_on_deadlock = true;
        self
    }

    /// Says what the locks are for: see [`LockRequest::why`](crate::LockRequest::why).
    ///
    /// ```
    /// # use navlock::{UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guards = locks.lock_all(["db", "log"]).why("nightly backup").blocking()?;
    /// # let seen = block_on(locks.inspect(None))?;
    /// # assert!(seen.held.iter().all(|one| one.agent.as_ref().unwrap().why == "nightly backup"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.ask.how.why = why.into();
        self
    }

    /// Blocks the thread until the request is answered: the same as awaiting it, for code without
    /// an executor.
    ///
    /// ```
    /// # use navlock::UserAgent;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guards = locks.lock_all(["db", "log"]).blocking()?;
    /// # Ok::<(), navlock::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As awaiting it.
    pub fn blocking(self) -> Result<G, LockAllError> {
        blocking::block_on(self)
    }

    /// Blocks the thread until the request is answered, for no longer than `timeout`.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # use std::time::Duration;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let holder = locks.lock("log").blocking()?;
    /// let late = locks.lock_all(["db", "log"]).blocking_timeout(Duration::from_millis(1));
    /// let told = late.unwrap_err().to_string();
    /// // Behind this, the text says who holds the lock.
    /// assert!(told.starts_with("\"log\": the lock could not be had in the time given; "));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As awaiting it, and [`Error::TimedOut`] with the name that was waited for; the locks that
    /// were held are then released.
    pub fn blocking_timeout(mut self, timeout: Duration) -> Result<G, LockAllError> {
        // The request may give up by itself, as a request with a signal may.
        let options = &mut self.ask.how.options;
        options.signal |= !options.steal && !options.if_available;
        let mut future = self.into_future();
        let answer = blocking::block_on_timeout(&mut future, timeout);
        answer.unwrap_or_else(|| Err(future.time_out()))
    }
}

impl<G: GrantAll> IntoFuture for LockAllRequest<G> {
    type Output = Result<G, LockAllError>;
    type IntoFuture = LockAllFuture<G>;

    fn into_future(self) -> LockAllFuture<G> {
        LockAllFuture::unmade(self.environment, self.ask)
    }
}

impl<G> fmt::Debug for LockAllRequest<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockAllRequest")
            .field("names", &self.ask.names)
            .field("options", &self.ask.how.options)
            .finish_non_exhaustive()
    }
}
