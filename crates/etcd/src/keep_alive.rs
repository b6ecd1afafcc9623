//! Keeping a lease alive.

use std::time::Duration;

use tokio::{
    sync::Notify,
    time::{self, sleep},
};

use crate::{
    LOGS,
    clock::Uptime,
    lease::{LeaseEvent, Renewal, pause},
    mailbox,
    members::Members,
};

/// Keeps a lease alive as long as this future is polled and etcd keeps the lease. A new lease is
/// good for this long. A lease of another connection is renewed at once, and any lease whenever that is
/// `wanted`. Each renewal is followed by a reading of the [mailbox], which has this prefix.
pub(crate) async fn keep(
    members: Members,
    (id, mailbox): (i64, Vec<u8>),
    time_to_live: Option<Duration>,
    timeout: Duration,
    wanted: &Notify,
    tell: impl Fn(LeaseEvent),
) {
    // What was wanted during a pause needs no pause after it.
    let rest = async |time| drop(time::timeout(time, wanted.notified()).await);
    let is_new = time_to_live.is_some();
    let time_to_live = match time_to_live {
        Some(time_to_live) => time_to_live,
        None => match granted(&members, id, timeout).await {
            Some(time_to_live) => time_to_live,
            None => return tell(LeaseEvent::Gone),
        },
    };
    let pause = pause(time_to_live);
    let again = (time_to_live / 20).min(Duration::from_millis(500));
    let mut wait = if is_new { pause } else { Duration::ZERO };
    loop {
        rest(wait).await;
        let member = members.best(timeout).await;
        let mut client = member.client.clone();
        let sent = Uptime::now();
        let opened = async {
            let (keeper, stream, renewed) = client.lease_keep_alive(id).await?;
            let asked = mailbox::read(&mut client, &mailbox, &renewed).await?;
            Ok((keeper, stream, asked))
        };
        let (mut keeper, mut stream, asked) = match time::timeout(timeout, opened).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(navlock_etcd_client::Error::LeaseKeepAliveError(_))) => {
                tracing::warn!(target: LOGS, lease = id, "etcd does not know a lease any more");
                return tell(LeaseEvent::Gone);
            }
            Ok(Err(_)) | Err(_) => {
                tracing::debug!(target: LOGS, lease = id, "a lease could not be renewed yet");
                members.avoid(member.generation);
                wait = again;
                continue;
            }
        };
        tell(LeaseEvent::Renewed(Renewal { sent, time_to_live }, asked));
        loop {
            rest(pause).await;
            let sent = Uptime::now();
            let answer = time::timeout(timeout, async {
                keeper.keep_alive().await?;
                let answer = stream.message().await?.ok_or(navlock_etcd_client::Error::Closed)?;
                if answer.ttl <= 0 {
                    return Ok(None);
                }
                mailbox::read(&mut client, &mailbox, &answer).await.map(Some)
            });
            match answer.await {
                Ok(Ok(Some(asked))) => {
                    tell(LeaseEvent::Renewed(Renewal { sent, time_to_live }, asked));
                }
                Ok(Ok(None)) => {
                    tracing::warn!(target: LOGS, lease = id, "etcd does not know a lease any more");
                    return tell(LeaseEvent::Gone);
                }
                // The stream is given up, so that a late answer is not mistaken for the answer to
                // the next renewal.
                Ok(Err(_)) | Err(_) => {
                    tracing::debug!(target: LOGS, lease = id, "a lease could not be renewed yet");
                    members.avoid(member.generation);
                    break;
                }
            }
            if members.current().generation != member.generation {
                break;
            }
        }
        wait = Duration::ZERO;
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
        members.avoid(member.generation);
        sleep(Duration::from_millis(100)).await;
    }
}
