//! `request()` with a callback: what it costs beside a guard, and what each further poll costs when
//! the callback waits for something.

use std::{
    future::{Future, poll_fn},
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use navlock_core::LockManager;

use super::cases::{NAME, nanoseconds_each, take_repeatedly};
use crate::{
    contender::Navlock,
    harness::{Entry, Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "callbacks",
        title: "`request()` with a callback",
        figures: &[
            Figure {
                name: "one that is done at once",
                goals: &[Goal { at_most: 1.15, of: Measure::OwnFigure(1, "a guard") }],
            },
            Figure { name: "a guard instead", goals: &[] },
            Figure {
                name: "each further poll of one that waits",
                goals: &[Goal { at_most: 5.0, of: Measure::Nanosecond }],
            },
            Figure { name: "one that waits once", goals: &[] },
        ],
        entries: vec![Entry::of::<Navlock>(measure)],
    }
}

fn measure(scale: Scale) -> Vec<f64> {
    let locks = Navlock::default();
    let count = scale.count(200_000);
    pollster::block_on(async {
        request_repeatedly(&locks.0, count / 10).await;
        let request = request_repeatedly(&locks.0, count).await;
        take_repeatedly(&locks, NAME, count / 10).await;
        let guard = take_repeatedly(&locks, NAME, count).await;
        let (poll, once) = (poll_repeatedly(&locks.0, count), wait_repeatedly(&locks.0, count));
        vec![request, guard, poll, once]
    })
}

async fn request_repeatedly(locks: &LockManager, count: usize) -> f64 {
    let start = Instant::now();
    for nth in 0..count {
        let done = locks.request(black_box(NAME), async |_lock| nth).await;
        black_box(done.expect("the name is legal and the agent alive"));
    }
    nanoseconds_each(start, count)
}

/// Nanoseconds of each poll but the first of one callback that waits.
fn poll_repeatedly(locks: &LockManager, count: usize) -> f64 {
    let mut context = Context::from_waker(Waker::noop());
    let mut request =
        pin!(locks.request(NAME, async |_lock| poll_fn(|_| black_box(Poll::<()>::Pending)).await));
    assert!(request.as_mut().poll(&mut context).is_pending());
    let start = Instant::now();
    for _ in 0..count {
        assert!(request.as_mut().poll(&mut context).is_pending());
    }
    nanoseconds_each(start, count)
}

/// Nanoseconds of each callback that waits once.
fn wait_repeatedly(locks: &LockManager, count: usize) -> f64 {
    let mut context = Context::from_waker(Waker::noop());
    let start = Instant::now();
    for _ in 0..count {
        let mut waited = false;
        let mut request = pin!(locks.request(NAME, async |_lock| {
            poll_fn(|_| {
                if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }));
        assert!(request.as_mut().poll(&mut context).is_pending());
        assert!(request.as_mut().poll(&mut context).is_ready());
    }
    nanoseconds_each(start, count)
}
