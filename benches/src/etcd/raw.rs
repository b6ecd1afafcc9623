//! The floors: the calls of etcd that nobody who locks with it can do without.

use std::{sync::mpsc, thread, time::Instant};

use navlock_etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp, WatchOptions};

use super::{Place, TIME_TO_LIVE, each, median, micros, on_a_runtime};

/// A lease, as all locks have one.
pub(super) async fn lease(client: &mut Client) -> Result<i64, navlock_etcd_client::Error> {
    let seconds = i64::try_from(TIME_TO_LIVE.as_secs()).unwrap_or(i64::MAX);
    Ok(client.lease_grant(seconds).await?.id())
}

/// A transaction that puts a key if it is not there, and its deletion.
pub(super) fn acquire(place: &Place<'_>) -> Result<f64, String> {
    on_a_runtime(async {
        let mut client = Client::connect([place.endpoint], None).await?;
        let lease = lease(&mut client).await?;
        let mut since = Instant::now();
        for nth in 0..=place.count {
            if nth == 1 {
                // The first has opened the connection.
                since = Instant::now();
            }
            let name = &*place.name;
            let free = Compare::create_revision(name, CompareOp::Equal, 0);
            let put = TxnOp::put(name, "", Some(PutOptions::new().with_lease(lease)));
            client.txn(Txn::new().when([free]).and_then([put])).await?;
            client.delete(name, None).await?;
        }
        let time = since.elapsed();
        client.lease_revoke(lease).await?;
        Ok(each(time, place.count))
    })
}

/// From the call that deletes a key to its event at another client, whose watch is open.
pub(super) fn handover(place: &Place<'_>) -> Result<f64, String> {
    let (tell, told) = mpsc::channel();
    let (endpoint, name, count) = (place.endpoint.to_owned(), place.name.clone(), place.count);
    let watcher = thread::spawn(move || {
        on_a_runtime(async {
            let mut client = Client::connect([endpoint], None).await?;
            let options = WatchOptions::new().with_progress_notify();
            let mut stream = client.watch(name, Some(options)).await?;
            let _ = tell.send(Instant::now());
            let mut left = 2 * (count + 1);
            while left > 0 {
                let Some(events) = stream.message().await? else { break };
                for _ in events.events() {
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
        // That it watches.
        let mut all_heard = hear().is_some();
        for nth in 0..=count {
            client.put(&*place.name, "", None).await?;
            all_heard &= hear().is_some();
            thread::sleep(wait);
            let since = Instant::now();
            client.delete(&*place.name, None).await?;
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
