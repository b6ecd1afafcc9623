//! The report, for people and for docs/figures.md.

use std::fmt::{self, Write as _};

use super::{
    case::Case,
    crowd::{self, Shares},
    layout::Layout,
    memory::Memory,
    peer::Peer,
    row::Row,
};
use crate::report::{collect, thousands};

/// The command that writes the section.
const COMMAND: &str = "cargo xtask bench broker";

/// What the report says of the whole run.
pub(super) struct About {
    pub(super) environment: String,
    pub(super) rounds: usize,
}

/// A limit for one of navlock's medians.
struct Goal {
    row: Row,
    layout: Layout,
    whose: Peer,
    at_most: f64,
    of: Peer,
}

const fn goal(row: Row, layout: Layout, whose: Peer, at_most: f64, of: Peer) -> Goal {
    Goal { row, layout, whose, at_most, of }
}

const GOALS: [Goal; 27] = {
    use Layout::{OneCpu, TwoCpus};
    use Peer::{
        Bare, Flock, InProcess, InProcessAsync, Navlock, NavlockAsking, NavlockAsync,
        NavlockSystem, PingPong, Redis,
    };
    use Row::{Acquire, Command, First, Handover, Kill, Query, Recall, Shared};
    [
        goal(Acquire, OneCpu, Navlock, 0.35, Flock),
        goal(Acquire, OneCpu, Navlock, 1.0, InProcess),
        goal(Acquire, OneCpu, NavlockAsync, 1.0, InProcessAsync),
        goal(Acquire, OneCpu, NavlockAsking, 1.0, Bare),
        goal(Acquire, OneCpu, NavlockAsking, 0.75, Redis),
        goal(Acquire, OneCpu, NavlockSystem, 1.15, NavlockAsking),
        goal(Acquire, TwoCpus, NavlockSystem, 1.15, NavlockAsking),
        goal(Acquire, TwoCpus, Navlock, 0.35, Flock),
        goal(Acquire, TwoCpus, Navlock, 1.0, InProcess),
        goal(Acquire, TwoCpus, NavlockAsync, 1.0, InProcessAsync),
        goal(Acquire, TwoCpus, NavlockAsking, 1.1, PingPong),
        goal(Shared, OneCpu, Navlock, 0.35, Flock),
        goal(Shared, TwoCpus, Navlock, 0.35, Flock),
        goal(First, OneCpu, Navlock, 1.0, NavlockAsking),
        goal(First, TwoCpus, Navlock, 1.0, NavlockAsking),
        goal(Recall, OneCpu, Navlock, 1.1, NavlockAsking),
        goal(Recall, TwoCpus, Navlock, 1.1, NavlockAsking),
        goal(Handover, OneCpu, Navlock, 1.0, NavlockAsking),
        goal(Handover, OneCpu, Navlock, 1.05, Bare),
        goal(Handover, OneCpu, Navlock, 1.0, Redis),
        goal(Handover, TwoCpus, Navlock, 1.0, NavlockAsking),
        goal(Query, OneCpu, Navlock, 1.0, NavlockAsking),
        goal(Query, TwoCpus, Navlock, 1.0, NavlockAsking),
        goal(Kill, OneCpu, Navlock, 1.3, Bare),
        goal(Kill, TwoCpus, Navlock, 1.3, Bare),
        goal(Command, OneCpu, Navlock, 1.15, Flock),
        goal(Command, TwoCpus, Navlock, 1.15, Flock),
    ]
};

/// The columns of the table of locks that nobody else wants, in its order.
const OWNED: [(Peer, &str); 6] = [
    (Peer::Navlock, "navlock"),
    (Peer::NavlockAsync, "in a task"),
    (Peer::InProcess, "within one process"),
    (Peer::InProcessAsync, "in a task"),
    (Peer::Flock, "flock(2)"),
    (Peer::NavlockAsking, ASKING),
];

const ASKING: &str = "`NAVLOCK_DELEGATE=0`";

/// The columns of the other table.
const COLUMNS: [(Peer, &str); 8] = [
    (Peer::Navlock, "navlock"),
    (Peer::NavlockAsking, ASKING),
    (Peer::NavlockSystem, "`--system`"),
    (Peer::PingPong, "ping-pong"),
    (Peer::Bare, "bare broker"),
    (Peer::Flock, "flock(2)"),
    (Peer::Redis, "Redis"),
    (Peer::Postgres, "PostgreSQL"),
];

