//! Rounds, figures and goals.
//!
//! Why not Criterion: it measures one function to the end and then the next. If the machine gets busier
//! meanwhile, that favours the contender that came first. Here every contender is measured once in every
//! round, in an order that is rotated from round to round, and the medians of the rounds are compared.

use crate::contender::{Class, Contender};

/// One case, and the contenders that take part in it.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) figures: &'static [Figure],
    pub(crate) entries: Vec<Entry>,
}

/// One of the numbers that a measurement of a row gives, in nanoseconds.
pub(crate) struct Figure {
    /// Empty if the row has just one.
    pub(crate) name: &'static str,
    pub(crate) goals: &'static [Goal],
}

/// A limit for navlock's median of a figure.
pub(crate) struct Goal {
    pub(crate) at_most: f64,
    pub(crate) of: Measure,
}

/// What a goal is a multiple of.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    Nanosecond,
    /// The floor of this name.
    Floor(&'static str),
    BestKept,
    BestEvicting,
    BestPeer,
    /// Navlock's own figure with this index and name.
    OwnFigure(usize, &'static str),
}

/// A contender in a row.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    measure: fn(Scale) -> Vec<f64>,
}

/// How much is done per measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Full,
    Quick,
}

/// The samples of a row.
pub(crate) struct Results {
    pub(crate) row: Row,
    /// The samples by entry, then round, then figure.
    samples: Vec<Vec<Vec<f64>>>,
}

/// The samples of a figure, in short.
#[derive(Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Entry {
    /// The contender `L`, measured by this function, which gives one number per figure.
    pub(crate) fn of<L: Contender>(measure: fn(Scale) -> Vec<f64>) -> Self {
        Self { name: L::NAME, class: L::CLASS, measure }
    }
}

impl Scale {
    /// This many in a full run, a few in a quick one.
    pub(crate) fn count(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => full.div_ceil(1000).max(16),
        }
    }
}

/// Measures a row.
pub(crate) fn run(row: Row, rounds: usize, scale: Scale) -> Results {
    let mut samples = vec![Vec::with_capacity(rounds); row.entries.len()];
    for round in 0..rounds {
        eprintln!("{}: round {} of {rounds}", row.id, round + 1);
        for turn in 0..row.entries.len() {
            let entry = (round + turn) % row.entries.len();
            samples[entry].push((row.entries[entry].measure)(scale));
        }
    }
    Results { row, samples }
}

impl Results {
    pub(crate) fn summary(&self, entry: usize, figure: usize) -> Summary {
        Summary::of(self.samples[entry].iter().map(|figures| figures[figure]).collect())
    }

    /// The entry with the least median among those that `admit` accepts.
    pub(crate) fn best(
        &self,
        figure: usize,
        admit: impl Fn(&Entry) -> bool,
    ) -> Option<(&Entry, f64)> {
        let entries = self.row.entries.iter().enumerate().filter(|(_, entry)| admit(entry));
        entries
            .map(|(index, entry)| (entry, self.summary(index, figure).median))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    pub(crate) fn best_of(&self, figure: usize, class: Class) -> Option<(&Entry, f64)> {
        self.best(figure, |entry| entry.class == class)
    }

    pub(crate) fn own(&self, figure: usize) -> f64 {
        self.best_of(figure, Class::Ours).map_or(f64::NAN, |(_, median)| median)
    }

    /// Navlock's figure as a multiple of the goal's measure, and whether the multiple is within the goal.
    pub(crate) fn reach(&self, figure: usize, goal: &Goal) -> (f64, bool) {
        let ratio = self.own(figure) / self.unit(figure, goal.of);
        (ratio, ratio <= goal.at_most)
    }

    fn unit(&self, figure: usize, measure: Measure) -> f64 {
        let best = match measure {
            Measure::Nanosecond => return 1.0,
            Measure::OwnFigure(other, _) => return self.own(other),
            Measure::Floor(name) => self.best(figure, |entry| entry.name == name),
            Measure::BestKept => self.best_of(figure, Class::Kept),
            Measure::BestEvicting => self.best_of(figure, Class::Evicting),
            Measure::BestPeer => self.best(figure, |entry| entry.class.is_peer()),
        };
        best.map_or(f64::NAN, |(_, median)| median)
    }
}

impl Summary {
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let (low, high) = (samples[(samples.len() - 1) / 2], samples[samples.len() / 2]);
        Self { median: f64::midpoint(low, high), min: samples[0], max: samples[samples.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn the_median_of_an_even_number_of_samples_is_between_the_middle_two() {
        let summary = Summary::of(vec![4.0, 1.0, 9.0, 2.0]);
        assert_eq!((summary.median, summary.min, summary.max), (3.0, 1.0, 9.0));
    }
}
