//! Eight tasks on two workers take and release one name.
//!
//! The lock is held until all of them wait. From then on, a task that releases it queues behind seven others,
//! so every turn is a handover. Otherwise it would be chance whether the tasks ever met.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::runtime::Builder;

use super::cases::{NAME, nanoseconds_each};
use crate::{
    contender::{Contender, Fifo},
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "tasks",
        title: "8 tasks, 2 workers, one name",
        figures: &[Figure { name: "", goals: &[Goal { at_most: 0.8, of: Measure::BestKept }] }],
        entries: exclusive![measure, Fifo],
    }
}

const TASKS: usize = 8;

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let locks = Arc::new(L::default());
    let count = scale.count(25_000);
    let runtime =
        Builder::new_multi_thread().worker_threads(2).build().expect("two more threads can be had");
    vec![runtime.block_on(async {
        let holder = locks.acquire(NAME).await;
        let come = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (locks, come) = (Arc::clone(&locks), Arc::clone(&come));
                tokio::spawn(async move {
                    come.fetch_add(1, Ordering::Relaxed);
                    for _ in 0..count {
                        drop(black_box(locks.acquire(black_box(NAME)).await));
                    }
                })
            })
            .collect();
        while come.load(Ordering::Relaxed) < TASKS {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        drop(holder);
        for task in tasks {
            task.await.expect("measuring does not panic");
        }
        nanoseconds_each(start, TASKS * count)
    })]
}