impl Goal {
    fn describe(&self) -> String {
        let column = OWNED.iter().chain(&COLUMNS).find(|(peer, _)| *peer == self.of);
        let of = match (self.of, self.row) {
            (Peer::Redis, Row::Handover) => "Redis' BLPOP",
            (Peer::InProcessAsync, _) => "the same within one process",
            _ => column.map_or("", |(_, name)| name),
        };
        let whose = match self.whose {
            Peer::NavlockAsync => "in a task ",
            Peer::NavlockAsking => "`NAVLOCK_DELEGATE=0` ",
            Peer::NavlockSystem => "`--system` ",
            _ => "",
        };
        if (self.at_most - 1.0).abs() < f64::EPSILON {
            format!("{whose}≤ {of}")
        } else {
            format!("{whose}≤ {} × {of}", self.at_most)
        }
    }

    fn outcome(&self, case: &Case) -> String {
        let (Some(own), Some(other)) = (case.median(self.whose), case.median(self.of)) else {
            return "not measured".to_owned();
        };
        let ratio = own / other;
        if ratio <= self.at_most {
            format!("yes ({ratio:.2} ×)")
        } else {
            let excess = ((ratio / self.at_most - 1.0) * 100.0).ceil();
            format!("no ({ratio:.2} ×; missed by {excess} %)")
        }
    }
}

impl Case {
    fn title(&self) -> String {
        let what = match self.row {
            Row::Acquire => "acquire and release",
            Row::Shared => "the same, shared",
            Row::First => "acquire and release, a name never seen",
            Row::Recall => "acquire, when another process had it last",
            Row::Query => "`query()`, 1,000 held by another process",
            Row::QueryIdle => "`query()`, another process owns 1,000 that it has released",
            Row::Handover => "handover",
            Row::Kill => "holder killed, next granted",
            Row::Command => "a command under a lock",
        };
        format!("{what}, {}", self.layout.as_str())
    }

    fn is_of_owned(&self) -> bool {
        matches!(self.row, Row::Acquire | Row::Shared)
    }

    /// Whether each occurrence is timed, and not only the mean of a round.
    fn is_timed_one_by_one(&self) -> bool {
        matches!(self.row, Row::Kill | Row::Command)
    }

    fn goals(&self) -> impl Iterator<Item = &'static Goal> {
        GOALS.iter().filter(|goal| goal.row == self.row && goal.layout == self.layout)
    }
}

/// The whole report, for a terminal.
pub(super) fn text(
    cases: &[Case],
    shares: &[Shares],
    memory: Option<&Memory>,
    about: &About,
) -> String {
    collect(|out| {
        for case in cases {
            writeln!(out, "{} (µs)", case.title())?;
            let own = case.median(Peer::Navlock).unwrap_or(f64::NAN);
            for entry in &case.entries {
                let summary = entry.summary();
                write!(
                    out,
                    "  {:<34} {:>8} {:>15} {:>7.2} x navlock",
                    entry.peer.name(case.row),
                    micros(summary.median),
                    format!("{}–{}", micros(summary.min), micros(summary.max)),
                    summary.median / own,
                )?;
                if case.is_timed_one_by_one() {
                    let (half, most) = (entry.quantile(0.5), entry.quantile(0.99));
                    write!(out, "   p50 {} p99 {}", micros(half), micros(most))?;
                }
                writeln!(out)?;
            }
            for goal in case.goals() {
                writeln!(out, "  goal {}: {}", goal.describe(), goal.outcome(case))?;
            }
            writeln!(out)?;
        }
        crowd::write(out, shares)?;
        if let Some(memory) = memory {
            writeln!(out, "memory")?;
            for (what, value) in describe(memory) {
                writeln!(out, "  {what:<56} {value}")?;
            }
            writeln!(out)?;
        }
        writeln!(out, "{}", about.environment)
    })
}

/// The section of docs/figures.md.
pub(super) fn markdown(
    cases: &[Case],
    shares: &[Shares],
    memory: Option<&Memory>,
    about: &About,
) -> String {
    collect(|out| {
        writeln!(
            out,
            "Locks between processes, in microseconds: medians of {} interleaved rounds. On one \
             CPU all processes are pinned to it; on two, the server has one and the client the \
             other, and of two clients each has its own.\n\n\
             One process takes and releases a lock again and again that nobody else wants. It owns the \
             name then, and asks nobody; with `NAVLOCK_DELEGATE=0` it asks the broker each time.\n",
            about.rounds
        )?;
        let (owned, others): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.is_of_owned());
        write_table(out, &owned, &OWNED)?;
        writeln!(
            out,
            "\nBeside others that ask a server. Navlock and the bare broker do not wait for the \
             release, Redis and PostgreSQL answer it. Handover: processes take the same lock in turn, \
             three where there is a queue, and else two. The ping-pong is 64 bytes there and back over \
             a Unix socket; the bare broker is the least loop over epoll \
             that grants exclusive locks in order.\n"
        )?;
        let acquires = owned.into_iter().filter(|case| case.row == Row::Acquire);
        write_table(out, &acquires.chain(others).collect::<Vec<_>>(), &COLUMNS)?;
        write_kills(out, cases, about.rounds)?;
        crowd::write(out, shares)?;
        if let Some(memory) = memory {
            writeln!(out, "\n| memory of the daemon | |\n|---|---|")?;
            for (what, value) in describe(memory) {
                writeln!(out, "| {what} | {value} |")?;
            }
        }
        writeln!(out, "\n<details><summary>Everybody: median (min–max)</summary>\n")?;
        for case in cases {
            writeln!(out, "| {} | µs |\n|---|---|", case.title())?;
            for entry in &case.entries {
                let summary = entry.summary();
                writeln!(
                    out,
                    "| {} | {} ({}–{}) |",
                    entry.peer.name(case.row),
                    micros(summary.median),
                    micros(summary.min),
                    micros(summary.max),
                )?;
            }
            writeln!(out)?;
        }
        writeln!(out, "</details>\n")?;
        writeln!(out, "Measured with `{COMMAND}`: {}", about.environment)
    })
}

