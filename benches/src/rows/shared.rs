//! One thread takes and releases one name in shared mode, which seven others hold all the time.

use super::cases::{NAME, take_repeatedly};
use crate::{
    contender::{
        AsyncLockShared, Contender, EvictingDashMapShared, KeyMutexShared, KeyRwLockShared,
        NavlockShared, Slot, TokioShared,
    },
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "shared",
        title: "shared, 7 others hold",
        figures: &[Figure { name: "", goals: &[Goal { at_most: 1.0, of: Measure::BestKept }] }],
        entries: contenders![
            measure,
            NavlockShared,
            Slot,
            TokioShared,
            AsyncLockShared,
            EvictingDashMapShared,
            KeyRwLockShared,
            KeyMutexShared
        ],
    }
}

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let locks = L::default();
    let count = scale.count(200_000);
    vec![pollster::block_on(async {
        let mut others = Vec::new();
        for _ in 0..7 {
            others.push(locks.acquire(NAME).await);
        }
        take_repeatedly(&locks, NAME, count / 10).await;
        take_repeatedly(&locks, NAME, count).await
    })]
}
