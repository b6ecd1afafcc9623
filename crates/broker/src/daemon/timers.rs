//! Times at which the tasks of this thread go on.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    pin::{Pin, pin},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use futures_util::future::{Either, select};

use crate::clock;

/// Nobody waits for longer.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

thread_local! {
    /// Who is woken at which time.
    static ALARMS: RefCell<BTreeMap<(Instant, u64), Waker>> = const { RefCell::new(BTreeMap::new()) };
}

/// Wakes those whose time has come. Returns how long it is until the next time.
pub(super) fn wake_due() -> Option<Duration> {
    let next = || ALARMS.with_borrow(|alarms| alarms.keys().next().map(|(at, _)| *at));
    // FAST: mostly no time has come.
    let (mut first, now) = (next()?, clock::instant());
    while first <= now {
        let due = ALARMS.with_borrow_mut(BTreeMap::pop_first);
        if let Some((_, waker)) = due {
            waker.wake();
        }
        first = next()?;
    }
    Some(first - now)
}

/// Waits until a time has come.
#[derive(Debug)]
pub(super) struct Sleep {
    at: Instant,
    number: u64,
}

/// Waits for so long, or for a year.
pub(super) fn sleep(time: Duration) -> Sleep {
    sleep_until(clock::instant() + time.min(YEAR))
}

pub(super) fn sleep_until(at: Instant) -> Sleep {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    Sleep { at, number: NUMBERS.fetch_add(1, Relaxed) }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if clock::instant() >= self.at {
            return Poll::Ready(());
        }
        let alarm = ((self.at, self.number), context.waker().clone());
        // The waker before is dropped when the alarms are free again: to drop it may end a task, and other alarms.
        let _before = ALARMS.with_borrow_mut(|alarms| alarms.insert(alarm.0, alarm.1));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let alarm = (self.at, self.number);
        // There are no alarms any more while the thread ends.
        let _before = ALARMS.try_with(|alarms| alarms.borrow_mut().remove(&alarm));
    }
}

/// What the future returns; `None` if it takes longer than this.
pub(super) async fn timeout<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    match select(pin!(future), sleep(time)).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// Times that come again and again, each so long after the one before was noticed.
#[derive(Debug)]
pub(super) struct Interval {
    period: Duration,
    next: Sleep,
}

impl Interval {
    /// The first time comes at once.
    pub(super) fn new(period: Duration) -> Self {
        Self { period, next: sleep(Duration::ZERO) }
    }

    /// The first time comes after one period.
    pub(super) fn later(period: Duration) -> Self {
        Self { period, next: sleep(period) }
    }

    pub(super) fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(Pin::new(&mut self.next).poll(context));
        self.next = sleep(self.period);
        Poll::Ready(())
    }

    /// Waits for the next time.
    pub(super) async fn tick(&mut self) {
        std::future::poll_fn(|context| self.poll_tick(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;

    use super::*;
    use crate::clock::simulated;

    #[test]
    fn who_sleeps_is_woken_when_the_time_has_come_and_who_has_gone_is_not() {
        const SECOND: Duration = Duration::from_secs(1);
        let pass = || simulated::shift(1_000_000_000);
        simulated::set(1);
        assert_eq!(wake_due(), None);
        let (mut short, mut long) = (pin!(timeout(SECOND, pending::<()>())), sleep(2 * SECOND));
        assert_eq!((short.as_mut().now_or_never(), (&mut long).now_or_never()), (None, None));
        assert!(wake_due().is_some_and(|time| time <= SECOND));
        pass();
        assert!(wake_due().is_some_and(|time| time <= SECOND));
        assert_eq!(short.as_mut().now_or_never(), Some(None));
        drop(long);
        let mut ticks = Interval::new(SECOND);
        assert_eq!([(); 2].map(|()| ticks.tick().now_or_never()), [Some(()), None]);
        (0..3).for_each(|_| pass());
        assert_eq!([(); 2].map(|()| ticks.tick().now_or_never()), [Some(()), None]);
        drop(ticks);
        assert_eq!(wake_due(), None);
        simulated::set(0);
    }
}
