//! Requests that say, before they are made, inside which locks they are made, that they fail in a
//! deadlock, or what their locks are for.

use std::{future::IntoFuture, time::Duration};

use navlock_engine::ResourceName;

use super::{Grant, LockFuture, LockRequest, Named, future::State, nesting::Nesting};
use crate::{Error, Lock, LockGuard, blocking, holding::Holding, look::LockId, sync::Arc};

/// A [`LockRequest`] that says inside which locks it is made ([`LockRequest::inside`]), that it
/// fails in a deadlock ([`LockRequest::fail_on_deadlock`]), or what its lock is for
/// ([`LockRequest::why`]). You can await it or block on it like any other request.
///
/// FAST: this is a type of its own because most requests say nothing of the kind, and are smaller
/// without the room for it.
///
/// ```
/// # use navlock::{Error, UserAgent};
/// # let locks = UserAgent::new().lock_manager("app");
/// let (account, log) = (locks.lock("account").blocking()?, locks.lock("log").blocking()?);
/// // The holder of both locks goes on only when it has a third one.
/// let audit = locks.lock("audit").inside(&account).inside(&log).fail_on_deadlock().blocking()?;
/// # Ok::<(), Error>(())
/// ```
#[must_use = "a request is made when it is awaited or blocked on"]
#[derive(Debug)]
pub struct NestedRequest<'a, G = LockGuard, N = ResourceName> {
    request: LockRequest<'a, G, N>,
    nesting: Nesting,
}

impl<'a, G, N> NestedRequest<'a, G, N> {
    /// This request, of which nothing is said yet. For callers that say something of some requests
    /// only.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// use navlock::NestedRequest;
    ///
    /// let outer = Some(locks.lock("account").blocking()?);
    /// let mut request = NestedRequest::of(locks.lock("log"));
    /// if let Some(outer) = &outer {
    ///     request = request.inside(outer);
    /// }
    /// let log = request.blocking()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of(request: LockRequest<'a, G, N>) -> Self {
        Self { request, nesting: Nesting::default() }
    }

    /// Says that the request is made inside this lock as well: see [`LockRequest::inside`].
    pub fn inside(mut self, lock: impl Into<LockId>) -> Self {
        self.nesting.inside.push(lock.into());
        self
    }

    /// Lets the request fail in a deadlock: see [`LockRequest::fail_on_deadlock`].
    pub fn fail_on_deadlock(mut self) -> Self {
        self.nesting.fails_on_deadlock = true;
        self
    }

    /// Says what the lock is for: see [`LockRequest::why`].
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.nesting.why = why.into();
        self
    }

    pub(crate) fn with_serial(mut self, serial: u64) -> Self {
        self.nesting.serial = Some(serial);
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

    /// As [`LockRequest::blocking_timeout`]. The request may give up by itself, so it is inside
    /// nothing.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::blocking_timeout`].
    pub fn blocking_timeout(self, timeout: Duration) -> Result<G, Error> {
        let request = self.request.may_give_up();
        Self { request, ..self }.into_future().block_for(timeout)
    }

    /// As [`LockRequest::into_owned`].
    pub fn into_owned(self) -> LockFuture<'static, G> {
        let mut owned = self.request.into_owned();
        if let State::Owned { nesting, .. } = &mut owned.state {
            *nesting = self.nesting.boxed();
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
        // FAST: few requests are nested, so these may cost a handle of their own.
        let LockRequest { environment, name, options, .. } = self.request;
        let (name, nesting) = (name.try_into().map_err(Into::into), self.nesting.boxed());
        LockFuture::owned(Arc::clone(environment), name, options, nesting)
    }
}

impl<'a, G: Grant, N: Named> LockRequest<'a, G, N> {
    /// Says that the request is made inside this lock: the holder of the lock goes on, and releases
    /// the lock, only when this request has been granted. To be called once for each such lock.
    ///
    /// This does not change who is granted a lock. It makes deadlocks known, in which requests wait
    /// for each other for ever: `navlock query --tree` shows them, their waiters are told, and a
    /// request that asked for this [fails](Self::fail_on_deadlock).
    ///
    /// A request for which a callback waits (of [`request`](crate::LockManager::request),
    /// [`run`](Self::run) and the like) is inside the callback's lock without this call. That holds
    /// for exactly the requests that the callback's future polls: not for the requests of a task
    /// that the callback has spawned, and not for requests that block its thread. A request that
    /// may give up by itself is inside nothing: a request by
    /// [`blocking_timeout`](Self::blocking_timeout), and a request with
    /// [`LockOptions::signal`](crate::LockOptions::signal). If a request is dropped after some
    /// time, as by `tokio::time::timeout`, nobody can know that before: until then the request
    /// counts as one that waits for ever.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let account = locks.lock("account").blocking()?;
    /// let log = locks.lock("log").inside(&account).blocking()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn inside(self, lock: impl Into<LockId>) -> NestedRequest<'a, G, N> {
        NestedRequest::of(self).inside(lock)
    }

    /// Says what the lock is for. Whoever looks at who has it or waits for it is shown this, in place
    /// of what the agent says of [all its locks](crate::LockManager::describe). Choose the options,
    /// such as [`shared`](Self::shared), before.
    ///
    /// Where another process keeps the locks, the request asks that process even for a name that
    /// this process could take again without asking.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent, blocking::block_on};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").shared().why("nightly backup").blocking()?;
    /// let seen = block_on(locks.inspect(None))?;
    /// assert_eq!(seen.held[0].agent.as_ref().map(|agent| &*agent.why), Some("nightly backup"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn why(self, why: impl Into<String>) -> NestedRequest<'a, G, N> {
        NestedRequest::of(self).why(why)
    }

    /// Lets the request fail with [`Error::Deadlock`] instead of waiting for ever. The request
    /// fails if it waits for somebody who waits, directly or through others, for a lock that the
    /// request was made [inside](Self::inside). If several requests of this cycle may fail, the one of them that
    /// was made last does. The other requests go on waiting, and one of them is granted in the end.
    ///
    /// In one process a deadlock is found at once. Each request that asks for this and waits inside
    /// a lock costs a look at all requests that wait inside locks, and so does each other one beside it.
    /// In one process, the last request of a cycle is the one that was said last to be inside a lock;
    /// [`LockFuture::put_inside`] may say this later. Where another process keeps the locks, that process finds a deadlock within
    /// a few seconds, and only if the deadlock has lasted for a second.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let account = locks.lock("account").blocking()?;
    /// let again = locks.lock("account").inside(&account).fail_on_deadlock().blocking();
    /// assert!(matches!(again, Err(Error::Deadlock(_))));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// [`UserAgent::fail_on_deadlock`](crate::UserAgent::fail_on_deadlock) asks for this for all
    /// requests.
    pub fn fail_on_deadlock(self) -> NestedRequest<'a, G, N> {
        NestedRequest::of(self).fail_on_deadlock()
    }
}
