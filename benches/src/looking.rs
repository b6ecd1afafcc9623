//! `navlock-benches looking`: what lookers cost other clients.
//!
//! A broker has 10,000 names that are held. One client takes and releases others 5,000 times a second (10,000
//! events), and another one measures how long it takes to be granted a lock. In every round this is measured
//! four times: without lookers; with ten lookers, in a process of their own; with ten lookers that get the
//! same from another process (see [`control`]), which shows what they cost by being there; and with a
//! newcomer ten times a second, which asks what there is and goes.

mod control;
mod load;

use std::{
    env,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use navlock::{LockManager, Look, LookOptions, Place, lower_thread_priority};

use crate::{
    args::Args,
    environment::{Environment, versions},
    harness::{Scale, Summary},
    machine::{self, Ended, ready},
    report::{collect, number},
};

pub(crate) use self::control::{CONTROL, tell};
use self::load::{HELD, MANY, NAMES, PAIRS};

pub(crate) const ROWS: [&str; 1] = ["looking"];

/// The first argument of the process of lookers.
pub(crate) const LOOKERS: &str = "lookers";

/// The first argument of the process of newcomers.
pub(crate) const NEWCOMERS: &str = "newcomers";

/// How often a newcomer asks what there is.
const COMES: Duration = Duration::from_millis(100);

/// The goal: how many times as long the slowest hundredth may wait because of lookers.
const MOST: f64 = 1.2;

/// The median and the 99th percentile of one round, in nanoseconds.
type Quantiles = [f64; 2];

/// The report, for people and for docs/figures.md.
///
/// # Errors
///
/// What cannot be started or connected to.
pub(crate) fn run(args: &Args) -> Result<(String, String), String> {
    let mut environment = Environment::look();
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let socket = directory.path().join("sock");
    let _broker = broker(&socket)?;
    let holder = client(&socket)?;
    let held: Result<Vec<_>, _> =
        (0..HELD).map(|n| holder.lock(format!("held {n}")).blocking()).collect();
    let held = held.map_err(|error| error.to_string())?;
    let mut all = [const { Vec::new() }; 4];
    for round in 0..args.rounds {
        all[0].push(measure(&socket, args.scale)?);
        let looking = lookers(&socket)?;
        all[1].push(measure(&socket, args.scale)?);
        drop(looking);
        let told = directory.path().join(format!("control {round}"));
        let control = ready(this_program(CONTROL, &told)?, "the control")?;
        let looking = lookers(&told)?;
        all[2].push(measure(&socket, args.scale)?);
        // End the control before the lookers of this round end.
        drop((control, looking));
        let newcomers = ready(this_program(NEWCOMERS, &socket)?, "who comes")?;
        all[3].push(measure(&socket, args.scale)?);
        drop(newcomers);
    }
    drop(held);
    environment.look_again();
    let rows = [("median", 0), ("99th percentile", 1)].map(|(what, which)| {
        let of = |all: &Vec<Quantiles>| Summary::of(all.iter().map(|one| one[which]).collect());
        // FAIR: ratios are taken within a round, because the machine is not as fast in each.
        let ratio = |others: &Vec<Quantiles>| {
            let pairs = others.iter().zip(&all[0]);
            Summary::of(pairs.map(|(one, alone)| one[which] / alone[which]).collect()).median
        };
        (what, all.each_ref().map(of), all.each_ref().map(ratio))
    });
    let text = collect(|out| {
        rows.iter().try_for_each(|(what, all, [_, many, control, newcomers])| {
            let times = all.each_ref().map(|one| number(one.median));
            writeln!(
                out,
                "{what:<16} nobody looks {:>9} ns; ten look {:>9} ns, {many:.2} x; \
                 ten look elsewhere {:>9} ns, {control:.2} x; newcomers {:>9} ns, {newcomers:.2} x",
                times[0], times[1], times[2], times[3]
            )
        })
    });
    let markdown = collect(|out| {
        writeln!(
            out,
            "How long a client waits for a free lock of the broker, in nanoseconds, beside {HELD} names that are \
             held and {} events a second: medians of {} interleaved rounds, with the smallest and the largest, and of the ratios of each round. \
             Elsewhere: {MANY} are told the same by a process that is no broker, which has nothing to do for it \
             but to write it. A newcomer: each {} ms somebody asks what there is.\n",
            2 * PAIRS,
            args.rounds,
            COMES.as_millis()
        )?;
        writeln!(
            out,
            "| | nobody looks | {MANY} look | ratio | goal | {MANY} look elsewhere | ratio | a newcomer | ratio |\n|---|---|---|---|---|---|---|---|---|"
        )?;
        for (what, [alone, looked_at, control, newcomers], [_, ratios @ ..]) in &rows {
            let goal = if *what == "median" { String::new() } else { format!("≤ {MOST} ×") };
            let show = |one: &Summary| {
                format!("{} ({}–{})", number(one.median), number(one.min), number(one.max))
            };
            writeln!(
                out,
                "| {what} | {} | {} | **{:.2} ×** | {goal} | {} | {:.2} × | {} | {:.2} × |",
                show(alone),
                show(looked_at),
                ratios[0],
                show(control),
                ratios[1],
                show(newcomers),
                ratios[2]
            )?;
        }
        let about = environment.describe(&versions(&["navlock"]));
        writeln!(out, "\nMeasured with `cargo xtask bench looking`: {about}")
    });
    Ok((text, markdown))
}

/// How long it takes to be granted a lock, while another client takes others.
fn measure(socket: &Path, scale: Scale) -> Result<Quantiles, String> {
    let (busy, measured) = (client(socket)?, client(socket)?);
    let is_over = AtomicBool::new(false);
    let mut times = thread::scope(|scope| {
        scope.spawn(|| {
            let (began, mut pairs) = (Instant::now(), 0_u32);
            let due = || (began.elapsed() * PAIRS).as_secs().try_into().unwrap_or(u32::MAX);
            while !is_over.load(Relaxed) {
                // Keep to this rate, however long a pair takes. A machine that has other things to do may
                // never keep up.
                while pairs < due() && !is_over.load(Relaxed) {
                    drop(busy.lock(format!("busy {}", pairs % NAMES)).blocking());
                    pairs += 1;
                }
                thread::sleep(Duration::from_micros(500));
            }
        });
        let times: Result<Vec<f64>, _> = (0..scale.count(8_000))
            .map(|_| {
                thread::sleep(Duration::from_micros(500));
                let began = Instant::now();
                let guard = measured.lock("measured").blocking()?;
                let time = began.elapsed().as_secs_f64() * 1e9;
                drop(guard);
                Ok::<_, navlock::Error>(time)
            })
            .collect();
        is_over.store(true, Relaxed);
        times.map_err(|error| error.to_string())
    })?;
    times.sort_by(f64::total_cmp);
    Ok([times[times.len() / 2], times[times.len() * 99 / 100]])
}

/// A client of its own, which asks the broker for each lock.
fn client(socket: &Path) -> Result<LockManager, String> {
    Ok(machine::client(socket, false)?.lock_manager("bench"))
}

/// The command's broker, which stands beside this program.
fn broker(socket: &Path) -> Result<Ended, String> {
    let program: PathBuf = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program.with_file_name("navlock"));
    command.arg("--socket").arg(socket).args(["daemon", "run", "--idle-seconds", "600"]);
    ready(command, "the broker")
}

