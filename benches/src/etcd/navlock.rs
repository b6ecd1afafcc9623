//! Navlock itself, through its public interface.

use std::time::Instant;

use navlock::{EtcdOptions, LockManager, UserAgent, blocking::block_on};

use super::{
    cases::{Place, TIME_TO_LIVE, each},
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
    let locks = || lock_manager(place.endpoint);
    crate::handover::handover(locks, &place.name, place.wait, place.count)
}
