//! How often a thing is done, by how many, and how long each time takes.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

/// How long leases last, and how long anything may take: longer than any measurement.
pub(super) const TIME_TO_LIVE: Duration = Duration::from_secs(60);

/// How many machines, in the row of several.
pub(super) const MACHINES: usize = 8;

/// How long who gets a lock has waited for it, and how often.
pub(super) const WAIT: Duration = Duration::from_millis(15);
pub(super) const HANDOVERS: usize = 100;

/// Prepares the work of several machines, and does it at once. Microseconds for each repetition.
pub(super) fn at_once<W: FnOnce() -> Result<(), String> + Send>(
    count: usize,
    prepare: impl Fn(usize) -> Result<W, String>,
) -> Result<f64, String> {
    let work = (0..MACHINES).map(prepare).collect::<Result<Vec<_>, _>>()?;
    let begin = Barrier::new(MACHINES + 1);
    thread::scope(|scope| {
        let begin = &begin;
        let all: Vec<_> = work
            .into_iter()
            .map(|work| {
                scope.spawn(move || {
                    begin.wait();
                    work()
                })
            })
            .collect();
        begin.wait();
        let since = Instant::now();
        for one in all {
            one.join().map_err(|_| "a machine has failed")??;
        }
        Ok(each(since.elapsed(), count / MACHINES * MACHINES))
    })
}

/// Microseconds for each of so many.
pub(super) fn each(time: Duration, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are some hundreds at most")]
    let count = count.max(1) as f64;
    time.as_secs_f64() * 1e6 / count
}
