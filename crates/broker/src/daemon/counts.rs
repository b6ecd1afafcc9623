//! Counters of what happens, for reports.
//!
//! Mostly only the daemon's thread counts, so a count is an addition in the cache of this thread. A
//! host may serve with several threads.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use navlock_core::Lost;
use navlock_wire::{Numbers, Waits};

use super::outcome::Outcome;

/// The bounds of the histogram of waits, in nanoseconds. The first is for locks that were granted at
/// once.
const BOUNDS: [u64; 11] = [
    100_000,
    1_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
    10_000_000_000,
    60_000_000_000,
];

/// The counters. They only grow.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sessions: AtomicU64,
    turned_away: AtomicU64,
    requests: AtomicU64,
    /// The grants, by how long their requests had waited. The last number is for waits that were
    /// longer than all bounds.
    waits: [AtomicU64; BOUNDS.len() + 1],
    waited: AtomicU64,
    unavailable: AtomicU64,
    failures: AtomicU64,
    aborts: AtomicU64,
    releases: AtomicU64,
    losses: AtomicU64,
    thefts: AtomicU64,
}

impl Counts {
    pub(super) fn session(&self) {
        count(&self.sessions, 1);
    }

    pub(super) fn turned_away(&self) {
        count(&self.turned_away, 1);
    }

    pub(super) fn request(&self) {
        count(&self.requests, 1);
    }

    /// Counts the outcome of a request that has waited for this many nanoseconds.
    pub(super) fn outcome(&self, outcome: &Outcome, waited: u64) {
        match outcome {
            Outcome::Granted(..) => self.grant(waited),
            Outcome::Unavailable => count(&self.unavailable, 1),
            Outcome::Failed(_) => count(&self.failures, 1),
            // The lock has ended because its agent was terminated, so this is no loss.
            Outcome::Lost(Lost::Terminated | Lost::Closed, _) => count(&self.releases, 1),
            Outcome::Lost(lost, _) => {
                count(&self.losses, 1);
                count(&self.thefts, u64::from(*lost == Lost::Stolen));
            }
            Outcome::Register => {}
        }
    }

    /// Counts the grant of a request that has waited for this many nanoseconds.
    pub(super) fn grant(&self, waited: u64) {
        // FAST: most locks are granted at once.
        let place = if waited == 0 { 0 } else { BOUNDS.partition_point(|&bound| bound < waited) };
        count(&self.waits[place], 1);
        if waited > 0 {
            count(&self.waited, waited);
        }
    }

    /// Counts this many locks as released, and this many requests as given up.
    pub(super) fn finished(&self, held: usize, pending: usize) {
        count(&self.releases, held as u64);
        count(&self.aborts, pending as u64);
    }

    /// The numbers that the counters show now.
    pub(super) fn numbers(&self) -> Numbers {
        let get = |number: &AtomicU64| number.load(Relaxed);
        let [bounds @ .., longer] = &self.waits;
        let bounds = BOUNDS.iter().zip(bounds);
        let waits = Waits {
            bounds: bounds
                .map(|(&bound, count)| (Duration::from_nanos(bound), get(count)))
                .collect(),
            longer: get(longer),
            sum: Duration::from_nanos(get(&self.waited)),
        };
        Numbers {
            sessions: get(&self.sessions),
            turned_away: get(&self.turned_away),
            requests: get(&self.requests),
            grants: waits.count(),
            unavailable: get(&self.unavailable),
            failures: get(&self.failures),
            aborts: get(&self.aborts),
            releases: get(&self.releases),
            losses: get(&self.losses),
            thefts: get(&self.thefts),
            waits,
            ..Numbers::default()
        }
    }
}

#[inline]
fn count(number: &AtomicU64, more: u64) {
    number.fetch_add(more, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_with_those_that_were_no_longer_than_its_bound() {
        let counts = Counts::default();
        for waited in [0, 1, 100_000, 100_001, 60_000_000_000, 60_000_000_001] {
            counts.grant(waited);
        }
        let numbers = counts.numbers();
        let by_bound: Vec<_> = numbers.waits.bounds.iter().map(|(_, count)| *count).collect();
        assert_eq!(by_bound, [3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((numbers.waits.longer, numbers.grants), (1, 6));
        assert_eq!(numbers.waits.sum, Duration::from_nanos(120_000_200_003));
    }
}
