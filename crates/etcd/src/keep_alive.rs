//! Keeping a lease alive.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use navlock_etcd_client::Error;
use tokio::{
    sync::Notify,
    time::{self, Instant, sleep, sleep_until},
};

use crate::{
    LOGS,
    clock::Uptime,
    key_store::LeaseEvent,
    lease::{Renewal, pause},
    load::about,
    mailbox,
    members::Members,
};

/// Keeps a lease alive as long as this future is polled and etcd keeps the lease. A new lease is
/// good for this long. A lease of another connection is renewed at once, and any lease whenever that is
/// `wanted`. With each renewal the [mailbox] is read, which has this prefix.
///
/// If the answer to a keepalive is late, the next one is sent when the member answers other questions, or
/// another member is found that does. The late answer renews the lease all the same, from the moment on at
/// which it was asked for.
pub(crate) async fn keep(
    members: &Members,
    (id, mailbox): (i64, Vec<u8>),
    time_to_live: Option<Duration>,
    wanted: &Notify,
    tell: impl Fn(LeaseEvent),
) {
    let (timeout, is_new) = (members.call_timeout(), time_to_live.is_some());
    let time_to_live = match time_to_live {
        Some(time_to_live) => time_to_live,
        None => match granted(members, id, timeout).await {
            Some(time_to_live) => time_to_live,
            None => return tell(LeaseEvent::Gone),
        },
    };
    let pause = pause(time_to_live);
    let again = (time_to_live / 20).min(Duration::from_millis(500));
    let renew = async || {
        let member = members.best(timeout).await;
        let sent = Uptime::now();
        let mut client = member.client;
        let reader = client.clone();
        // Both are sent at once, so that an etcd that is slow is waited for once.
        let renewed = async {
            let both =
                tokio::try_join!(client.lease_keep_alive(id), mailbox::read(reader, &mailbox));
            let (renewed, asked) = both?;
            Ok(asked.is_in_term_of(&renewed).then_some(asked.keys))
        };
        // An answer that is as late as this renews nothing.
        let renewed = time::timeout(time_to_live, renewed).await;
        (sent, member.generation, renewed.unwrap_or(Err(Error::Closed)))
    };
    let mut running = FuturesUnordered::new();
    let mut due = Instant::now() + if is_new { pause } else { Duration::ZERO };
    let (mut generation, mut last, mut is_late) = (0, Uptime::default(), false);
    loop {
        tokio::select! {
            biased;
            Some((sent, generation, renewed)) = running.next() => {
                is_late = false;
                match renewed {
                    Ok(Some(asked)) if sent > last => {
                        last = sent;
                        // They would renew nothing any more, and say nothing of the member that is used now.
                        running.clear();
                        tell(LeaseEvent::Renewed(Renewal { sent, time_to_live }, asked));
                        due = Instant::now() + pause.saturating_sub(sent.elapsed());
                    }
                    // The mailbox was read with a later renewal as well.
                    Ok(Some(_)) => {}
                    // Another leader was elected meanwhile.
                    Ok(None) => due = Instant::now() + about(again),
                    Err(Error::LeaseKeepAliveError(_)) => {
                        tracing::warn!(target: LOGS, lease = id, "etcd does not know a lease any more");
                        return tell(LeaseEvent::Gone);
                    }
                    Err(_) => {
                        tracing::debug!(target: LOGS, lease = id, "a lease could not be renewed yet");
                        members.avoid(generation);
                        due = Instant::now() + about(again);
                    }
                }
                continue;
            }
            // The one that is on its way may not say how it is now.
            () = wanted.notified(), if running.is_empty() => {}
            () = members.changed(generation), if !running.is_empty() => {}
            // The member answers, and may have lost the keepalive.
            () = members.answers(generation), if is_late => {}
            () = sleep_until(due), if !is_late => {
                if !running.is_empty() {
                    tracing::debug!(target: LOGS, lease = id, "the answer to a keepalive is late");
                    is_late = true;
                    members.avoid(generation);
                    continue;
                }
            }
        }
        is_late = false;
        generation = members.current().generation;
        running.push(renew());
        due = Instant::now() + timeout;
    }
}

/// How long etcd keeps a lease each time that it is renewed; `None` if there is no such lease. The
/// connection that made the lease may have had other settings.
async fn granted(members: &Members, id: i64, timeout: Duration) -> Option<Duration> {
    loop {
        let member = members.best(timeout).await;
        let mut client = member.client.clone();
        if let Ok(Ok(lease)) = time::timeout(timeout, client.lease_time_to_live(id)).await {
            let seconds = u64::try_from(lease.granted_ttl).ok().filter(|_| lease.is_there());
            return seconds.map(Duration::from_secs);
        }
        members.doubt(member.generation);
        sleep(about(Duration::from_millis(100))).await;
    }
}
