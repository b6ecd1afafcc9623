//! The report, for people and for docs/figures.md.

use std::fmt::{self, Write as _};

use super::{Case, Peer, Row};
use crate::{
    harness::Scale,
    report::{collect, thousands},
};

/// The command that makes the section.
const COMMAND: &str = "cargo xtask bench etcd";

/// What is said of the whole run.
pub(super) struct About {
    pub(super) environment: String,
    /// What the data of each etcd was on.
    pub(super) stores: Vec<String>,
    pub(super) rounds: usize,
    pub(super) scale: Scale,
}

/// What navlock's median is to stay within.
enum Goal {
    /// So many times that of another.
    Times(f64, Peer),
    /// So many in a second.
    PerSecond(f64),
}

impl Row {
    const fn goals(self) -> &'static [Goal] {
        match self {
            Self::Acquire => &[Goal::Times(1.15, Peer::Floor)],
            Self::Handover | Self::HandoverLate => &[Goal::Times(1.3, Peer::Floor)],
            Self::Crowd => &[Goal::PerSecond(561.0), Goal::Times(1.0, Peer::LockService)],
            Self::LargeCrowd => &[Goal::Times(1.0, Peer::LockService)],
            Self::Readers => &[],
        }
    }

    /// Whether it is told how many in a second, and not how long each.
    const fn is_rate(self) -> bool {
        matches!(self, Self::Crowd | Self::LargeCrowd)
    }

    /// Microseconds for each, as they are told.
    fn tell(self, micros: f64) -> String {
        match self {
            Self::Crowd | Self::LargeCrowd => format!("{}/s", whole(1e6 / micros)),
            _ => whole(micros),
        }
    }
}

impl Goal {
    fn describe(&self, row: Row) -> String {
        match self {
            Self::PerSecond(rate) => format!("≥ {}/s", whole(*rate)),
            // The more the better.
            Self::Times(_, peer) if row.is_rate() => format!("≥ {}", peer.as_str()),
            Self::Times(most, peer) => format!("≤ {most} × {}", peer.as_str()),
        }
    }

    fn outcome(&self, case: &Case) -> String {
        let median = |peer| case.summary(peer).map(|summary| summary.median);
        let Some(own) = median(Peer::Navlock) else { return "not measured".to_owned() };
        let (most, ratio) = match *self {
            Self::PerSecond(rate) => (1e6 / rate, own),
            Self::Times(most, peer) => match median(peer) {
                Some(other) => (most, own / other),
                None => return "not measured".to_owned(),
            },
        };
        let told = match self {
            Self::PerSecond(_) => case.row.tell(own),
            Self::Times(..) if case.row.is_rate() => format!("{:.2} ×", 1.0 / ratio),
            Self::Times(..) => format!("{ratio:.2} ×"),
        };
        if ratio <= most {
            format!("yes ({told})")
        } else {
            format!("no ({told}; missed by {} %)", ((ratio / most - 1.0) * 100.0).ceil())
        }
    }
}

impl Case {
    fn title(&self, scale: Scale) -> String {
        let count = thousands(self.row.count(Peer::Navlock, scale));
        let what = match self.row {
            Row::Acquire => "acquire and release".to_owned(),
            Row::Handover | Row::HandoverLate => {
                format!("handover, waiter queued {} ms before", self.row.wait().as_millis())
            }
            Row::Crowd | Row::LargeCrowd => format!("{count} waiters, each in turn"),
            Row::Readers => format!("{count} shared waiters at once, each"),
        };
        format!("{what}, {}", self.store.as_str())
    }
}

/// Everything, for a terminal.
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
                    "  {:<16} {:>9} {:>17} {:>7.2} x navlock",
                    peer.as_str(),
                    case.row.tell(summary.median),
                    range,
                    summary.median / own,
                )?;
            }
            if case.row == Row::Acquire {
                writeln!(out, "  navlock: {} pairs a second", whole(1e6 / own))?;
            }
            for goal in case.row.goals() {
                writeln!(out, "  goal {}: {}", goal.describe(case.row), goal.outcome(case))?;
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
             medians of {} interleaved rounds, with etcd's data on a disk and in memory. The \
             machines are connections of one process. The floor of acquire and release is one \
             transaction and one deletion, that of a handover a deletion and its event on a watch \
             that is open; the lock service is etcd's own. Those in a crowd are on four connections, \
             each with a lease of its own.\n",
            about.rounds
        )?;
        let names: Vec<_> = Peer::ALL.iter().map(|peer| peer.as_str()).collect();
        writeln!(out, "| case | {} | goal | reached |", names.join(" | "))?;
        writeln!(out, "|---|{}---|---|", "---|".repeat(names.len()))?;
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
    let medians = Peer::ALL.map(|peer| match case.summary(peer) {
        Some(summary) if peer == Peer::Navlock => format!("**{}**", case.row.tell(summary.median)),
        Some(summary) => case.row.tell(summary.median),
        None => "–".to_owned(),
    });
    let goals: Vec<_> = case.row.goals().iter().map(|goal| goal.describe(case.row)).collect();
    let outcomes: Vec<_> = case.row.goals().iter().map(|goal| goal.outcome(case)).collect();
    writeln!(
        out,
        "| {} | {} | {} | {} |",
        case.title(scale),
        medians.join(" | "),
        goals.join("<br>"),
        outcomes.join("<br>"),
    )
}

/// No digits after the point: a microsecond is less than what two rounds differ by.
fn whole(number: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times and rates are neither negative nor large"
    )]
    let number = number.round() as usize;
    thousands(number)
}
