//! Lock managers: the handles by which agents ask for locks.

mod query;

use std::fmt;

use navlock_engine::{Mode, ResourceName};

use crate::{
    AgentInfo, ClientId, Error, Lock, LockAllError, LockAllRequest, LockAnyRequest, LockGuard,
    LockOptions, LockRequest,
    agent::Agent,
    agent_state::{AgentState, Ended},
    backend::Term,
    environment::Environment,
    sync::{Arc, Ordering},
};

/// An agent's way to its bucket's locks: `navigator.locks`.
///
/// Cheap to clone; the clones are the same agent. The agent lives as long as it has a handle, a
/// guard or a pending request, so a guard from a temporary handle stays good.
/// [`terminate`](Self::terminate) ends the agent earlier, with all its locks and requests. For
/// another agent in the same bucket, ask the bucket: `locks.bucket().lock_manager()`.
///
/// Spec: `LockManager`, <https://w3c.github.io/web-locks/#api-lock-manager>
#[derive(Clone)]
pub struct LockManager(Arc<Environment>);

impl LockManager {
    pub(crate) fn new(state: Arc<AgentState>, agent: Option<Arc<Agent>>) -> Self {
        Self(Environment::new(state, agent))
    }

    /// Requests an exclusive lock and holds it while the future that `callback` returns runs.
    ///
    /// Nothing happens before the returned future is first polled; then the request is made. The
    /// callback runs once the lock is granted, in the task that polls. The lock is released when
    /// the callback's future ends, and before the returned future completes. For other options see
    /// [`lock`](Self::lock) and [`LockRequest::run`].
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>
    ///
    /// # Errors
    ///
    /// In this order: [`Error::NotFullyActive`], [`Error::Terminated`] or [`Error::Closed`];
    /// [`Error::Unobtainable`]; [`Error::ReservedName`]. While waiting: [`Error::Terminated`] or
    /// [`Error::Closed`], [`Error::Refused`] if the reach has limits, [`Error::Unreachable`] if it
    /// fails. Once the callback runs: [`Error::Lost`], upon which the callback's future is dropped
    /// where it awaits. An error that the callback returns is not one of these: it is part of the
    /// result, as any value of the callback is.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is the abort signal. A request that waits leaves its queue. A request
    /// whose grant was on its way gives the lock back. If the callback runs, its future is dropped,
    /// and then the lock is released.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let sum = locks.request("db", async |lock| {
    ///     assert_eq!(lock.name().as_str(), Some("db"));
    ///     1 + 1
    /// });
    /// assert_eq!(sum.await, Ok(2));
    /// # });
    /// ```
    pub async fn request<N, F, T>(&self, name: N, callback: F) -> Result<T, Error>
    where
        N: TryInto<ResourceName, Error: Into<Error>>,
        F: AsyncFnOnce(Lock) -> T,
    {
        self.lock(name).run(callback).await
    }

    /// Starts a request for the lock of this name. The request is exclusive and waits, unless its
    /// options say otherwise. Await it for a guard, or call [`blocking`](LockRequest::blocking) where
    /// there is no executor.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let reader = locks.lock("db").shared().await?;
    /// let writer = locks.lock("db").if_available().await?;
    /// assert!(writer.is_none());
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn lock<N>(&self, name: N) -> LockRequest<'_, LockGuard, N>
    where
        N: TryInto<ResourceName, Error: Into<Error>>,
    {
        LockRequest::new(&self.0, name, LockOptions::default())
    }

