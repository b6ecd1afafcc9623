//! One thread takes and releases one name after the other, while it holds 100,000 others.

use super::cases::{names, shuffle, take_each};
use crate::{
    contender::{Contender, InsertRemove},
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "live-names",
        title: "100,000 other live names",
        figures: &[Figure { name: "", goals: &[Goal { at_most: 0.9, of: Measure::BestKept }] }],
        entries: exclusive![measure, InsertRemove],
    }
}

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let locks = L::default();
    let count = scale.count(100_000);
    let live = names("live", count);
    let mut taken = names("taken", count);
    shuffle(&mut taken);
    // As in a program, the names themselves are in the cache and only the locks are not.
    let taken: Vec<String> = taken.iter().map(|name| name.as_str().to_owned()).collect();
    vec![pollster::block_on(async {
        let mut held = Vec::with_capacity(count);
        for name in &live {
            held.push(locks.acquire(name).await);
        }
        // In the first pass, contenders that keep names get to know these.
        take_each(&locks, taken.iter().map(String::as_str)).await;
        take_each(&locks, taken.iter().map(String::as_str)).await
    })]
}
