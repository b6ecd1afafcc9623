//! The report, for people and for docs/figures.md.

use std::fmt::{self, Write as _};

use super::{
    cases::{Case, Peer, Row},
    owned::TAKEN,
};
use crate::{
    harness::Scale,
    report::{collect, number, thousands},
};

/// The command that writes the section.
const COMMAND: &str = "cargo xtask bench etcd";

/// What the report says of the whole run.
pub(super) struct About {
    pub(super) environment: String,
    /// The storage of each etcd's data.
    pub(super) stores: Vec<String>,
    pub(super) rounds: usize,
    pub(super) scale: Scale,
}

/// A limit for navlock's time beside another peer's: the median of the ratios of all rounds.
enum Goal {
    /// At most so many times the other's time.
    AtMost(f64, Peer),
    /// At least so many times as many a second.
    AtLeast(f64, Peer),
}

impl Row {
    const fn goals(self) -> &'static [Goal] {
        match self {
            Self::Acquire => &[Goal::AtMost(1.1, Peer::Floor)],
            Self::Loop => &[Goal::AtMost(0.75, Peer::Floor)],
            Self::Owned => &[Goal::AtMost(1.2, Peer::Alone)],
            Self::OwnedElsewhere => &[Goal::AtMost(1.6, Peer::NeverOwning)],
            Self::Handover | Self::HandoverLate => &[Goal::AtMost(1.2, Peer::Floor)],
            Self::Crowd => &[Goal::AtLeast(1.2, Peer::LockService)],
            Self::LargeCrowd => &[Goal::AtLeast(2.0, Peer::LockService)],
            Self::Readers => &[],
        }
    }

    /// Whether the report says how many a second, and not how long each takes.
    const fn is_rate(self) -> bool {
        matches!(self, Self::Crowd | Self::LargeCrowd)
    }

    /// Microseconds for each, as the report shows them.
    fn tell(self, micros: f64) -> String {
        match self {
            Self::Crowd | Self::LargeCrowd => format!("{}/s", whole(1e6 / micros)),
            // Some take less than a microsecond.
            Self::Loop | Self::Owned if micros < 100.0 => number(micros),
            _ => whole(micros),
        }
    }
}

impl Goal {
    fn describe(&self) -> String {
        match self {
            Self::AtMost(most, peer) => format!("≤ {most} × {}", peer.as_str()),
            Self::AtLeast(least, peer) => format!("≥ {least} × {}", peer.as_str()),
        }
    }

    fn outcome(&self, case: &Case) -> String {
        let (Self::AtMost(_, peer) | Self::AtLeast(_, peer)) = *self;
        let Some(ratio) = case.ratio(peer) else { return "not measured".to_owned() };
        // By how much the goal is missed, if `missed` is more than 1.
        let (ratio, missed) = match *self {
            Self::AtMost(most, _) => (ratio, ratio / most),
            Self::AtLeast(least, _) => (ratio.recip(), least * ratio),
        };
        if missed <= 1.0 {
            return format!("yes ({ratio:.2} ×)");
        }
        let by = match self {
            Self::AtMost(..) => missed - 1.0,
            Self::AtLeast(..) => 1.0 - missed.recip(),
        };
        format!("no ({ratio:.2} ×; missed by {} %)", (by * 100.0).ceil())
    }
}

impl Case {
    fn title(&self, scale: Scale) -> String {
        let count = thousands(self.row.count(Peer::Navlock, scale));
        let what = match self.row {
            Row::Acquire => "acquire and release, a free name".to_owned(),
            Row::Loop => {
                "acquire and release, in a loop of a machine that owns the name".to_owned()
            }
            Row::Owned => "acquire and release, a name that the machine owns".to_owned(),
            Row::OwnedElsewhere => {
                "acquire and release, a name that another machine owns".to_owned()
            }
            Row::Handover | Row::HandoverLate => {
                format!("handover, waiter queued {} ms before", self.row.wait().as_millis())
            }
            Row::Crowd | Row::LargeCrowd => format!("{count} waiters, each in turn"),
            Row::Readers => format!("{count} shared waiters at once, each"),
        };
        format!("{what}, {}", self.store.as_str())
    }
}

/// The whole report, for a terminal.
pub(super) fn text(cases: &[Case], about: &About) -> String {
    collect(|out| {
        for case in cases {
            let unit = if case.row.is_rate() { "handovers a second" } else { "µs" };
            writeln!(out, "{} ({unit})", case.title(about.scale))?;
            let own = case.summary(Peer::Navlock).map_or(f64::NAN, |summary| summary.median);
            for peer in Peer::ALL {
                let Some(summary) = case.summary(peer) else { continue };
                let range =
                    format!("{}–{}", case.row.tell(summary.min), case.row.tell(summary.max));
                writeln!(
                    out,
                    "  {:<48} {:>9} {:>17} {:>7.2} x navlock",
                    peer.as_str(),
                    case.row.tell(summary.median),
                    range,
                    summary.median / own,
                )?;
            }
            if case.row == Row::Loop {
                writeln!(out, "  navlock: {} pairs a second", whole(1e6 / own))?;
            }
            for goal in case.row.goals() {
                writeln!(out, "  goal {}: {}", goal.describe(), goal.outcome(case))?;
            }
            writeln!(out)?;
        }
        writeln!(out, "{} ({})", about.environment, about.stores.join(", "))
    })
}