    /// Starts a request with options that came from elsewhere, in any combination. An illegal
    /// combination fails when the request is awaited, after the checks that come before this one.
    /// The request gives `None` only with `if_available`.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use navlock::LockOptions;
    ///
    /// let options = LockOptions { if_available: true, ..LockOptions::default() };
    /// let guard = locks.lock_with("db", options).blocking()?;
    /// assert!(guard.is_some());
    /// let wrong = LockOptions { steal: true, ..options };
    /// assert_eq!(locks.lock_with("db", wrong).blocking().unwrap_err(), Error::StealIfAvailable);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn lock_with<N>(
        &self,
        name: N,
        options: LockOptions,
    ) -> LockRequest<'_, Option<LockGuard>, N>
    where
        N: TryInto<ResourceName, Error: Into<Error>>,
    {
        LockRequest::new(&self.0, name, options)
    }

    /// Starts a request for the locks of several names, taken one after the other in the one
    /// order that all programs use, so that requests for several names never deadlock with each
    /// other. A name that is given twice is taken once.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#deadlocks>
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let guards = locks.lock_all(["to", "from", "to"]).await?;
    /// assert_eq!(guards[0].name(), "from");
    /// assert_eq!(guards[1].name(), "to");
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn lock_all<I, N>(&self, names: I) -> LockAllRequest
    where
        I: IntoIterator<Item = N>,
        N: TryInto<ResourceName, Error: Into<Error>>,
    {
        LockAllRequest::new(&self.0, names.into_iter().map(|name| (name, None)), false)
    }

    /// Starts a request for the locks of several names, as `lock_all` does, with a mode for each
    /// name. A name that is given in both modes is locked exclusively.
    ///
    /// ```
    /// # use navlock::{Error, Mode, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let names = [("account", Mode::Exclusive), ("rates", Mode::Shared)];
    /// let guards = locks.lock_all_with(names).await?;
    /// assert!(locks.lock("rates").if_available().shared().await?.is_some());
    /// assert!(locks.lock("account").if_available().shared().await?.is_none());
    /// # drop(guards);
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn lock_all_with<I, N>(&self, names: I) -> LockAllRequest
    where
        I: IntoIterator<Item = (N, Mode)>,
        N: TryInto<ResourceName, Error: Into<Error>>,
    {
        LockAllRequest::new(
            &self.0,
            names.into_iter().map(|(name, mode)| (name, Some(mode))),
            false,
        )
    }

    /// Starts a request for whichever of these names is free first: one of several test databases, say. If
    /// several are free, the first of them is taken. Otherwise the request stands in the queue of each name, so
    /// who has asked first is served first. Once one lock is granted, the others are not waited for any more.
    ///
    /// Where locks are shared with other processes, the request is made for all names before the first answer
    /// comes. So those that are free are held for a moment, until the first one is granted and the others are given
    /// back. On etcd that need not be the first of them.
    ///
    /// The guard tells the [name](Lock::name). Nobody is in a deadlock because of such a request. The request is
    /// refused if there are no names. With [`steal`](LockOptions::steal), the first name is stolen.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let first = locks.lock_any(["db-1", "db-2"]).blocking()?;
    /// let second = locks.lock_any(["db-1", "db-2"]).blocking()?;
    /// assert_eq!(first.name(), "db-1");
    /// assert_eq!(second.name(), "db-2");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn lock_any<I, N>(&self, names: I) -> LockAnyRequest
    where
        I: IntoIterator<Item = N>,
        N: TryInto<ResourceName, Error: Into<Error>>,
    {
        LockAnyRequest::new(&self.0, names.into_iter().map(|name| (name, None)), true)
    }

    /// Starts a request for whichever of these names is free first, as `lock_any` does, with a mode for each name.
    ///
    /// ```
    /// # use navlock::{Error, Mode, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let _reader = locks.lock("main").shared().blocking()?;
    /// let names = [("copy", Mode::Exclusive), ("main", Mode::Shared)];
    /// let _copy = locks.lock_any_with(names).blocking()?;
    /// assert_eq!(locks.lock_any_with(names).blocking()?.name(), "main");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn lock_any_with<I, N>(&self, names: I) -> LockAnyRequest
    where
        I: IntoIterator<Item = (N, Mode)>,
        N: TryInto<ResourceName, Error: Into<Error>>,
    {
        LockAnyRequest::new(&self.0, names.into_iter().map(|(name, mode)| (name, Some(mode))), true)
    }

    /// Requests exclusive locks of several names and holds them while the future that `callback`
    /// returns runs: [`lock_all`](Self::lock_all), then [`run`](LockAllRequest::run).
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # block_on(async {
    /// let moved = locks.request_all(["from", "to"], async |_locks| 100).await?;
    /// assert_eq!(moved, 100);
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request), for the first name at which the request fails;
    /// [`LockAllError`] says which name it is.
    ///
    /// # Cancel safety
    ///
    /// As [`request`](Self::request): the locks that are held are released, and the request that
    /// waits leaves its queue.
    pub async fn request_all<I, N, F, T>(&self, names: I, callback: F) -> Result<T, LockAllError>
    where
        I: IntoIterator<Item = N>,
        N: TryInto<ResourceName, Error: Into<Error>>,
        F: AsyncFnOnce(Vec<Lock>) -> T,
    {
        self.lock_all(names).run(callback).await
    }

    /// Says who this agent is, for those who [`inspect`](Self::inspect) and those who
    /// [look](crate::UserAgent::look). This adds to what is known of the agent: what `info` leaves
    /// empty stays as it is. A broker knows the process of each agent already. Where this process
    /// keeps the locks, an agent that has not said anything is shown without a description, because
    /// to collect a description by default would cost more than it is worth.
    ///
    /// ```
    /// # use navlock::UserAgent;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use navlock::AgentInfo;
    ///
    /// locks.describe(&AgentInfo::default().pid(std::process::id()).why("nightly backup"));
    /// ```
    pub fn describe(&self, info: &AgentInfo) {
        if let Some(agent) = self.agent() {
            agent.describe(info);
        }
    }

    /// Ends the agent at once: its requests are aborted, then its locks are released, then those
    /// who waited for these locks are woken.
    ///
    /// Its pending requests fail with [`Error::Terminated`], as does everything that the agent asks
    /// for later. The locks of its guards are lost: from now on others may change what these locks
    /// protect, so end the work under them first. Terminating twice changes nothing.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// locks.terminate();
    /// assert!(guard.is_lost());
    /// assert_eq!(locks.lock("db").blocking().unwrap_err(), Error::Terminated);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn terminate(&self) {
        if let Some(agent) = self.agent() {
            Agent::end_all(&[agent], Ended::Terminated);
        }
    }

    /// Says whether the agent is fully active: for an embedder that can keep documents without
    /// showing them. While the agent is not fully active, requests and queries fail with
    /// [`Error::NotFullyActive`]. The locks and requests that the agent has already are not
    /// touched. To unload a document corresponds to [`terminate`](Self::terminate).
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// locks.set_fully_active(false);
    /// assert_eq!(locks.lock("db").blocking().unwrap_err(), Error::NotFullyActive);
    /// locks.set_fully_active(true);
    /// assert!(locks.lock("db").blocking().is_ok());
    /// ```
    pub fn set_fully_active(&self, fully_active: bool) {
        self.0.fully_active.store(fully_active, Ordering::Release);
    }

    /// For how long this agent still has its locks and requests, and when the reach was last heard
    /// of; see [`Backend::term`](crate::host::Backend::term). `None` where locks do not end by themselves.
    ///
    /// ```
    /// # use navlock::UserAgent;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// if let Some((silent, left)) = locks.term().and_then(|term| term.suspended()) {
    ///     eprintln!("no word for {silent:?}; what is held is lost in {left:?}");
    /// }
    /// ```
    pub fn term(&self) -> Option<Term> {
        let agent = self.agent()?;
        agent.backend().term(agent.id)
    }

    /// The client id by which `query()` shows this agent.
    ///
    /// ```
    /// # use navlock::UserAgent;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// assert_eq!(locks.clone().client_id(), locks.client_id());
    /// assert_ne!(locks.bucket().lock_manager().client_id(), locks.client_id());
    /// ```
    pub fn client_id(&self) -> ClientId {
        self.0.state.client_id()
    }

    pub(crate) fn environment(&self) -> &Arc<Environment> {
        &self.0
    }

    /// The agent. `None` if its bucket has no lock manager: then there is nothing to end.
    pub(crate) fn agent(&self) -> Option<&Arc<Agent>> {
        self.0.refs.as_ref().map(|refs| &refs.agent)
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("client_id", &self.0.state.client_id())
            .field("bucket", &self.bucket())
            .finish_non_exhaustive()
    }
}
