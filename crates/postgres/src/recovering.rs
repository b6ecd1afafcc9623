//! The way back after PostgreSQL has lost its memory.

use std::{sync::atomic::Ordering, time::Duration};

use navlock_machines::{call_failure::Failure, clock::Uptime, load::about};
use tokio::time::sleep;

use crate::{
    LOGS,
    messages::{Renewed, Stamp, quoted},
    postgres::{Postgres, lock},
};

/// The number of no lease.
const NONE: i64 = 0;

impl Postgres {
    /// How long to wait before something is tried again, about.
    pub(crate) fn again(&self) -> Duration {
        (self.0.options.keeper.times.time_to_live / 20).min(Duration::from_millis(500))
    }

    /// Puts back what stands under our leases, in this era. Nothing that was done before it is told any more once it
    /// has begun.
    pub(crate) async fn put_back(&self, era: i64) -> Result<(), Failure> {
        let _gate = self.0.gate.write().await;
        let (leases, keys) = self.kept().json();
        tracing::warn!(target: LOGS, %leases, "PostgreSQL has lost its memory: the keys under our leases are put back");
        let (leases, keys) = (quoted(&leases.to_string()), quoted(&keys.to_string()));
        let _: Stamp = self.call(&format!("put_back({era}, {leases}, {keys})")).await?;
        Ok(())
    }

    /// Sees the present recovery through, if nobody here does so yet: ends the leases of machines that do not put back
    /// their keys, and then the recovery. Who has no lease waits for its end as well, and may be the only one.
    pub(crate) fn see_through(&self) {
        if self.0.sees_through.swap(true, Ordering::Relaxed) {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            // The era, and when its recovery was first seen.
            let mut seen = None;
            loop {
                match store.renew(NONE, "", &[]).await {
                    Ok(renewed) if !renewed.recovers => break,
                    Ok(renewed) => store.advance(&renewed, &mut seen).await,
                    // Whoever needs the store is told.
                    Err(Failure::Refused(_)) => break,
                    Err(failure) => {
                        tracing::debug!(target: LOGS, ?failure, "a recovery is not seen");
                    }
                }
                sleep(about(store.again())).await;
            }
            lock(&store.0.observed).retain(|(by, _), _| *by != NONE);
            store.0.sees_through.store(false, Ordering::Relaxed);
        });
    }

    async fn advance(&self, renewed: &Renewed, seen: &mut Option<(i64, Uptime)>) {
        let era = renewed.stamp.era;
        let (_, begun) = *seen.insert(match *seen {
            Some(known) if known.0 == era => known,
            _ => (era, Uptime::now()),
        });
        self.look_after(NONE, &[], renewed);
        // Those who keep the longest leases may be unknown there.
        let longest = self.0.options.keeper.times.time_to_live;
        let longest = Duration::from_millis(renewed.longest).max(longest);
        let has_waited = renewed.is_unsure && begun.elapsed() >= longest;
        let _: Result<Stamp, _> = self.call(&format!("end_recovery({era}, {has_waited})")).await;
    }
}
