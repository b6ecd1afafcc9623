//! The floors: the calls of etcd that no lock on etcd can do without.

use std::{sync::mpsc, thread, time::Instant};

use navlock_etcd_client::{
    Client, Compare, CompareOp, DeleteRangeRequest, EventType, PutRequest, RangeRequest, Txn,
    TxnOp, WatchCreateRequest,
};
use tokio::{runtime::Runtime, sync::mpsc::unbounded_channel};

use super::cases::{Place, TIME_TO_LIVE, each, median, micros, on_a_runtime};

/// A lease, as all locks have one.
pub(super) async fn lease(client: &mut Client) -> Result<i64, navlock_etcd_client::Error> {
    let seconds = i64::try_from(TIME_TO_LIVE.as_secs()).unwrap_or(i64::MAX);
    Ok(client.lease_grant(seconds).await?.id)
}

/// How often etcd was written to.
pub(super) fn revision(endpoint: &str) -> Result<i64, String> {
    on_a_runtime(async {
        let answer =
            Client::connect([endpoint], None).await?.get(RangeRequest::key("nothing")).await?;
        Ok(answer.header.unwrap_or_default().revision)
    })
}

/// The moments at which another client, which watches keys, hears that they are deleted.
pub(super) struct Releases {
    heard: mpsc::Receiver<Instant>,
    // The watch ends with the runtime.
    _runtime: Runtime,
}

impl Releases {
    /// The releases of all exclusive locks of navlock.
    pub(super) fn of_locks(endpoint: &str) -> Result<Self, String> {
        Self::of(endpoint, "navlock/", |key| {
            let at = key.windows(5).position(|part| part == b"/h/x/");
            // The key by which a machine owns a name does not count.
            at.is_some_and(|at| !key[at + 5..].starts_with(b"o-"))
        })
    }

    /// The releases of keys that begin with `prefix`, and that `is_meant` accepts.
    fn of(endpoint: &str, prefix: &str, is_meant: fn(&[u8]) -> bool) -> Result<Self, String> {
        let (endpoint, prefix) = (endpoint.to_owned(), prefix.to_owned());
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (tell, heard) = mpsc::channel();
        runtime.spawn(async move {
            let mut client = Client::connect([endpoint], None).await?;
            let mut stream = client.watch(WatchCreateRequest::prefix(prefix)).await?;
            // Says that the watch is there.
            let _ = tell.send(Instant::now());
            while let Some(answer) = stream.message().await? {
                for event in &answer.events {
                    let is_end = event.event_type() == EventType::Delete;
                    if is_end && event.kv.as_ref().is_some_and(|kv| is_meant(&kv.key)) {
                        let _ = tell.send(Instant::now());
                    }
                }
            }
            Ok::<_, navlock_etcd_client::Error>(())
        });
        let releases = Self { heard, _runtime: runtime };
        releases.next()?;
        Ok(releases)
    }

    /// The next release.
    ///
    /// # Errors
    ///
    /// If there is no release in time.
    pub(super) fn next(&self) -> Result<Instant, String> {
        let heard = self.heard.recv_timeout(TIME_TO_LIVE);
        heard.map_err(|_| "nobody heard of a release".to_owned())
    }

    /// Forgets the releases until now.
    pub(super) fn forget(&self) {
        while self.heard.try_recv().is_ok() {}
    }
}

/// A transaction that puts a key if it is not there, and the key's deletion. With `is_heard`, each repetition
/// ends when another client has heard of the deletion.
pub(super) fn acquire(place: &Place<'_>, is_heard: bool) -> Result<f64, String> {
    let releases = is_heard.then(|| Releases::of(place.endpoint, &place.name, |_| true));
    let releases = releases.transpose()?;
    let (mut failed, releases) = (None, releases.as_ref());
    let measured = on_a_runtime(async {
        let mut client = Client::connect([place.endpoint], None).await?;
        let lease = lease(&mut client).await?;
        let mut since = Instant::now();
        for nth in 0..=place.count {
            if nth == 1 {
                // The first one has opened the connection, so it does not count.
                since = Instant::now();
            }
            let name = &*place.name;
            let free = Compare::create_revision(name, CompareOp::Equal, 0);
            let put = TxnOp::Put(PutRequest::new(name, "", lease));
            client.txn(Txn::new().when([free]).and_then([put])).await?;
            client.delete(DeleteRangeRequest::key(name)).await?;
            if let Some(Err(why)) = releases.map(Releases::next) {
                failed = Some(why);
                break;
            }
        }
        let time = since.elapsed();
        client.lease_revoke(lease).await?;
        Ok(each(time, place.count))
    })?;
    failed.map_or(Ok(measured), Err)
}

