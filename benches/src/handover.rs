//! How long a lock takes from one machine to another.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use navlock::LockManager;

use crate::harness::Summary;

/// How long a machine waits for another one, which has then failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// The time from the release of a lock to its grant on another machine, which has waited for so long: the median of
/// `count`, in microseconds. Each machine has lock managers of its own.
///
/// # Errors
///
/// If one of them cannot be had, or has lost its lock.
pub(crate) fn handover(
    lock_manager: impl Fn() -> Result<LockManager, String> + Sync,
    name: &str,
    wait: Duration,
    count: usize,
) -> Result<f64, String> {
    let (ask, asked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let lock_manager = &lock_manager;
        let heir = scope.spawn(move || {
            let locks = lock_manager()?;
            while asked.recv().is_ok() {
                let guard = locks.lock(name).blocking().map_err(|error| error.to_string())?;
                let granted = Instant::now();
                drop(guard);
                let _ = tell.send(granted);
            }
            Ok::<_, String>(())
        });
        let locks = lock_manager()?;
        let mut samples = Vec::new();
        for nth in 0..=count {
            let guard = locks.lock(name).blocking().map_err(|error| error.to_string())?;
            let _ = ask.send(());
            thread::sleep(wait);
            let since = Instant::now();
            drop(guard);
            match told.recv_timeout(DEADLINE) {
                Ok(granted) if nth > 0 => samples.push((granted - since).as_secs_f64() * 1e6),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        drop(ask);
        match heir.join() {
            Ok(Ok(())) if samples.len() == count => Ok(Summary::of(samples).median),
            Ok(Err(error)) => Err(error),
            _ => Err("the lock never changed hands".to_owned()),
        }
    })
}
