//! A handle of a new agent in a bucket that is in use: made and dropped, without a lock and with one in
//! between.

use std::{hint::black_box, time::Instant};

use navlock_core::UserAgent;

use super::cases::{NAME, nanoseconds_each};
use crate::{
    contender::Navlock,
    harness::{Entry, Figure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "handles",
        title: "`lock_manager()`",
        figures: &[
            Figure { name: "made and dropped", goals: &[] },
            Figure { name: "the same with one lock between", goals: &[] },
        ],
        entries: vec![Entry::of::<Navlock>(measure)],
    }
}

fn measure(scale: Scale) -> Vec<f64> {
    let bucket = UserAgent::new().bucket("bench");
    let _in_use = bucket.lock_manager();
    let count = scale.count(50_000);
    let start = Instant::now();
    for _ in 0..count {
        drop(black_box(bucket.lock_manager()));
    }
    let bare = nanoseconds_each(start, count);
    let start = Instant::now();
    for _ in 0..count {
        let locks = bucket.lock_manager();
        drop(black_box(locks.lock(black_box(NAME)).blocking().expect("the name is free")));
    }
    vec![bare, nanoseconds_each(start, count)]
}
