//! `navlock-benches embedded`: `navigator.locks` in JavaScript engines within Rust programs, beside an
//! empty task of the same engine.
//!
//! Each engine runs the same script. Its host has two kinds of tasks: those of locks, and empty ones,
//! which resolve a promise that a script awaits. A request needs one of the former, so one of the latter
//! is what it cannot do without.

mod boa;
mod quickjs;
mod report;

use std::{collections::BTreeMap, time::Instant};

use navlock::{LockManager, UserAgent};

use crate::{args::Args, environment::Environment, harness::Scale};

/// What is measured.
pub(crate) const ROWS: [&str; 4] = ["sequential", "names", "waiters", "many-waiters"];

/// What the scripts of all engines define: each function does something so many times.
const SCRIPT: &str = "
    const nothing = async () => {};
    const each = (count, call) => Promise.all(Array.from({ length: count }, (_, index) => call(index)));
    const cases = {
      async 'sequential'(count) {
        for (let i = 0; i < count; i++) await navigator.locks.request('db', nothing);
      },
      async 'sequential floor'(count) {
        for (let i = 0; i < count; i++) await task();
      },
      async 'names'(count) {
        for (let i = 0; i < count; i += 1000) await each(1000, (index) => navigator.locks.request(`name ${index}`, nothing));
      },
      async 'names floor'(count) {
        for (let i = 0; i < count; i += 1000) await each(1000, task);
      },
      async 'waiters'(count) {
        let release;
        const kept = new Promise((resolve) => (release = resolve));
        const holder = navigator.locks.request('db', () => kept);
        const all = each(count, () => navigator.locks.request('db', nothing));
        release();
        await Promise.all([holder, all]);
      },
      async 'waiters floor'(count) {
        await each(count, task);
      },
    };
    const run = (name, count) => void cases[name](count).then(done);
";

/// An engine with a host that has tasks.
trait Vm: Sized {
    const NAME: &'static str;

    /// Runs [`SCRIPT`], with `task()`, a promise that an empty task resolves, and `done()`.
    fn new(locks: LockManager) -> Result<Self, String>;

    fn eval(&mut self, source: &str) -> Result<(), String>;

    /// One task and the microtasks after it. Whether there was one.
    fn turn(&mut self) -> Result<bool, String>;

    /// Whether `done()` was called since this was asked.
    fn is_done(&mut self) -> bool;
}

/// Nanoseconds for one of what a case does many of, of each round.
type Figures = BTreeMap<(&'static str, &'static str, bool), Vec<f64>>;

/// The report, for people and for docs/figures.md.
///
/// # Errors
///
/// What an engine says.
pub(crate) fn run(args: &Args) -> Result<(String, String), String> {
    let mut environment = Environment::look();
    let mut figures = Figures::new();
    for _ in 0..args.rounds {
        measure::<boa::Boa>(args, &mut figures)?;
        measure::<quickjs::QuickJs>(args, &mut figures)?;
    }
    environment.look_again();
    Ok((report::text(&figures), report::markdown(&figures, &environment, args.rounds)))
}

fn measure<V: Vm>(args: &Args, figures: &mut Figures) -> Result<(), String> {
    for row in ROWS.into_iter().filter(|row| args.wants(row)) {
        let (case, count) = match row {
            "many-waiters" => ("waiters", 100_000),
            "waiters" => (row, 10_000),
            _ => (row, 20_000),
        };
        let count = if args.scale == Scale::Quick { count / 10 } else { count };
        for is_floor in [false, true] {
            // A new one each time, so that none has the garbage of another.
            let mut vm = V::new(UserAgent::new().lock_manager("bench"))?;
            let name = if is_floor { format!("{case} floor") } else { case.to_owned() };
            time(&mut vm, &name, count / 10)?;
            let each = time(&mut vm, &name, count)?;
            figures.entry((row, V::NAME, is_floor)).or_default().push(each);
        }
    }
    Ok(())
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
