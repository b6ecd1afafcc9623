//! 100,000 tasks wait for one name, then get it one after the other.
//!
//! All run on one thread: the queue is what counts, and a wake-up across threads would hide it. The tasks are
//! spawned beforehand, so "enqueue" is the first poll of each, and "drain" is grant, wake-up, second poll,
//! release and end of each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::{runtime::Builder, sync::Notify};

use super::cases::{NAME, nanoseconds_each};
use crate::{
    contender::{Contender, Fifo},
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    const GOALS: &[Goal] = &[Goal { at_most: 1.0, of: Measure::BestKept }];
    Row {
        id: "waiters",
        title: "100,000 waiters",
        figures: &[
            Figure { name: "enqueue, each", goals: GOALS },
            Figure { name: "drain, each", goals: GOALS },
        ],
        entries: exclusive![measure, Fifo],
    }
}

/// What the tasks share.
struct Queue<L> {
    locks: L,
    queued: Countdown,
    drained: Countdown,
}

/// Says when the last of many has come.
struct Countdown {
    left: AtomicUsize,
    over: Notify,
}

impl Countdown {
    fn from(count: usize) -> Self {
        Self { left: AtomicUsize::new(count), over: Notify::new() }
    }

    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.over.notify_one();
        }
    }
}

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let count = scale.count(100_000);
    let queue = Arc::new(Queue {
        locks: L::default(),
        queued: Countdown::from(count),
        drained: Countdown::from(count),
    });
    let runtime = Builder::new_current_thread().build().expect("a runtime needs no more threads");
    runtime.block_on(async {
        let holder = queue.locks.acquire(NAME).await;
        for _ in 0..count {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                queue.queued.count();
                drop(queue.locks.acquire(NAME).await);
                queue.drained.count();
            });
        }
        let start = Instant::now();
        queue.queued.over.notified().await;
        let enqueue = nanoseconds_each(start, count);

        let start = Instant::now();
        drop(holder);
        queue.drained.over.notified().await;
        vec![enqueue, nanoseconds_each(start, count)]
    })
}
