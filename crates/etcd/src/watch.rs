//! The watch of a bucket.

use std::{sync::Arc, time::Duration};

use navlock_etcd_client::{EventType, WatchOptions};
use tokio::time::{sleep, timeout};

use crate::{
    LOGS,
    data::KeyValue,
    keys::BucketKeys,
    members::Members,
    mirror::{Event, Put},
    strays,
};

/// How long between two tries to watch.
const PAUSE: Duration = Duration::from_millis(100);

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Watched {
    /// It tells of all that happens from now on. What was before is to be listed.
    ///
    /// Not from the revision of a list on: a watch that begins in the past is served every 100 ms
    /// only, until it has caught up.
    Up,
    /// What happened, whole revisions.
    Events(Vec<Event>),
}

/// Watches a bucket for as long as this is polled. When the watch ends (etcd restarts, has no
/// leader, or has compacted what a slow watch had not been told), another one begins, with
/// [`Watched::Up`].
pub(crate) async fn watch(
    members: Members,
    keys: BucketKeys,
    patience: Duration,
    tell: impl Fn(Watched),
) {
    loop {
        let member = members.best(patience).await;
        let mut client = member.client.clone();
        let options = WatchOptions::new().with_prefix();
        let opened = timeout(patience, async {
            let mut stream = client.watch(keys.locks(), Some(options)).await.ok()?;
            let first = stream.message().await.ok()??;
            (first.created() && !first.canceled()).then_some(stream)
        });
        if let Ok(Some(mut stream)) = opened.await {
            tracing::debug!(target: LOGS, "a bucket is watched");
            tell(Watched::Up);
            loop {
                let response = tokio::select! {
                    response = stream.message() => response,
                    () = members.changed(member.term) => break,
                };
                let Ok(Some(response)) = response else {
                    members.avoid(member.term);
                    break;
                };
                if response.canceled() {
                    break;
                }
                let events: Vec<_> = response
                    .events()
                    .iter()
                    .filter_map(|event| {
                        let told = read(&keys, &event.kv()?.clone().into())?;
                        Some(match event.event_type() {
                            EventType::Put => told,
                            EventType::Delete => Event { put: None, ..told },
                        })
                    })
                    .collect();
                if !events.is_empty() {
                    tell(Watched::Events(events));
                }
            }
        } else {
            members.avoid(member.term);
        }
        sleep(PAUSE).await;
    }
}

/// What a key says that is there; `None` if it is none of ours.
///
/// What somebody else has written there is as good as gone: it is no lock any more, though it stands
/// in the way of some. See [`strays`](crate::strays).
pub(crate) fn read(keys: &BucketKeys, kv: &KeyValue) -> Option<Event> {
    let key = keys.parse(&kv.key)?;
    let is_ours = strays::of_bucket(keys, kv).is_none();
    let put = || Put { made: kv.made, lease: kv.lease, value: Arc::from(&*kv.value) };
    Some(Event { key, revision: kv.written, put: is_ours.then(put) })
}
