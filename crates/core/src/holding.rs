//! Work that is done while locks are held.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::{inside::Polling, look::LockId};

/// What is held as one: a guard, or several. Its owner shows it to nobody else.
pub(crate) trait Held {
    /// What is told of a loss.
    type Loss;

    /// How many locks were lost where any of it is: as long as it is the same number, none of it
    /// is lost. `None` if that cannot be told.
    fn losses(&self) -> Option<u64>;

    /// How any of it was lost, if it is.
    fn lost(&self) -> Option<Self::Loss>;

    /// Ready once any of it is lost.
    fn poll_lost(&self, context: &Context<'_>) -> Poll<Self::Loss>;

    /// What each of it is known by.
    fn each_id(&self, put: &mut dyn FnMut(LockId));

    /// Releases it. How any of it was lost until now, if it was.
    fn release(self) -> Option<Self::Loss>;
}

/// Locks that are held while some work is done.
pub(crate) struct Holding<H> {
    held: H,
    /// How many losses there were when it was last known to be held.
    losses: Option<u64>,
}

impl<H: Held> Holding<H> {
    /// To be made before the work, which may already begin when it is made.
    #[inline]
    pub(crate) fn of(held: H) -> Self {
        Self { losses: held.losses(), held }
    }

    /// How any of it was lost, if it is.
    #[inline]
    fn lost(&mut self) -> Option<H::Loss> {
        let losses = self.held.losses();
        // FAST: mostly nothing was lost, which is one number to be read.
        if losses.is_some() && losses == self.losses {
            return None;
        }
        // Counted before it is looked at: what is lost meanwhile is looked at the next time.
        self.losses = losses;
        self.held.lost()
    }

    /// Runs `work` to its end, or until what it needs is lost, then releases that.
    #[inline]
    pub(crate) async fn during<T, E: From<H::Loss>>(
        self,
        work: impl Future<Output = T>,
    ) -> Result<T, E> {
        let mut holding = Some(self);
        // Dropped before what is held is released, whoever does it.
        let mut work = pin!(Some(work));
        // Who is woken by a loss.
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
                // Lost in the last moment: then the loss is what the request came to.
                let lost = holding.take().and_then(|holding| holding.held.release());
                return Poll::Ready(lost.map_or(Ok(result), |lost| Err(lost.into())));
            }
            // Only who waits needs to be woken; once, as long as it is the same.
            if told.as_ref().is_some_and(|told| told.will_wake(context.waker())) {
                return Poll::Pending;
            }
            told = Some(context.waker().clone());
            held.held.poll_lost(context).map(|lost| Err(lost.into()))
        })
        .await
    }
}
