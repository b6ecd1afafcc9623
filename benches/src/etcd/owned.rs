//! The cost of names that a machine owns, for its own clients and for others.

use std::{
    pin::pin,
    task::{Context, Waker},
    thread,
    time::Instant,
};

use navlock::LockManager;

use super::{
    cases::{Place, TIME_TO_LIVE, each, median, micros},
    navlock::machine,
    raw::{Releases, revision},
};
use crate::machine::Machine;

/// How often a name is taken before it is owned, as docs/etcd.md says.
pub(super) const TAKEN: u32 = 3;

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes on")]
fn failed(error: navlock::Error) -> String {
    error.to_string()
}

/// Takes and releases a lock by a broker that owns its name.
pub(super) fn here(place: &Place<'_>) -> Result<f64, String> {
    let machine = Machine::on_etcd(place.endpoint, Some(TAKEN))?;
    let locks = machine.client(true)?.lock_manager("bench");
    let since = Instant::now();
    let before = loop {
        let before = revision(place.endpoint)?;
        again_and_again(&locks, place, place.count.div_ceil(10))?;
        if revision(place.endpoint)? == before {
            break before;
        }
        if since.elapsed() > TIME_TO_LIVE {
            return Err("the name is never owned".to_owned());
        }
    };
    let measured = again_and_again(&locks, place, place.count)?;
    match revision(place.endpoint)? - before {
        0 => Ok(measured),
        times => Err(format!("the name was owned, and etcd was written to {times} times")),
    }
}

/// The same by a broker that shares its locks with nobody. The client may own the name, or asks the broker
/// each time.
pub(super) fn alone(place: &Place<'_>, may_own: bool) -> Result<f64, String> {
    let machine = Machine::alone()?;
    let locks = machine.client(may_own)?.lock_manager("bench");
    again_and_again(&locks, place, place.count.div_ceil(10))?;
    again_and_again(&locks, place, place.count)
}

fn again_and_again(locks: &LockManager, place: &Place<'_>, count: usize) -> Result<f64, String> {
    let since = Instant::now();
    for _ in 0..count {
        drop(locks.lock(&*place.name).blocking().map_err(failed)?);
    }
    Ok(each(since.elapsed(), count))
}

/// Takes and releases a lock that another machine had last, and owns or not, until another client has heard
/// of the release. Each lock has a new name, because a name that wanders is no longer owned.
pub(super) fn elsewhere(place: &Place<'_>, owns: bool) -> Result<f64, String> {
    let taken = if owns { TAKEN } else { 0 };
    let [one, other] = [machine(place.endpoint, taken)?, machine(place.endpoint, taken)?]
        .map(|machine| machine.lock_manager("bench"));
    let releases = Releases::of_locks(place.endpoint)?;
    let mut samples = Vec::new();
    for nth in 0..=place.count {
        let name = format!("{}/{nth}", place.name);
        drop(one.lock(&*name).blocking().map_err(failed)?);
        if owns {
            until_owned(&one, &name)?;
        }
        thread::sleep(place.wait);
        releases.forget();
        let since = Instant::now();
        drop(other.lock(&*name).blocking().map_err(failed)?);
        let gone = releases.next()?;
        // The first one has asked for a lease too, so it does not count.
        if nth > 0 {
            samples.push(micros(gone - since));
        }
    }
    Ok(median(samples))
}

/// Has a machine take a name until it owns it: then it gets the name at once.
fn until_owned(locks: &LockManager, name: &str) -> Result<(), String> {
    let since = Instant::now();
    while since.elapsed() < TIME_TO_LIVE {
        let mut request = pin!(locks.lock(name).into_future());
        if request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return Ok(());
        }
        drop(navlock::blocking::block_on(request).map_err(failed)?);
    }
    Err("the name is never owned".to_owned())
}