/// The same by a thread of its own, for another thread. The other thread is woken when the key is there, and
/// does not wait for the deletion.
pub(super) fn acquire_apart(place: &Place<'_>) -> Result<f64, String> {
    let releases = Releases::of(place.endpoint, &place.name, |_| true)?;
    let (ask, mut asked) = unbounded_channel::<Option<mpsc::Sender<()>>>();
    let (endpoint, name) = (place.endpoint.to_owned(), place.name.clone());
    let thread = thread::spawn(move || {
        on_a_runtime(async {
            let mut client = Client::connect([endpoint], None).await?;
            let lease = lease(&mut client).await?;
            while let Some(takes) = asked.recv().await {
                let Some(taken) = takes else {
                    client.delete(DeleteRangeRequest::key(&*name)).await?;
                    continue;
                };
                let free = Compare::create_revision(&*name, CompareOp::Equal, 0);
                let put = TxnOp::Put(PutRequest::new(&*name, "", lease));
                client.txn(Txn::new().when([free]).and_then([put])).await?;
                let _ = taken.send(());
            }
            client.lease_revoke(lease).await?;
            Ok(())
        })
    });
    let pair = || {
        let (tell, taken) = mpsc::channel();
        let _ = ask.send(Some(tell));
        taken.recv().map_err(|_| "the key was not had".to_owned())?;
        let _ = ask.send(None);
        releases.next()
    };
    let measured = pair().and_then(|_| {
        let since = Instant::now();
        (0..place.count).try_for_each(|_| pair().map(drop))?;
        Ok(each(since.elapsed(), place.count))
    });
    drop(ask);
    thread.join().map_err(|_| "the thread panicked".to_owned())??;
    measured
}

/// The time from the call that deletes a key to the event at another client, whose watch is open.
pub(super) fn handover(place: &Place<'_>) -> Result<f64, String> {
    let (tell, told) = mpsc::channel();
    let (endpoint, name, count) = (place.endpoint.to_owned(), place.name.clone(), place.count);
    let watcher = thread::spawn(move || {
        on_a_runtime(async {
            let mut client = Client::connect([endpoint], None).await?;
            let key = name.into();
            let watch = WatchCreateRequest { key, progress_notify: true, ..Default::default() };
            let mut stream = client.watch(watch).await?;
            let _ = tell.send(Instant::now());
            let mut left = 2 * (count + 1);
            while left > 0 {
                let Some(events) = stream.message().await? else { break };
                for _ in &events.events {
                    let _ = tell.send(Instant::now());
                    left -= 1;
                }
            }
            Ok(())
        })
    });
    let wait = place.wait;
    let measured = on_a_runtime(async {
        let mut client = Client::connect([place.endpoint], None).await?;
        let mut samples = Vec::new();
        let hear = || told.recv_timeout(TIME_TO_LIVE).ok();
        // Wait until the watch is there.
        let mut all_heard = hear().is_some();
        for nth in 0..=count {
            client.put(PutRequest::new(&*place.name, "", 0)).await?;
            all_heard &= hear().is_some();
            thread::sleep(wait);
            let since = Instant::now();
            client.delete(DeleteRangeRequest::key(&*place.name)).await?;
            match hear() {
                Some(seen) if nth > 0 => samples.push(micros(seen - since)),
                seen => all_heard &= seen.is_some(),
            }
        }
        Ok(all_heard.then_some(samples))
    })?;
    match (measured, watcher.join()) {
        (Some(samples), Ok(Ok(()))) => Ok(median(samples)),
        (_, Ok(Err(error))) => Err(error),
        _ => Err("the watch told nothing".to_owned()),
    }
}
