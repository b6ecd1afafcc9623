//! What navlock costs beside its peers, and beside the work that no such lock can do without.
//!
//! `cargo xtask bench in-process` measures locks between threads and tasks, `bench broker` between processes,
//! `bench looking` what lookers cost, `bench etcd` and `bench postgres` locks between machines,
//! `bench etcd-scale` what many names and many machines cost, and `bench embedded` measures `navigator.locks` in engines within Rust programs.
//! `--quick` only shows that they run. The figures are wall-clock times, so what counts are ratios of figures
//! of one run. See [`harness`] for how a run is made comparable, [`contender`] for who takes part, [`rows`]
//! for what is measured, and [`broker`] and [`etcd`] for all of that beyond one process.

mod args;
#[cfg_attr(not(target_os = "linux"), path = "broker_elsewhere.rs")]
mod broker;
mod command_line;
mod contender;
#[cfg(feature = "embedded")]
mod embedded;
mod environment;
mod etcd;
mod etcd_scale;
mod handover;
mod harness;
mod looking;
mod machine;
mod memory;
#[cfg_attr(not(unix), path = "postgres_elsewhere.rs")]
mod postgres;
mod report;
mod rows;
mod splice;

use std::{fs, process::ExitCode};

use args::{Args, Family};
use environment::Environment;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let done = if args.next_if(|word| word == broker::PARTICIPANT).is_some() {
        broker::take_part(args)
    } else if args.next_if(|word| word == etcd_scale::COUNT).is_some() {
        etcd_scale::count(args)
    } else if args.next_if(|word| word == looking::LOOKERS).is_some() {
        looking::look(args)
    } else if args.next_if(|word| word == looking::CONTROL).is_some() {
        looking::tell(args)
    } else if args.next_if(|word| word == looking::NEWCOMERS).is_some() {
        looking::come(args)
    } else {
        Args::parse(args).and_then(|args| run(&args))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("navlock-benches: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let (text, markdown) = match args.family {
        Family::InProcess => in_process(args),
        Family::Broker => broker::run(args)?,
        Family::Looking => looking::run(args)?,
        Family::Etcd => etcd::run(args)?,
        Family::EtcdScale => etcd_scale::run(args)?,
        Family::Postgres => postgres::run(args)?,
        #[cfg(feature = "embedded")]
        Family::Embedded => embedded::run(args)?,
    };
    print!("{text}");
    if let Some(file) = &args.markdown {
        fs::write(file, &markdown).map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    if let Some(file) = &args.splice {
        splice::file(file, args.family.marker(), &markdown)?;
    }
    Ok(())
}

/// The report, for people and for docs/figures.md.
fn in_process(args: &Args) -> (String, String) {
    let mut environment = Environment::look();
    let results: Vec<_> =
        args.rows().into_iter().map(|row| harness::run(row, args.rounds, args.scale)).collect();
    let memory = args.memory().then(|| memory::measure(args.scale));
    environment.look_again();
    let text = report::text(&results, memory.as_ref(), &environment);
    let markdown = report::markdown(&results, memory.as_ref(), &environment, args.rounds);
    (text, markdown)
}
