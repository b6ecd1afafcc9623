//! `navlock-benches embedded`: `navigator.locks` in JavaScript engines within Rust programs, beside what
//! a host's own tasks cost in the same engine.
//!
//! Each engine runs the same script. Its host has tasks of locks, and tasks of a function of its own:
//! `task(callback)` returns a promise, and queues a task that calls the callback and resolves the promise
//! with the result. That is the floor: a request also calls its callback in a task of the host, and resolves
//! a promise with the result. Whatever a request costs besides is the lock.
//!
//! `task()` without a callback only resolves its promise. It shows what an `await` costs that runs nothing.

mod boa;
mod cases;
mod quickjs;
mod report;

use std::{thread, time::Instant};

use navlock::UserAgent;

pub(crate) use self::cases::ROWS;
use self::cases::{Figures, Kind, Vm};
use crate::{args::Args, environment::Environment, harness::Scale};

/// There are so many times more rounds than elsewhere, because each is short.
const TIMES: usize = 3;

/// Measures, and returns the report, for people and for docs/figures.md.
///
/// # Errors
///
/// The error of an engine.
pub(crate) fn run(args: &Args) -> Result<(String, String), String> {
    let mut environment = Environment::look();
    let mut figures = Figures::new();
    let rounds = args.rounds * TIMES;
    for _ in 0..rounds {
        measure::<boa::Boa>(args, &mut figures)?;
        measure::<quickjs::QuickJs>(args, &mut figures)?;
    }
    environment.look_again();
    Ok((report::text(&figures), report::markdown(&figures, &environment, rounds)))
}

fn measure<V: Vm>(args: &Args, figures: &mut Figures) -> Result<(), String> {
    for row in ROWS.into_iter().filter(|row| args.wants(row)) {
        let (case, count) = match row {
            "many-waiters" => ("waiters", 100_000),
            "waiters" => (row, 10_000),
            _ => (row, 20_000),
        };
        let count = if args.scale == Scale::Quick { count / 10 } else { count };
        for kind in Kind::ALL {
            // Each measurement has a thread of its own, so that none has the garbage of another: Boa's heap
            // belongs to its thread.
            let each = thread::scope(|threads| {
                threads.spawn(|| measure_one::<V>(&kind.of_case(case), count)).join()
            });
            let each = each.map_err(|_| format!("{case} on {} has panicked", V::NAME))??;
            figures.entry((row, V::NAME, kind)).or_default().push(each);
        }
    }
    Ok(())
}

/// Nanoseconds for each of `count` repetitions, after a tenth of them to warm up.
fn measure_one<V: Vm>(name: &str, count: u32) -> Result<f64, String> {
    let mut vm = V::new(UserAgent::new().lock_manager("bench"))?;
    time(&mut vm, name, count / 10)?;
    time(&mut vm, name, count)
}

fn time<V: Vm>(vm: &mut V, name: &str, count: u32) -> Result<f64, String> {
    let began = Instant::now();
    vm.eval(&format!("run('{name}', {count})"))?;
    while !vm.is_done() {
        if !vm.turn()? {
            return Err(format!("{name} on {} waits for what never comes", V::NAME));
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e9 / f64::from(count))
}
