//! Navlock itself, through its public interface.

use std::{sync::mpsc, thread, time::Instant};

use navlock::{EtcdOptions, LockManager, UserAgent, blocking::block_on};

use super::{
    cases::{Place, TIME_TO_LIVE, each, median, micros},
    raw::Releases,
};

/// A machine: a connection of its own, which owns a name once it has taken it so often.
pub(super) fn machine(endpoint: &str, keep_names: u32) -> Result<UserAgent, String> {
    let options = EtcdOptions::new([endpoint]).time_to_live(TIME_TO_LIVE).keep_names(keep_names);
    block_on(navlock::etcd(options)).map_err(|error| error.to_string())
}

fn lock_manager(endpoint: &str) -> Result<LockManager, String> {
    Ok(machine(endpoint, 0)?.lock_manager("bench"))
}

/// Takes and releases a free lock. Each repetition begins when another client has heard of the release
/// before.
pub(super) fn acquire(place: &Place<'_>) -> Result<f64, String> {
    let locks = lock_manager(place.endpoint)?;
    let releases = Releases::of_locks(place.endpoint)?;
    let pair = || {
        drop(locks.lock(&*place.name).blocking().map_err(|error| error.to_string())?);
        releases.next()
    };
    // The first one asks for a lease too, and begins to watch.
    pair()?;
    let since = Instant::now();
    for _ in 0..place.count {
        pair()?;
    }
    Ok(each(since.elapsed(), place.count))
}

/// Takes and releases a lock, by a machine that owns a name once it has taken it so often. Nobody waits for
/// the release, but the next request is sent after it.
pub(super) fn acquire_in_a_loop(place: &Place<'_>, keep_names: u32) -> Result<f64, String> {
    let locks = machine(place.endpoint, keep_names)?.lock_manager("bench");
    let lock = || locks.lock(&*place.name).blocking().map_err(|error| error.to_string());
    // The first one asks for a lease too, and begins to watch.
    drop(lock()?);
    let since = Instant::now();
    for _ in 0..place.count {
        drop(lock()?);
    }
    // The last release counts as well.
    block_on(locks.query()).map_err(|error| error.to_string())?;
    Ok(each(since.elapsed(), place.count))
}

/// The time from the release of a lock to its grant on another machine.
pub(super) fn handover(place: &Place<'_>) -> Result<f64, String> {
    let (ask, asked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let (endpoint, name) = (place.endpoint.to_owned(), place.name.clone());
    let heir = thread::spawn(move || {
        let locks = lock_manager(&endpoint)?;
        while asked.recv().is_ok() {
            let guard = locks.lock(&*name).blocking().map_err(|error| error.to_string())?;
            let granted = Instant::now();
            drop(guard);
            let _ = tell.send(granted);
        }
        Ok::<_, String>(())
    });
    let locks = lock_manager(place.endpoint)?;
    let mut samples = Vec::new();
    for nth in 0..=place.count {
        let guard = locks.lock(&*place.name).blocking().map_err(|error| error.to_string())?;
        let _ = ask.send(());
        thread::sleep(place.wait);
        let since = Instant::now();
        drop(guard);
        match told.recv_timeout(TIME_TO_LIVE) {
            Ok(granted) if nth > 0 => samples.push(micros(granted - since)),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    drop(ask);
    match heir.join() {
        Ok(Ok(())) if samples.len() == place.count => Ok(median(samples)),
        Ok(Err(error)) => Err(error),
        _ => Err("the lock never changed hands".to_owned()),
    }
}
