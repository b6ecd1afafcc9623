//! One thread takes and releases a thousand names in turn.

use super::cases::{names, take_each};
use crate::{
    contender::{Contender, InsertRemove},
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "rotation",
        title: "one thread, 1,000 names in rotation",
        figures: &[Figure { name: "", goals: &[Goal { at_most: 1.0, of: Measure::BestKept }] }],
        entries: exclusive![measure, InsertRemove],
    }
}

const NAMES: usize = 1_000;

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let locks = L::default();
    let names = names("documents", NAMES);
    let count = scale.count(200_000);
    let in_turn = |count| (0..count).map(|nth: usize| names[nth % NAMES].as_str());
    vec![pollster::block_on(async {
        take_each(&locks, in_turn(count / 10)).await;
        take_each(&locks, in_turn(count)).await
    })]
}
