//! The report, for people and for docs/figures.md.

use std::fmt::{self, Write as _};

use super::cases::{Figures, Kind, ROWS};
use crate::{
    environment::{Environment, versions},
    harness::Summary,
    report::{collect, number},
};

/// The command that writes the section.
const COMMAND: &str = "cargo xtask bench embedded";

/// The crates on whose versions the figures depend.
const CRATES: &[&str] = &["navlock-js", "boa_engine", "rquickjs"];

const ENGINES: [&str; 2] = ["Boa", "QuickJS"];

/// How many times the floor a request may take.
const MOST: f64 = 1.5;

/// The title of a row.
fn title(row: &str) -> &str {
    match row {
        "sequential" => "one after the other, one name",
        "names" => "1,000 names at once, each",
        "waiters" => "10,000 waiters on one name, each",
        _ => "100,000 waiters on one name, each",
    }
}

/// The whole report, for a terminal.
pub(super) fn text(figures: &Figures) -> String {
    collect(|out| {
        each(figures, |row, engine, [own, floor, empty], ratio| {
            writeln!(
                out,
                "{:<36} {engine:<8} {:>9} ns; floor {:>9} ns; {:.2} x; an empty task {:>9} ns",
                title(row),
                number(own.median),
                number(floor.median),
                ratio.median,
                number(empty.median)
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
             nanoseconds: medians of {rounds} interleaved rounds, with the smallest and the largest; of the ratios \
             to the floor, which is measured right after it, the median as well. The floor \
             is `await task(async () => {{}})`, where the host's own `task` queues a task that calls the \
             function and resolves the promise with what it returns; an empty task is `await task()`, which \
             calls nothing.\n"
        )?;
        writeln!(
            out,
            "| case | engine | navlock | floor | an empty task | goal | reached |\n\
             |---|---|---|---|---|---|---|"
        )?;
        each(figures, |row, engine, [own, floor, empty], ratio| {
            let ratio = ratio.median;
            let reached = if ratio <= MOST { "yes" } else { "no" };
            let range = |of: &Summary| format!("({}–{})", number(of.min), number(of.max));
            writeln!(
                out,
                "| {} | {engine} | **{}** {} | {} {} | {} {} | ≤ {MOST} × floor | {reached} ({ratio:.2} ×) |",
                title(row),
                number(own.median),
                range(own),
                number(floor.median),
                range(floor),
                number(empty.median),
                range(empty),
            )
        })?;
        let about = environment.describe(&versions(CRATES));
        writeln!(out, "\nMeasured with `{COMMAND}`: {about}")
    })
}

fn each(
    figures: &Figures,
    mut show: impl FnMut(&str, &str, [&Summary; 3], &Summary) -> fmt::Result,
) -> fmt::Result {
    for row in ROWS {
        for engine in ENGINES {
            let of = |kind| figures.get(&(row, engine, kind));
            if let [Some(own), Some(floor), Some(empty)] = Kind::ALL.map(of) {
                // FAIR: ratios are taken within a round, because the machine is not as fast in each.
                let ratios = own.iter().zip(floor).map(|(own, floor)| own / floor).collect();
                let all = [own, floor, empty].map(|all| Summary::of(all.clone()));
                show(row, engine, all.each_ref(), &Summary::of(ratios))?;
            }
        }
    }
    Ok(())
}
