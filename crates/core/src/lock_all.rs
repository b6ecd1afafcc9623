//! Requests for several locks.

use std::{
    fmt,
    future::{Future, IntoFuture, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use navlock_engine::{Mode, ResourceName};

use crate::{
    Error, Lock, LockGuard, LockManager, LockOptions, LockRequest, Lost, blocking,
    guard::{Held, hold_while},
};

/// A request for the locks of several names, not made yet. Await it for their guards, in the order
/// in which they were taken: that of the names, each once.
///
/// # Errors
///
/// As [`LockRequest`], for the first name that has one, and [`Error::Lost`] if one of the locks was
/// lost while another was waited for. No lock is held then.
#[must_use = "a request is made when it is awaited or run"]
pub struct LockAllRequest<'a> {
    locks: &'a LockManager,
    /// Each in its own mode, or else in that of the options.
    names: Result<Vec<(ResourceName, Option<Mode>)>, Error>,
    options: LockOptions,
}

impl<'a> LockAllRequest<'a> {
    pub(crate) fn new(
        locks: &'a LockManager,
        names: Result<Vec<(ResourceName, Option<Mode>)>, Error>,
    ) -> Self {
        let names = names.map(|mut names| {
            // Of one name the exclusive first: it is what remains, and does for both.
            names.sort_by(|(a, mode), (b, other)| {
                let is_shared = |mode: &Option<Mode>| *mode == Some(Mode::Shared);
                a.cmp(b).then(is_shared(mode).cmp(&is_shared(other)))
            });
            names.dedup_by(|(a, _), (b, _)| a == b);
            names
        });
        Self { locks, names, options: LockOptions::default() }
    }

    /// Asks for shared locks of all names that were given without a mode.
    pub fn shared(mut self) -> Self {
        self.options.mode = Mode::Shared;
        self
    }

    /// Requests the locks and holds them while the future that `callback` returns runs.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`](crate::LockRequest::run), for the first name that has one. If one
    /// of the locks is lost, all are released.
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::run`](crate::LockRequest::run).
    pub async fn run<F, T>(self, callback: F) -> Result<T, Error>
    where
        F: AsyncFnOnce(Vec<Lock>) -> T,
    {
        let guards = self.acquire().await?;
        let locks = guards.iter().map(|guard| Lock::clone(guard)).collect();
        hold_while(guards, callback(locks)).await
    }

    /// Blocks the thread until all locks are held: the same as awaiting it, for code without an
    /// executor.
    ///
    /// # Errors
    ///
    /// As awaiting it.
    pub fn blocking(self) -> Result<Vec<LockGuard>, Error> {
        blocking::block_on(self.acquire())
    }

    /// The same, for no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// As awaiting it, and [`Error::TimedOut`], upon which what was held is released.
    pub fn blocking_timeout(self, timeout: Duration) -> Result<Vec<LockGuard>, Error> {
        blocking::block_on_timeout(self.acquire(), timeout).unwrap_or(Err(Error::TimedOut))
    }

    async fn acquire(self) -> Result<Vec<LockGuard>, Error> {
        let environment = self.locks.environment();
        // The checks that come before the names'.
        environment.obtain_lock_manager()?;
        let names = self.names?;
        let mut guards: Vec<LockGuard> = Vec::with_capacity(names.len());
        for (name, mode) in names {
            let options = LockOptions { mode: mode.unwrap_or(self.options.mode), ..self.options };
            let mut request =
                pin!(LockRequest::<LockGuard>::new(environment, Ok(name), options).into_future());
            let next = poll_fn(|context| {
                match request.as_mut().poll(context) {
                    // Who has lost what it had waits for no more: it would be let go of again.
                    Poll::Pending => guards.poll_lost(context).map(|lost| Err(Error::Lost(lost))),
                    answered @ Poll::Ready(_) => answered,
                }
            });
            guards.push(next.await?);
        }
        // The first may have been lost while the last was waited for.
        match guards.lost() {
            Some(lost) => Err(lost.into()),
            None => Ok(guards),
        }
    }
}

impl Held for Vec<LockGuard> {
    fn lost(&self) -> Option<Lost> {
        self.iter().find_map(LockGuard::how_lost)
    }

    fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        // Each is asked, so that each knows whom to wake.
        self.iter().fold(Poll::Pending, |any, guard| match guard.poll_lost(context) {
            Poll::Ready(lost) => Poll::Ready(lost),
            Poll::Pending => any,
        })
    }
}

impl<'a> IntoFuture for LockAllRequest<'a> {
    type Output = Result<Vec<LockGuard>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

impl fmt::Debug for LockAllRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockAllRequest")
            .field("names", &self.names)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
