//! The report, for people and for docs/figures.md.

use std::fmt::{self, Write as _};

use super::{Figures, ROWS};
use crate::{
    environment::{Environment, versions},
    harness::Summary,
    report::{collect, number},
};

/// The command that makes the section.
const COMMAND: &str = "cargo xtask bench embedded";

/// Whose versions the figures depend on.
const CRATES: &[&str] = &["navlock-js", "boa_engine", "rquickjs"];

const ENGINES: [&str; 2] = ["Boa", "QuickJS"];

/// What a request may be beside an empty task.
const MOST: f64 = 1.5;

/// What a row is about.
fn title(row: &str) -> &str {
    match row {
        "sequential" => "one after the other, one name",
        "names" => "1,000 names at once, each",
        "waiters" => "10,000 waiters on one name, each",
        _ => "100,000 waiters on one name, each",
    }
}

/// Everything, for a terminal.
pub(super) fn text(figures: &Figures) -> String {
    collect(|out| {
        each(figures, |row, engine, own, floor| {
            writeln!(
                out,
                "{:<36} {engine:<8} {:>9} ns; an empty task {:>9} ns; {:.2} x",
                title(row),
                number(own.median),
                number(floor.median),
                own.median / floor.median
            )
        })
    })
}

/// The section of docs/figures.md.
pub(super) fn markdown(figures: &Figures, environment: &Environment, rounds: usize) -> String {
    collect(|out| {
        writeln!(
            out,
            "`await navigator.locks.request(name, async () => {{}})` in engines within a Rust program, in \
             nanoseconds: medians of {rounds} interleaved rounds, with the smallest and the largest. The floor \
             is an `await` of an empty task of the same host.\n"
        )?;
        writeln!(
            out,
            "| case | engine | navlock | floor | goal | reached |\n|---|---|---|---|---|---|"
        )?;
        each(figures, |row, engine, own, floor| {
            let ratio = own.median / floor.median;
            let reached = if ratio <= MOST { "yes" } else { "no" };
            writeln!(
                out,
                "| {} | {engine} | **{}** ({}–{}) | {} ({}–{}) | ≤ {MOST} × floor | {reached} ({ratio:.2} ×) |",
                title(row),
                number(own.median),
                number(own.min),
                number(own.max),
                number(floor.median),
                number(floor.min),
                number(floor.max),
            )
        })?;
        let about = environment.describe(&versions(CRATES));
        writeln!(out, "\nMeasured with `{COMMAND}`: {about}")
    })
}

fn each(
    figures: &Figures,
    mut show: impl FnMut(&str, &str, &Summary, &Summary) -> fmt::Result,
) -> fmt::Result {
    for row in ROWS {
        for engine in ENGINES {
            let of = |is_floor| {
                figures.get(&(row, engine, is_floor)).map(|all| Summary::of(all.clone()))
            };
            if let (Some(own), Some(floor)) = (of(false), of(true)) {
                show(row, engine, &own, &floor)?;
            }
        }
    }
    Ok(())
}