fn write_table(out: &mut String, cases: &[&Case], columns: &[(Peer, &str)]) -> fmt::Result {
    let names: Vec<_> = columns.iter().map(|(_, name)| *name).collect();
    writeln!(out, "| case | {} | goal | reached |", names.join(" | "))?;
    writeln!(out, "|---|{}---|---|", "---|".repeat(names.len()))?;
    for case in cases.iter().filter(|case| case.row != Row::Kill) {
        let medians: Vec<_> = columns
            .iter()
            .map(|(peer, _)| match (case.median(*peer), peer) {
                (Some(median), Peer::Navlock) => format!("**{}**", micros(median)),
                (Some(median), _) => micros(median),
                (None, _) => "–".to_owned(),
            })
            .collect();
        let is_here = |peer| columns.iter().any(|(column, _)| *column == peer);
        let goals = || case.goals().filter(|goal| is_here(goal.whose) && is_here(goal.of));
        let outcomes: Vec<_> = goals().map(|goal| goal.outcome(case)).collect();
        let goals: Vec<_> = goals().map(Goal::describe).collect();
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            case.title(),
            medians.join(" | "),
            goals.join("<br>"),
            outcomes.join("<br>")
        )?;
    }
    Ok(())
}

fn write_kills(out: &mut String, cases: &[Case], rounds: usize) -> fmt::Result {
    let mut cases = cases.iter().filter(|case| case.row == Row::Kill).peekable();
    let Some(first) = cases.peek() else {
        return Ok(());
    };
    let kills = first.entries.first().map_or(0, |entry| entry.rounds.concat().len());
    writeln!(
        out,
        "\nFrom `kill -9` of the holder, which has to die first, to the grant in another process, \
         in µs; {kills} kills in {rounds} rounds.\n"
    )?;
    writeln!(
        out,
        "| case | navlock p50 | p99 | {ASKING} p50 | p99 | bare broker p50 | p99 | flock(2) p50 | p99 | \
         goal | reached |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|---|")?;
    for case in cases {
        write!(out, "| {} |", case.title())?;
        for peer in [Peer::Navlock, Peer::NavlockAsking, Peer::Bare, Peer::Flock] {
            let quantile = |share| case.entry(peer).map_or(f64::NAN, |entry| entry.quantile(share));
            write!(out, " {} | {} |", micros(quantile(0.5)), micros(quantile(0.99)))?;
        }
        let goals: Vec<_> = case.goals().map(Goal::describe).collect();
        let outcomes: Vec<_> = case.goals().map(|goal| goal.outcome(case)).collect();
        writeln!(out, " {} | {} |", goals.join("<br>"), outcomes.join("<br>"))?;
    }
    Ok(())
}

fn describe(memory: &Memory) -> Vec<(String, String)> {
    let mebibytes = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
    let held = thousands(memory.held);
    vec![
        ("with four clients and no locks".to_owned(), mebibytes(memory.empty)),
        (
            format!("each of {held} held locks, in the daemon"),
            format!("{:.0} bytes", memory.per_lock),
        ),
        ("the same, in its client".to_owned(), format!("{:.0} bytes", memory.per_guard)),
        ("left when the clients are gone".to_owned(), mebibytes(memory.left)),
    ]
}

/// A time with as many digits as mean something.
fn micros(nanoseconds: f64) -> String {
    let micros = nanoseconds / 1000.0;
    if micros < 0.1 {
        format!("{micros:.3}")
    } else if micros < 1.0 {
        format!("{micros:.2}")
    } else if micros < 100.0 {
        format!("{micros:.1}")
    } else {
        format!("{micros:.0}")
    }
}
