//! Renewing leases, and looking after those of others.

use std::time::Duration;

use navlock_machines::{
    call_failure::Failure,
    clock::Uptime,
    key_store::LeaseEvent,
    lease::{Renewal, pause},
    load::about,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    LOGS,
    messages::{LeaseState, Renewed, quoted, text},
    postgres::{Observed, Own, Postgres, joined, lock},
};

/// A lease whose keys are kept here, until this is dropped.
struct KeptLease<'a>(&'a Postgres, i64);

impl Drop for KeptLease<'_> {
    fn drop(&mut self) {
        self.0.kept().let_go(self.1);
        lock(&self.0.0.observed).retain(|(by, _), _| *by != self.1);
    }
}

impl Postgres {
    /// See [`KeyStore::keep`](navlock_machines::key_store::KeyStore::keep).
    pub(crate) async fn keep_lease(
        &self,
        lease: i64,
        mailbox: Vec<u8>,
        time_to_live: Option<Duration>,
        wanted: &Notify,
        tell: impl Fn(LeaseEvent),
    ) {
        let _kept = KeptLease(self, lease);
        // What stands under another connection's lease has to be known here, so that it can be put back, before
        // anybody goes on with it.
        let mut is_known = time_to_live.is_some();
        let mut perhaps_lost = self.0.recovers.subscribe();
        let again = self.again();
        let mailbox = text(&mailbox).unwrap_or_default().to_owned();
        self.say(Own::Mailbox(mailbox.clone()));
        let mut due = Instant::now() + time_to_live.map_or(Duration::ZERO, pause);
        loop {
            tokio::select! {
                () = sleep_until(due) => {}
                () = wanted.notified() => {}
                _ = perhaps_lost.changed() => sleep(about(again / 5)).await,
            }
            let sent = Uptime::now();
            let seen: Vec<_> = lock(&self.0.seen).iter().copied().collect();
            let renewed = match self.renew(lease, &mailbox, &seen).await {
                Ok(renewed) => renewed,
                Err(failure) => {
                    tracing::debug!(target: LOGS, lease, ?failure, "a lease could not be renewed yet");
                    due = Instant::now() + about(again);
                    continue;
                }
            };
            if renewed.recovers {
                self.see_through();
            }
            let time_to_live = Duration::from_millis(renewed.time_to_live.unwrap_or_default());
            if !is_known && renewed.lease == Some(LeaseState::Complete) {
                let _gate = self.0.gate.read().await;
                is_known = self.learn(lease, time_to_live).await.is_ok();
            }
            match renewed.lease {
                None => {
                    tracing::warn!(target: LOGS, lease, "PostgreSQL does not know a lease any more");
                    return tell(LeaseEvent::Gone);
                }
                Some(LeaseState::Incomplete) => {
                    let put_back = is_known && self.put_back(renewed.stamp.era).await.is_ok();
                    due = Instant::now() + if put_back { Duration::ZERO } else { about(again) };
                }
                Some(LeaseState::Complete) if !is_known => due = Instant::now() + about(again),
                Some(LeaseState::Complete) => {
                    let asked = renewed.mailbox.iter().map(|key| key.clone().into_bytes());
                    tell(LeaseEvent::Renewed(Renewal { sent, time_to_live }, asked.collect()));
                    due = Instant::now() + pause(time_to_live);
                }
            }
            due = due.min(self.look_after(lease, &seen, &renewed));
        }
    }

    /// Renews a lease, if there is one of this number, and looks at those of others.
    pub(crate) async fn renew(
        &self,
        lease: i64,
        mailbox: &str,
        seen: &[i64],
    ) -> Result<Renewed, Failure> {
        let call = format!("renew({lease}, {}, '{{{}}}')", quoted(mailbox), joined(seen));
        self.0.renewals.call(&call, self.time()).await
    }

    /// Takes in how often the leases of others were renewed, and ends those that were not renewed for as long as they
    /// last, by this machine's clock. Returns when to look again.
    pub(crate) fn look_after(&self, own: i64, asked: &[i64], renewed: &Renewed) -> Instant {
        let now = Uptime::now();
        let mut next = Instant::now() + Duration::from_secs(3600);
        let is_told = |lease: &i64| renewed.others.iter().any(|(other, ..)| other == lease);
        // Others may have been seen since it was asked.
        lock(&self.0.seen).retain(|lease| !asked.contains(lease) || is_told(lease));
        let mut observed = lock(&self.0.observed);
        observed.retain(|(by, lease), _| *by != own || is_told(lease));
        for &(lease, renewals, millis) in &renewed.others {
            let time_to_live = Duration::from_millis(millis);
            let renewals = (renewed.stamp.era, renewals);
            let new = Observed { renewals, since: now, time_to_live };
            let known = observed.entry((own, lease)).or_insert(new);
            if known.renewals != renewals {
                *known = new;
            }
            let silent = known.since.elapsed();
            if silent >= known.time_to_live {
                if !lock(&self.0.ending).insert(lease) {
                    continue;
                }
                let store = self.clone();
                // Nobody's renewal waits for that.
                tokio::spawn(async move {
                    if let Ok(true) = store.end_lease(lease, Some(renewals)).await {
                        tracing::info!(target: LOGS, lease, "a machine was silent for as long as its lease lasts");
                    }
                    lock(&store.0.ending).remove(&lease);
                });
            } else if silent > known.time_to_live / 2 {
                next = next.min(Instant::now() + known.time_to_live.saturating_sub(silent));
            }
        }
        next
    }
}
