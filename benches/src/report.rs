//! The report, for people and for docs/figures.md.

use std::fmt::{self, Write as _};

use crate::{
    contender::Class,
    environment::{Environment, versions},
    harness::{Entry, Goal, Measure, Results},
    memory::Memory,
};

/// The command that writes the section.
const COMMAND: &str = "cargo xtask bench in-process";

/// The crates on whose versions the figures depend.
const CRATES: &[&str] = &[
    "navlock-core",
    "dashmap",
    "tokio",
    "async-lock",
    "key-mutex",
    "key-rwlock",
    "keyed-lock",
    "lockable",
];

/// The whole report, for a terminal.
pub(crate) fn text(
    results: &[Results],
    memory: Option<&Memory>,
    environment: &Environment,
) -> String {
    collect(|out| {
        for result in results {
            write_row(out, result)?;
        }
        if let Some(memory) = memory {
            writeln!(out, "memory")?;
            for (what, value) in describe(memory) {
                writeln!(out, "  {what:<48} {value}")?;
            }
            writeln!(out)?;
        }
        writeln!(out, "{}", environment.describe(&versions(CRATES)))
    })
}

fn write_row(out: &mut String, result: &Results) -> fmt::Result {
    for (figure, about) in result.row.figures.iter().enumerate() {
        writeln!(out, "{}: {} (ns)", result.row.id, title(result, figure))?;
        let floor = result.best_of(figure, Class::Floor).map_or(f64::NAN, |(_, floor)| floor);
        for (index, entry) in result.row.entries.iter().enumerate() {
            let summary = result.summary(index, figure);
            writeln!(
                out,
                "  {:<28} {:<9} {:>8} {:>17} {:>7.2} x least floor {:>7.2} x navlock",
                entry.name,
                entry.class.as_str(),
                number(summary.median),
                format!("{}–{}", number(summary.min), number(summary.max)),
                summary.median / floor,
                summary.median / result.own(figure),
            )?;
        }
        for goal in about.goals {
            writeln!(out, "  goal {}: {}", describe_goal(goal), outcome(result, figure, goal))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The section of docs/figures.md.
pub(crate) fn markdown(
    results: &[Results],
    memory: Option<&Memory>,
    environment: &Environment,
    rounds: usize,
) -> String {
    collect(|out| {
        writeln!(
            out,
            "Acquire and release of a lock by name, in nanoseconds: medians of {rounds} \
             interleaved rounds, built with Cargo's own release profile. \"Kept\" peers never forget a name; \"evicting\" ones do, as \
             navlock does. A floor is what a case cannot do without, as one would write it with \
             `std`, and no lock by name.\n"
        )?;
        writeln!(out, "| case | navlock | floor | best kept | best evicting | goal | reached |")?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for result in results {
            for (figure, about) in result.row.figures.iter().enumerate() {
                let each_goal = |describe: &dyn Fn(&Goal) -> String| {
                    about.goals.iter().map(describe).collect::<Vec<_>>().join("<br>")
                };
                writeln!(
                    out,
                    "| {} | **{}** | {} | {} | {} | {} | {} |",
                    title(result, figure),
                    number(result.own(figure)),
                    floors(result, figure),
                    best(result.best_of(figure, Class::Kept)),
                    best(result.best_of(figure, Class::Evicting)),
                    each_goal(&describe_goal),
                    each_goal(&|goal| outcome(result, figure, goal)),
                )?;
            }
        }
        if let Some(memory) = memory {
            writeln!(out, "\n| memory | |\n|---|---|")?;
            for (what, value) in describe(memory) {
                writeln!(out, "| {what} | {value} |")?;
            }
        }
        writeln!(out, "\n<details><summary>Every contender: median (min–max)</summary>\n")?;
        for result in results {
            for figure in 0..result.row.figures.len() {
                writeln!(out, "| {} | kind | ns |\n|---|---|---|", title(result, figure))?;
                for (index, entry) in result.row.entries.iter().enumerate() {
                    let summary = result.summary(index, figure);
                    writeln!(
                        out,
                        "| {} | {} | {} ({}–{}) |",
                        entry.name,
                        entry.class.as_str(),
                        number(summary.median),
                        number(summary.min),
                        number(summary.max),
                    )?;
                }
                writeln!(out)?;
            }
        }
        writeln!(out, "</details>\n")?;
        writeln!(out, "Measured with `{COMMAND}`: {}", environment.describe(&versions(CRATES)))
    })
}

pub(crate) fn collect(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    write(&mut out).expect("writing to a string succeeds");
    out
}

fn title(result: &Results, figure: usize) -> String {
    match result.row.figures[figure].name {
        "" => result.row.title.to_owned(),
        name => format!("{}: {name}", result.row.title),
    }
}

fn floors(result: &Results, figure: usize) -> String {
    let entries = result.row.entries.iter().enumerate();
    let floors: Vec<_> = entries
        .filter(|(_, entry)| entry.class == Class::Floor)
        .map(|(index, entry)| {
            format!("{} {}", entry.name, number(result.summary(index, figure).median))
        })
        .collect();
    floors.join("<br>")
}

fn best(best: Option<(&Entry, f64)>) -> String {
    best.map_or_else(String::new, |(entry, median)| format!("{} {}", entry.name, number(median)))
}

fn describe_goal(goal: &Goal) -> String {
    let times = match goal.of {
        Measure::Nanosecond => return format!("≤ {} ns", goal.at_most),
        Measure::Floor(name) | Measure::OwnFigure(_, name) => name,
        Measure::BestKept => "best kept",
        Measure::BestEvicting => "best evicting",
        Measure::BestPeer => "best peer",
    };
    if (goal.at_most - 1.0).abs() < f64::EPSILON {
        format!("≤ {times}")
    } else {
        format!("≤ {} × {times}", goal.at_most)
    }
}

fn outcome(result: &Results, figure: usize, goal: &Goal) -> String {
    let (ratio, reached) = result.reach(figure, goal);
    let ratio_or_time = match goal.of {
        Measure::Nanosecond => format!("{} ns", number(ratio)),
        _ => format!("{ratio:.2} ×"),
    };
    if reached {
        format!("yes ({ratio_or_time})")
    } else {
        let excess = (ratio / goal.at_most - 1.0) * 100.0;
        format!("no ({ratio_or_time}; missed by {excess:.0} %)")
    }
}

fn describe(memory: &Memory) -> Vec<(String, String)> {
    let bytes_and_time =
        |(bytes, time): (f64, f64)| format!("{bytes:.0} bytes, made in {} ns", number(time));
    vec![
        (
            format!("each of {} held locks", thousands(memory.held)),
            bytes_and_time(memory.per_held_lock),
        ),
        (
            format!("each of {} waiters for one name", thousands(memory.waiters)),
            bytes_and_time(memory.per_waiter),
        ),
        (
            format!("left by {} dead names", thousands(memory.dead_names)),
            format!("{} bytes, {} ns each", memory.growth, number(memory.per_dead_name)),
        ),
        ("`LockGuard`".to_owned(), format!("{} bytes", memory.guard)),
        ("`LockFuture`".to_owned(), format!("{} bytes", memory.future)),
    ]
}

/// A time with as many digits as mean something.
pub(crate) fn number(nanoseconds: f64) -> String {
    if nanoseconds < 10.0 { format!("{nanoseconds:.1}") } else { format!("{nanoseconds:.0}") }
}

pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!([1, 999, 1000, 1_234_567].map(thousands), ["1", "999", "1,000", "1,234,567"]);
    }
}