/// Starts this program as the lookers.
fn lookers(socket: &Path) -> Result<Ended, String> {
    ready(this_program(LOOKERS, socket)?, "who looks")
}

/// This program in another role, at this socket.
fn this_program(word: &str, socket: &Path) -> Result<Command, String> {
    let mut command = Command::new(env::current_exe().map_err(|error| error.to_string())?);
    command.arg(word).arg(socket);
    Ok(command)
}

/// Looks until it is killed.
///
/// # Errors
///
/// If the broker cannot be looked at.
pub(crate) fn look(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let socket = args.next().ok_or("the path of a socket is missing")?;
    let begin = || {
        let mut look = Look::new(Place::at(&socket), LookOptions::default());
        look.next(Some(Duration::from_secs(10))).map_err(|error| error.to_string())?;
        Ok::<_, String>(look)
    };
    let looks: Result<Vec<_>, _> = (0..MANY).map(|_| begin()).collect();
    println!("ready");
    let threads = looks?.into_iter().map(|mut look| {
        thread::spawn(move || {
            // The lookers of the command and of the npm package do this too.
            lower_thread_priority();
            while look.next(None).is_ok() && !look.overview().clients.is_empty() {}
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

/// Comes, asks what there is, and goes, again and again until it is killed.
///
/// # Errors
///
/// If the broker cannot be looked at.
pub(crate) fn come(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let place = Place::at(args.next().ok_or("the path of a socket is missing")?);
    let mut next = Instant::now();
    println!("ready");
    loop {
        let overview = Look::once(place.clone(), LookOptions::default());
        if overview.map_err(|error| error.to_string())?.clients.is_empty() {
            return Ok(());
        }
        next += COMES;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
