//! Renewing leases, looking after those of others, and the way back after a crash.

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
    store::{Own, Postgres, joined, lock},
};

/// What is seen of another machine's lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    renewals: i64,
    /// Since when it was not renewed, as far as is known: when the first answer was here that has told this number.
    since: Uptime,
    time_to_live: Duration,
}

/// A lease whose keys are kept here, until this is dropped.
struct Kept<'a>(&'a Postgres, i64);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.kept().let_go(self.1);
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
        self.kept().keep(lease);
        let _kept = Kept(self, lease);
        // What stands under another connection's lease has to be known here, to be put back.
        let mut is_known = time_to_live.is_some();
        let times = &self.0.options.keeper.times;
        let again = (times.time_to_live / 20).min(Duration::from_millis(500));
        let mailbox = text(&mailbox).unwrap_or_default().to_owned();
        self.say(Own::Mailbox(mailbox.clone()));
        let mut due = Instant::now() + time_to_live.map_or(Duration::ZERO, pause);
        // When the present recovery was first seen, and its era.
        let mut recovery: Option<(i64, Uptime)> = None;
        loop {
            tokio::select! {
                () = sleep_until(due) => {}
                () = wanted.notified() => {}
                () = self.0.recovers.notified() => sleep(about(again / 5)).await,
            }
            if !is_known {
                is_known = self.under_of(lease).await;
            }
            let sent = Uptime::now();
            let renewed = match self.renew(lease, &mailbox).await {
                Ok(renewed) => renewed,
                Err(failure) => {
                    tracing::debug!(target: LOGS, lease, ?failure, "a lease could not be renewed yet");
                    due = Instant::now() + about(again);
                    continue;
                }
            };
            let time_to_live = Duration::from_millis(renewed.time_to_live.unwrap_or_default());
            match renewed.lease {
                None => {
                    tracing::warn!(target: LOGS, lease, "PostgreSQL does not know a lease any more");
                    return tell(LeaseEvent::Gone);
                }
                Some(LeaseState::Incomplete) => {
                    let put_back = self.put_back().await;
                    due = Instant::now()
                        + if put_back.is_ok() { Duration::ZERO } else { about(again) };
                }
                Some(LeaseState::Complete) => {
                    let asked = renewed.mailbox.iter().map(|key| key.clone().into_bytes());
                    tell(LeaseEvent::Renewed(Renewal { sent, time_to_live }, asked.collect()));
                    due = Instant::now() + pause(time_to_live);
                }
            }
            due = due.min(self.look_after(&renewed).await);
            if renewed.recovers {
                let era = renewed.stamp.era;
                let begun = match recovery {
                    Some((of, begun)) if of == era => begun,
                    _ => Uptime::now(),
                };
                recovery = Some((era, begun));
                let longest = Duration::from_millis(renewed.longest);
                let has_waited = renewed.is_unsure && begun.elapsed() >= longest;
                let _ = self.end_recovery(has_waited).await;
                due = due.min(Instant::now() + about(again));
            }
        }
    }

    async fn under_of(&self, lease: i64) -> bool {
        use navlock_machines::key_store::KeyStore;
        self.under(lease).await.is_ok()
    }

    async fn renew(&self, lease: i64, mailbox: &str) -> Result<Renewed, Failure> {
        let seen: Vec<_> = lock(&self.0.seen).iter().copied().collect();
        let call = format!("renew({lease}, {}, '{{{}}}')", quoted(mailbox), joined(&seen));
        // A renewal that is late still counts, from the moment at which it was sent.
        let time = pause(self.0.options.keeper.times.time_to_live);
        self.0.renewals.call(&call, time).await
    }

    /// Takes in how often the leases of others were renewed, and ends those that were not renewed for as long as they
    /// last, by this machine's clock. Returns when to look again.
    async fn look_after(&self, renewed: &Renewed) -> Instant {
        let now = Uptime::now();
        let mut over = Vec::new();
        let mut next = Instant::now() + Duration::from_secs(3600);
        {
            let mut observed = lock(&self.0.observed);
            let mut seen = lock(&self.0.seen);
            seen.retain(|lease| renewed.others.iter().any(|(other, ..)| other == lease));
            observed.retain(|lease, _| renewed.others.iter().any(|(other, ..)| other == lease));
            for &(lease, renewals, millis) in &renewed.others {
                let time_to_live = Duration::from_millis(millis);
                let new = Observed { renewals, since: now, time_to_live };
                let known = observed.entry(lease).or_insert(new);
                if known.renewals != renewals {
                    *known = new;
                }
                let silent = known.since.elapsed();
                if silent >= known.time_to_live {
                    over.push((lease, renewals));
                } else if silent > known.time_to_live / 2 {
                    next = next.min(Instant::now() + (known.time_to_live - silent));
                }
            }
        }
        for (lease, renewals) in over {
            if let Ok(true) = self.end_lease(lease, Some(renewals)).await {
                tracing::info!(target: LOGS, lease, "a machine was silent for as long as its lease lasts");
            }
        }
        next
    }
}
