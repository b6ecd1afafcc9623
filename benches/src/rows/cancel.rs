//! Of 100,000 tasks that wait for one name, one in the middle of the queue gives up, and then another, in
//! random order. So no cache has anything of the one that gives up.

use std::{
    future::Future,
    task::{Context, Waker},
    time::Instant,
};

use super::cases::{NAME, nanoseconds_each, shuffle};
use crate::{
    contender::{Contender, Fifo},
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "cancel",
        title: "100,000 waiters, cancel a middle one",
        figures: &[Figure { name: "", goals: &[Goal { at_most: 1.0, of: Measure::BestPeer }] }],
        entries: exclusive![measure, Fifo],
    }
}

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let locks = L::default();
    let count = scale.count(100_000);
    let holder = pollster::block_on(locks.acquire(NAME));
    let mut context = Context::from_waker(Waker::noop());
    let mut waiters: Vec<_> = (0..count)
        .map(|_| {
            let mut waiter = Box::pin(locks.acquire(NAME));
            assert!(waiter.as_mut().poll(&mut context).is_pending());
            Some(waiter)
        })
        .collect();

    // A fifth of the middle half: most of their neighbours wait on.
    let mut chosen: Vec<usize> = (count / 4..count - count / 4).collect();
    shuffle(&mut chosen);
    chosen.truncate(chosen.len() / 5);

    let start = Instant::now();
    for &waiter in &chosen {
        waiters[waiter] = None;
    }
    let each = nanoseconds_each(start, chosen.len());
    // The holder is dropped last, so that nothing is granted while the waiters are dropped.
    drop(waiters);
    drop(holder);
    vec![each]
}
