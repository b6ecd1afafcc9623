//! Locks that are held.

use std::{
    fmt,
    future::{Future, poll_fn},
    ops::Deref,
    pin::pin,
    task::{Context, Poll},
};

use navlock_engine::{FencingToken, Mode, RequestId, ResourceName};

use crate::{Error, Lost, agent::Seat, backend::Backend, sync::Arc};

/// A description of a granted lock: what a callback gets. Keeping it holds nothing.
///
/// Spec: `Lock`, <https://w3c.github.io/web-locks/#api-lock>
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    name: ResourceName,
    mode: Mode,
    fencing_token: FencingToken,
}

impl Lock {
    pub(crate) fn new(name: ResourceName, mode: Mode, fencing_token: FencingToken) -> Self {
        Self { name, mode, fencing_token }
    }

    /// The name that is locked.
    pub fn name(&self) -> &ResourceName {
        &self.name
    }

    /// In which mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A number larger than that of every earlier grant of this name in this bucket, by which a
    /// resource can refuse a writer that lost its lock without noticing.
    ///
    /// It grows as long as the user agent lives.
    pub fn fencing_token(&self) -> FencingToken {
        self.fencing_token
    }
}

/// A lock that is held until this is dropped.
///
/// Forgetting a guard (`mem::forget`) holds the lock for as long as the process lives, or until
/// its agent is [terminated](crate::LockManager::terminate) or the lock is stolen.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    lock: Lock,
    id: RequestId,
    seat: Arc<Seat>,
}

impl LockGuard {
    #[inline]
    pub(crate) fn new(lock: Lock, id: RequestId, seat: Arc<Seat>) -> Self {
        Self { lock, id, seat }
    }

    /// Completes when the lock is lost: stolen, or ended with its agent. It never completes while
    /// the lock is held, so race it against the work that needs the lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + '_ {
        poll_fn(|context| self.poll_lost(context))
    }

    /// Whether the lock is lost. What it protected may be in other hands, and dropping the guard
    /// releases nothing.
    pub fn is_lost(&self) -> bool {
        self.seat.backend().lost(self.seat.ticket(self.id)).is_some()
    }
}

impl Held for LockGuard {
    fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost> {
        let agent = &self.seat.agent;
        agent
            .backend()
            .poll_lost(self.seat.ticket(self.id), context.waker())
            .map(|lost| agent.explain_lost(lost))
    }
}

/// Something that is held as one: a guard, or several.
pub(crate) trait Held {
    /// Ready once any of it is lost.
    fn poll_lost(&self, context: &Context<'_>) -> Poll<Lost>;
}

/// Runs `work` to its end, or until what it needs is lost, then releases that.
pub(crate) async fn hold_while<T>(
    held: impl Held,
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    // Dropped before `held`: the parameters of an async function outlive its locals.
    let mut work = pin!(work);
    // The first poll is the callback's call. The grant was seen a moment ago, so work that never
    // waits need not ask whether it was lost; work that waits does, before it goes on.
    let mut watched = false;
    poll_fn(|context| {
        if watched {
            if let Poll::Ready(lost) = held.poll_lost(context) {
                return Poll::Ready(Err(lost.into()));
            }
        }
        if let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(result));
        }
        if watched {
            return Poll::Pending;
        }
        watched = true;
        held.poll_lost(context).map(|lost| Err(lost.into()))
    })
    .await
}

impl Deref for LockGuard {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.lock
    }
}

impl Drop for LockGuard {
    #[inline]
    fn drop(&mut self) {
        self.seat.finish(self.id);
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.lock).finish()
    }
}
