//! Finds the leases that should have been renewed and were not, for lookers.
//!
//! The store is asked about the leases. After an answer, it is asked about a lease again when the
//! lease should have been renewed. If it was not renewed, the store is asked about it at each look, but no
//! more often than every half second, until the lease is renewed or ends. So for a lease that is
//! renewed in time, a store that answers is asked at most once between two renewals, however many
//! lookers there are.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use navlock_core::host::Unheard;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    clock::Uptime,
    hash::HashState,
    key_store::{KeyStore, LeaseLeft},
};

/// How many leases are asked about at the same time.
const AT_ONCE: usize = 16;

/// How many leases are asked about in one look. Nothing is known of further leases until the next
/// look.
const MOST: usize = 256;

/// How long the questions may take in one look. After that, the look is answered with what is
/// known.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How often the store is asked about a lease that is silent.
const AGAIN: Duration = Duration::from_millis(500);

/// What is known of the leases of others.
#[derive(Clone, Default)]
pub(crate) struct Silences(Arc<Mutex<HashMap<i64, LeaseAnswer, HashState>>>);

/// What the last answer has told of a lease.
#[derive(Clone, Copy)]
struct LeaseAnswer {
    asked: Uptime,
    /// The time of the lease's last renewal, or a moment up to a second later.
    renewed: Uptime,
    granted: Duration,
}

impl Silences {
    /// Returns which of these leases are silent.
    pub(crate) async fn among(
        &self,
        store: &impl KeyStore,
        leases: Vec<i64>,
    ) -> HashMap<i64, Unheard, HashState> {
        // Other looks wait here, and then find the answers of this one.
        let mut known = self.0.lock().await;
        known.retain(|_, seen| seen.left(Uptime::now()) > Duration::ZERO);
        let is_due = |lease: &i64| known.get(lease).is_none_or(|seen| seen.is_due(Uptime::now()));
        let due: Vec<_> = leases.iter().copied().filter(is_due).take(MOST).collect();
        let mut asked = stream::iter(due).map(|lease| ask(store, lease)).buffer_unordered(AT_ONCE);
        let answers = async {
            while let Some((lease, answer)) = asked.next().await {
                match answer {
                    Some(seen) => drop(known.insert(lease, seen)),
                    // The lease is gone, or there was no answer.
                    None => drop(known.remove(&lease)),
                }
            }
        };
        let _ = timeout(TIMEOUT, answers).await;
        let now = Uptime::now();
        let silent = |lease: i64| Some((lease, known.get(&lease)?.unheard(now)?));
        leases.into_iter().filter_map(silent).collect()
    }
}

/// Asks the store about a lease. `None` if there is no such lease, or no answer.
async fn ask(store: &impl KeyStore, lease: i64) -> (i64, Option<LeaseAnswer>) {
    let left = store.lease_left(lease).await;
    (lease, left.map(|left| LeaseAnswer::new(Uptime::now(), left)))
}

impl LeaseAnswer {
    /// An answer that was heard at `now`.
    fn new(now: Uptime, LeaseLeft { granted, left }: LeaseLeft) -> Self {
        Self { asked: now, renewed: now.after(left).before(granted), granted }
    }

    /// The moment from which the lease is silent, unless it is renewed before that. An owner renews
    /// a lease three times in its time to live.
    fn silent_from(self) -> Uptime {
        self.renewed.after(self.granted / 2)
    }

    fn is_due(self, now: Uptime) -> bool {
        now >= self.silent_from() && now >= self.asked.after(AGAIN)
    }

    /// How long the lease lasts at most, if it is not renewed.
    fn left(self, now: Uptime) -> Duration {
        self.renewed.after(self.granted).since_start().saturating_sub(now.since_start())
    }

    fn unheard(self, now: Uptime) -> Option<Unheard> {
        // If the last answer came after the moment from which the lease is silent, the lease was
        // not renewed in time.
        let is_silent = self.asked >= self.silent_from();
        let silent = now.since_start().saturating_sub(self.renewed.since_start());
        is_silent.then(|| Unheard { silent, left: self.left(now) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTED: Duration = Duration::from_secs(10);

    /// A lease of ten seconds that was renewed and asked for at these moments, in milliseconds.
    fn at(renewed: u64, asked: u64) -> LeaseAnswer {
        // The store leaves out the fraction of a second, and tells a second more.
        let left = Duration::from_secs((10_000 - (asked - renewed)) / 1000 + 1).min(GRANTED);
        let told = LeaseLeft { granted: GRANTED, left };
        LeaseAnswer::new(Uptime::now_at(Duration::from_millis(asked)), told)
    }

    #[test]
    fn a_lease_that_is_renewed_in_time_is_never_silent_and_seldom_asked_for() {
        for late in [0, 300, 999] {
            let (mut renewed, mut seen, mut asks) = (100_000, at(100_000, 100_000), 0);
            for now in 100_000..400_000 {
                if now >= renewed + 3_333 + late {
                    renewed = now;
                }
                let moment = Uptime::now_at(Duration::from_millis(now));
                if seen.is_due(moment) {
                    seen = at(renewed, now);
                    asks += 1;
                }
                assert_eq!(seen.unheard(moment), None, "{now}");
            }
            assert!(asks <= 300 / 2, "{asks}");
        }
    }

    #[test]
    fn a_lease_that_is_not_renewed_is_silent_after_half_of_its_time_and_ends_when_it_is_said() {
        let mut seen = at(100_000, 101_500);
        let mut known = None;
        for now in 101_500..111_000 {
            let moment = Uptime::now_at(Duration::from_millis(now));
            if seen.is_due(moment) && now < 110_000 {
                seen = at(100_000, now);
            }
            let unheard = seen.unheard(moment);
            assert!(unheard.is_some() || known.is_none(), "{now}");
            if let Some(Unheard { silent, left }) = unheard {
                known.get_or_insert(now);
                let since = now - u64::try_from(silent.as_millis()).unwrap();
                assert!((100_001..=101_000).contains(&since), "{since}");
                let ends = now + u64::try_from(left.as_millis()).unwrap();
                assert!(now >= 110_000 || (110_001..=111_000).contains(&ends), "{ends}");
            }
        }
        assert!((105_000..106_100).contains(&known.unwrap()), "{known:?}");
    }

    #[test]
    fn a_lease_that_is_renewed_again_is_not_silent_any_more() {
        let seen = at(100_000, 107_000);
        let now = Uptime::now_at(Duration::from_secs(108));
        assert!(seen.unheard(now).is_some() && seen.is_due(now));
        assert_eq!(at(107_900, 108_000).unheard(now), None);
    }
}
