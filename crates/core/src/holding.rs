//! Work that is done while locks are held.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::{inside::Polling, look::LockId};

/// Locks that are held as one: a guard, or several. Their owner shows them to nobody else.
pub(crate) trait Held {
    /// What says that a lock was lost, and how.
    type Loss;

    /// How many locks were lost in the lanes of these locks: as long as the number stays the same,
    /// none of these is lost. `None` if that cannot be told.
    fn losses(&self) -> Option<u64>;

    /// How one of the locks was lost, if one is.
    fn lost(&self) -> Option<Self::Loss>;

    /// Ready once one of the locks is lost.
    fn poll_lost(&self, context: &Context<'_>) -> Poll<Self::Loss>;

    /// Calls `put` with the id of each lock.
    fn each_id(&self, put: &mut dyn FnMut(LockId));

    /// Releases the locks. Returns how one of them was lost before, if one was.
    fn release(self) -> Option<Self::Loss>;
}

/// Locks that are held while some work is done.
pub(crate) struct Holding<H> {
    held: H,
    /// How many losses there were when the locks were last known to be held.
    losses: Option<u64>,
}

impl<H: Held> Holding<H> {
    /// To be called before the work's future is made, because to make the future may begin the
    /// work.
    #[inline]
    pub(crate) fn of(held: H) -> Self {
        Self { losses: held.losses(), held }
    }

    /// How one of the locks was lost, if one is.
    #[inline]
    fn lost(&mut self) -> Option<H::Loss> {
        let losses = self.held.losses();
        // FAST: mostly nothing was lost, and one number tells that.
        if losses.is_some() && losses == self.losses {
            return None;
        }
        // The losses were counted before the locks are asked, so a loss in between is seen the next
        // time.
        self.losses = losses;
        self.held.lost()
    }

    /// Runs `work` to its end, or until one of the locks is lost, then releases the locks.
    #[inline]
    pub(crate) async fn during<T, E: From<H::Loss>>(
        self,
        work: impl Future<Output = T>,
    ) -> Result<T, E> {
        let mut holding = Some(self);
        // The work is dropped before the locks are released, in whichever way this function ends.
        let mut work = pin!(Some(work));
        // The waker that a loss calls.
        let mut told: Option<Waker> = None;
        poll_fn(|context| {
            let (Some(held), Some(its)) = (&mut holding, work.as_mut().as_pin_mut()) else {
                unreachable!("an async function is not polled after its end")
            };
            // Work whose lock is gone goes no further, and does not even begin.
            if let Some(lost) = held.lost() {
                return Poll::Ready(Err(lost.into()));
            }
            let polling = Polling::begin();
            let polled = its.poll(context);
            if polled.is_pending() {
                polling.waits(|put| held.held.each_id(put));
            }
            if let Poll::Ready(result) = polled {
                work.set(None);
                // If a lock was lost in the last moment, the loss is the outcome.
                let lost = holding.take().and_then(|holding| holding.held.release());
                return Poll::Ready(lost.map_or(Ok(result), |lost| Err(lost.into())));
            }
            // Only work that waits has to be woken by a loss. A waker is noted only if it differs
            // from the last one.
            if told.as_ref().is_some_and(|told| told.will_wake(context.waker())) {
                return Poll::Pending;
            }
            told = Some(context.waker().clone());
            held.held.poll_lost(context).map(|lost| Err(lost.into()))
        })
        .await
    }
}
