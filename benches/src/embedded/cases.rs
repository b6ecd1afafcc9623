//! The cases, and what an engine has to do for them.

use std::collections::BTreeMap;

use navlock::LockManager;

/// The cases that are measured.
pub(crate) const ROWS: [&str; 4] = ["sequential", "names", "waiters", "many-waiters"];

/// The script of all engines. Each of its functions does something `n` times.
pub(super) const SCRIPT: &str = "
    const nothing = async () => {};
    const each = (count, call) => Promise.all(Array.from({ length: count }, (_, index) => call(index)));
    const cases = {
      async 'sequential'(count) {
        for (let i = 0; i < count; i++) await navigator.locks.request('db', nothing);
      },
      async 'sequential floor'(count) {
        for (let i = 0; i < count; i++) await task(nothing);
      },
      async 'sequential empty'(count) {
        for (let i = 0; i < count; i++) await task();
      },
      async 'names'(count) {
        for (let i = 0; i < count; i += 1000) await each(1000, (index) => navigator.locks.request(`name ${index}`, nothing));
      },
      async 'names floor'(count) {
        for (let i = 0; i < count; i += 1000) await each(1000, () => task(nothing));
      },
      async 'names empty'(count) {
        for (let i = 0; i < count; i += 1000) await each(1000, () => task());
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
        await each(count, () => task(nothing));
      },
      async 'waiters empty'(count) {
        await each(count, () => task());
      },
    };
    const run = (name, count) => void cases[name](count).then(done);
";

/// An engine with a host that has tasks.
pub(super) trait Vm: Sized {
    const NAME: &'static str;

    /// Runs [`SCRIPT`], with `task(callback)` and `done()`.
    fn new(locks: LockManager) -> Result<Self, String>;

    fn eval(&mut self, source: &str) -> Result<(), String>;

    /// Runs one task and the microtasks after it. Returns whether there was a task.
    fn turn(&mut self) -> Result<bool, String>;

    /// Whether `done()` was called since the last call of this method.
    fn is_done(&mut self) -> bool;
}

/// What a case repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A request.
    Request,
    /// A task that calls a callback.
    Floor,
    /// A task that calls nothing.
    Empty,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Request, Self::Floor, Self::Empty];

    /// The function of [`SCRIPT`] that does it.
    pub(super) fn of_case(self, case: &str) -> String {
        match self {
            Self::Request => case.to_owned(),
            Self::Floor => format!("{case} floor"),
            Self::Empty => format!("{case} empty"),
        }
    }
}

/// Nanoseconds for each repetition of a case, by round.
pub(super) type Figures = BTreeMap<(&'static str, &'static str, Kind), Vec<f64>>;