/// The section of docs/figures.md.
pub(super) fn markdown(cases: &[Case], about: &About) -> String {
    collect(|out| {
        writeln!(
            out,
            "Locks between machines on one node of etcd, in microseconds or handovers a second: \
             medians of {} interleaved rounds, with etcd's data on a disk and in memory; whether a goal is reached \
             is judged by the median of the ratios of each round. The \
             floor of acquire and release is one transaction and one deletion, that of a handover a deletion \
             and its event on a watch that is open; the lock service is etcd's own. A lock of a free name \
             counts as released, and so does its floor, when another client that watches has heard of it; in \
             a loop the next is asked for at once. Names are owned in the rows that say so only, once a machine has taken \
             them {TAKEN} times. A name that another machine owns is not used there meanwhile. \
             Those in a crowd are agents at four brokers with no settings of their own, which are processes, as is \
             the broker of a name that the machine owns; those of the lock service are on four connections, each with a lease \
             of its own. In the other rows machines are connections of one process.\n",
            about.rounds
        )?;
        let names: Vec<_> = Peer::ALL[..Peer::COLUMNS].iter().map(|peer| peer.as_str()).collect();
        writeln!(out, "| case | {} | others | goal | reached |", names.join(" | "))?;
        writeln!(out, "|---|{}---|---|---|", "---|".repeat(names.len()))?;
        for case in cases {
            write_case(out, case, about.scale)?;
        }
        writeln!(out, "\n<details><summary>Everybody: median (min–max)</summary>\n")?;
        for case in cases {
            let unit = if case.row.is_rate() { "handovers" } else { "µs" };
            writeln!(out, "| {} | {unit} |\n|---|---|", case.title(about.scale))?;
            for peer in Peer::ALL {
                let Some(summary) = case.summary(peer) else { continue };
                let [median, min, max] =
                    [summary.median, summary.min, summary.max].map(|time| case.row.tell(time));
                writeln!(out, "| {} | {median} ({min}–{max}) |", peer.as_str())?;
            }
            writeln!(out)?;
        }
        writeln!(out, "</details>\n")?;
        let stores = about.stores.join(", ");
        writeln!(out, "Measured with `{COMMAND}` ({stores}): {}", about.environment)
    })
}

fn write_case(out: &mut String, case: &Case, scale: Scale) -> fmt::Result {
    let (columns, others) = Peer::ALL.split_at(Peer::COLUMNS);
    let told = |peer: &Peer| case.summary(*peer).map(|summary| case.row.tell(summary.median));
    let medians: Vec<_> = columns
        .iter()
        .map(|peer| match told(peer) {
            Some(median) if *peer == Peer::Navlock => format!("**{median}**"),
            Some(median) => median,
            None => "–".to_owned(),
        })
        .collect();
    let others =
        others.iter().filter_map(|peer| Some(format!("{} {}", peer.as_str(), told(peer)?)));
    let others: Vec<_> = others.collect();
    let goals: Vec<_> = case.row.goals().iter().map(Goal::describe).collect();
    let outcomes: Vec<_> = case.row.goals().iter().map(|goal| goal.outcome(case)).collect();
    writeln!(
        out,
        "| {} | {} | {} | {} | {} |",
        case.title(scale),
        medians.join(" | "),
        others.join("<br>"),
        goals.join("<br>"),
        outcomes.join("<br>"),
    )
}

/// A number without digits after the point: two rounds differ by more than a microsecond.
fn whole(number: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times and rates are neither negative nor large"
    )]
    let number = number.round() as usize;
    thousands(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::{Entry, Store};

    /// A case in which each peer takes so many microseconds.
    fn case(row: Row, times: &[(Peer, f64)]) -> Case {
        let entries = times.iter().map(|&(peer, time)| Entry { peer, rounds: vec![time] });
        Case { row, store: Store::Memory, entries: entries.collect() }
    }

    #[test]
    fn a_time_is_to_be_no_more_than_so_many_of_another() {
        let goal = &Row::Loop.goals()[0];
        let outcome =
            |own| goal.outcome(&case(Row::Loop, &[(Peer::Navlock, own), (Peer::Floor, 100.0)]));
        assert_eq!(goal.describe(), "≤ 0.75 × floor");
        assert_eq!(outcome(75.0), "yes (0.75 ×)");
        assert_eq!(outcome(90.0), "no (0.90 ×; missed by 20 %)");
    }

    #[test]
    fn a_peer_in_a_slow_round_is_compared_with_others_in_that_round() {
        let entry = |peer, rounds: &[f64]| Entry { peer, rounds: rounds.to_vec() };
        let own = entry(Peer::Navlock, &[10.0, 70.0, 20.0]);
        let floor = entry(Peer::Floor, &[10.0, 100.0, 40.0]);
        let case = Case { row: Row::Loop, store: Store::Memory, entries: vec![floor, own] };
        assert_eq!(Row::Loop.goals()[0].outcome(&case), "yes (0.70 ×)");
    }

    #[test]
    fn a_rate_is_to_be_so_many_times_that_of_another_at_least() {
        let goal = &Row::LargeCrowd.goals()[0];
        let outcome = |own| {
            let times = [(Peer::Navlock, own), (Peer::LockService, 100.0)];
            goal.outcome(&case(Row::LargeCrowd, &times))
        };
        assert_eq!(goal.describe(), "≥ 2 × lock service");
        assert_eq!(outcome(50.0), "yes (2.00 ×)");
        assert_eq!(outcome(100.0), "no (1.00 ×; missed by 50 %)");
        assert_eq!(goal.outcome(&case(Row::LargeCrowd, &[])), "not measured");
    }
}
