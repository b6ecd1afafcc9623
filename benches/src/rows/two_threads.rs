//! Two threads, each with a name of its own.

use std::{sync::Barrier, thread};

use super::cases::take_repeatedly;
use crate::{
    contender::{Contender, Slot},
    harness::{Figure, Goal, Measure, Row, Scale},
};

pub(crate) fn row() -> Row {
    Row {
        id: "two-threads",
        title: "2 threads, 2 names",
        figures: &[
            Figure {
                name: "each",
                goals: &[Goal { at_most: 1.15, of: Measure::OwnFigure(1, "own single thread") }],
            },
            Figure { name: "one alone", goals: &[] },
        ],
        entries: exclusive![measure, TwoSlots],
    }
}

const NAMES: [&str; 2] = ["documents/1/body", "documents/2/body"];

fn measure<L: Contender>(scale: Scale) -> Vec<f64> {
    let locks = L::default();
    let count = scale.count(200_000);
    let take = &|name| pollster::block_on(take_repeatedly(&locks, name, count));

    pollster::block_on(take_repeatedly(&locks, NAMES[0], count / 10));
    let alone = take(NAMES[0]);
    let start = &Barrier::new(NAMES.len());
    let both = thread::scope(|scope| {
        let threads = NAMES.map(|name| {
            scope.spawn(move || {
                start.wait();
                take(name)
            })
        });
        threads.map(|thread| thread.join().expect("measuring does not panic"))
    });
    vec![both.iter().sum::<f64>() / 2.0, alone]
}

/// The floor of this case: each name has a slot of its own, on a cache line of its own.
#[derive(Default)]
struct TwoSlots([Aligned; 2]);

#[derive(Default)]
#[repr(align(128))]
struct Aligned(Slot);

impl Contender for TwoSlots {
    const NAME: &'static str = Slot::NAME;
    const CLASS: crate::contender::Class = Slot::CLASS;

    type Guard<'a> = <Slot as Contender>::Guard<'a>;

    #[inline]
    fn acquire<'a>(&'a self, name: &'a str) -> impl Future<Output = Self::Guard<'a>> + Send {
        self.0[usize::from(name == NAMES[1])].0.acquire(name)
    }
}
