//! What navlock costs beside its peers, and beside what it cannot do without.
//!
//! `cargo xtask bench in-process` runs it all; `--quick` only shows that it runs. The figures are
//! wall-clock times, so what counts are ratios of figures of one run: see [`harness`] for how a run
//! is made comparable, [`contender`] for who takes part, [`rows`] for what is measured.

mod args;
mod contender;
mod environment;
mod harness;
mod memory;
mod report;
mod rows;
mod splice;

use std::{fs, process::ExitCode};

use args::Args;
use environment::Environment;

fn main() -> ExitCode {
    match Args::parse(std::env::args().skip(1)).and_then(|args| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("navlock-benches: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let mut environment = Environment::look();
    let results: Vec<_> =
        args.rows().into_iter().map(|row| harness::run(row, args.rounds, args.scale)).collect();
    let memory = args.memory().then(|| memory::measure(args.scale));
    environment.look_again();

    print!("{}", report::text(&results, memory.as_ref(), &environment));
    let markdown = report::markdown(&results, memory.as_ref(), &environment, args.rounds);
    if let Some(file) = &args.markdown {
        fs::write(file, &markdown).map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    if let Some(file) = &args.splice {
        splice::file(file, "bench:in-process", &markdown)?;
    }
    Ok(())
}
