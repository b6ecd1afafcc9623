//! Requests that say, before they are made, inside which locks they are, or that they fail in a deadlock.

use std::{future::IntoFuture, time::Duration};

use navlock_engine::ResourceName;

use super::{
    Grant, LockFuture, LockRequest, Named,
    future::{Nesting, State},
};
use crate::{Error, Lock, LockGuard, blocking, holding::Holding, look::LockId, sync::Arc};

/// A [`LockRequest`] that says inside which locks it is made, or that it is to fail in a deadlock:
/// [`LockRequest::inside`], [`LockRequest::fail_on_deadlock`]. It is awaited and blocked on as that is.
///
/// FAST: most requests say nothing of the kind, and are smaller for that.
#[must_use = "a request is made when it is awaited or blocked on"]
#[derive(Debug)]
pub struct NestedRequest<'a, G = LockGuard, N = ResourceName> {
    request: LockRequest<'a, G, N>,
    nesting: Nesting,
}

impl<'a, G, N> NestedRequest<'a, G, N> {
    /// This request, of which nothing was said yet: for who has to say something of some only.
    pub fn of(request: LockRequest<'a, G, N>) -> Self {
        Self { request, nesting: Nesting::default() }
    }

    /// Says that it is made inside this lock as well: see [`LockRequest::inside`].
    pub fn inside(mut self, lock: impl Into<LockId>) -> Self {
        self.nesting.inside.push(lock.into());
        self
    }

    /// Has it fail in a deadlock: see [`LockRequest::fail_on_deadlock`].
    pub fn fail_on_deadlock(mut self) -> Self {
        self.nesting.fails_on_deadlock = true;
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
        if let State::Owned { nesting, .. } = &mut owned.state {
            *nesting = Some(Box::new(self.nesting));
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
        let (name, nesting) = (name.try_into().map_err(Into::into), Some(Box::new(self.nesting)));
        LockFuture::owned(Arc::clone(environment), name, options, nesting)
    }
}

impl<'a, G: Grant, N: Named> LockRequest<'a, G, N> {
    /// Says that it is made inside this lock, whose holder goes on, and lets go of it, only once this was
    /// granted. For several, to be called for each.
    ///
    /// Nothing is decided by it. It is what shows that those who wait for each other will wait for ever:
    /// `navlock query --tree` and whoever waits is told of that, and a request that asked for it
    /// [fails](Self::fail_on_deadlock).
    ///
    /// What a callback waits for (of [`request`](crate::LockManager::request), [`run`](Self::run) and
    /// the like) is inside its lock without being said so: exactly that which is polled by its future, so not
    /// what is done by a task that it has spawned, and not what blocks its thread.
    /// Nothing is inside anything that may give up by itself:
    /// [`blocking_timeout`](Self::blocking_timeout), and [`LockOptions::signal`](crate::LockOptions::signal).
    /// Of a request that is dropped when some time is over, as by `tokio::time::timeout`, that cannot be known:
    /// until then it is taken for one that waits.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let account = locks.lock("account").blocking()?;
    /// let log = locks.lock("log").inside(&account).blocking()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn inside(self, lock: impl Into<LockId>) -> NestedRequest<'a, G, N> {
        NestedRequest::of(self).inside(lock)
    }

    /// Fails with [`Error::Deadlock`] instead of waiting for ever: if it waits for somebody who waits for
    /// a lock that this was made [inside](Self::inside), and so on, and is the last one that was made of
    /// all of them. The others wait on, and one of them is granted in the end.
    ///
    /// In one process that is found at once, and costs a look at all who wait inside something, for each such
    /// request that waits inside something itself. There the last one is the one of which it was said last that
    /// it is inside a lock, which [`LockFuture::put_inside`] says later. Where another process keeps the locks,
    /// that finds it within a few seconds, and only what has lasted for one.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let account = locks.lock("account").blocking()?;
    /// let again = locks.lock("account").inside(&account).fail_on_deadlock().blocking();
    /// assert!(matches!(again, Err(Error::Deadlock(_))));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// [`UserAgent::fail_on_deadlock`](crate::UserAgent::fail_on_deadlock) says it of all requests.
    pub fn fail_on_deadlock(self) -> NestedRequest<'a, G, N> {
        NestedRequest::of(self).fail_on_deadlock()
    }
}
