//! One thread takes and releases one name.

use super::cases::{NAME, take_repeatedly};
use crate::{
    contender::{Contender, InsertRemove, Slot},
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "one-name",
        title: "one thread, one name, exclusive",
        figures: &[Figure {
            name: "",
            goals: &[
                Goal { at_most: 0.65, of: Measure::BestEvicting },
                Goal { at_most: 1.0, of: Measure::Floor(InsertRemove::NAME) },
            ],
        }],
        entries: exclusive![measure, Slot, InsertRemove],
    }
}

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let locks = L::default();
    let count = scale.count(200_000);
    vec![pollster::block_on(async {
        take_repeatedly(&locks, NAME, count / 10).await;
        take_repeatedly(&locks, NAME, count).await
    })]
}
