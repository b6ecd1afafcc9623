//! Many who wait for one lock. With navlock each is an agent of its own, and a quarter of them is at each of
//! four brokers, which are processes. With the lock service a quarter is on each of four connections, each
//! with a lease of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use navlock::{LockManager, UserAgent};
use navlock_etcd_client::{Client, RangeRequest, prefix_end};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    cases::{Place, each, on_a_runtime},
    lock_calls::{lock, unlock},
    raw::lease,
};
use crate::machine::Machine;

/// How many brokers there are, or connections.
const MACHINES: usize = 4;

/// How long the lock may be on its way through a crowd. A peer that is slower is measured by how far the lock
/// came.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long it may take until all wait.
const SETTLING: Duration = Duration::from_secs(40);

/// How long it takes at most until all waiters have their watches.
const WATCHES: Duration = Duration::from_millis(200);

/// The time from the release of a lock that all wait for until the last grant, one after the other or all at
/// once, for each waiter. Names are owned by the default, or never.
pub(super) fn navlock(place: &Place<'_>, is_shared: bool, owns: bool) -> Result<f64, String> {
    let keep_names = (!owns).then_some(0);
    let brokers: Result<Vec<_>, _> =
        (0..MACHINES).map(|_| Machine::on_etcd(place.endpoint, keep_names)).collect();
    let brokers = brokers?;
    let clients: Result<Vec<UserAgent>, _> =
        brokers.iter().map(|broker| broker.client(false)).collect();
    let clients = clients?;
    let own = clients[0].lock_manager("bench");
    let failed = |error: navlock::Error| error.to_string();
    let guard = own.lock(&*place.name).blocking().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut crowd = JoinSet::new();
        for client in clients.iter().cycle().take(place.count) {
            let locks: LockManager = client.lock_manager("bench");
            let name = place.name.clone();
            crowd.spawn(async move {
                let request = locks.lock(name);
                let guard = if is_shared { request.shared().await? } else { request.await? };
                let granted = Instant::now();
                // Shared locks are kept until all have theirs.
                Ok::<_, navlock::Error>((granted, is_shared.then_some(guard), locks))
            });
        }
        let all_wait = timeout(SETTLING, async {
            while own.query().await.map_err(failed)?.pending.len() < place.count {
                sleep(Duration::from_millis(5)).await;
            }
            Ok::<_, String>(())
        });
        all_wait.await.map_err(|_| "they do not all wait".to_owned())??;
        sleep(WATCHES).await;
        let since = Instant::now();
        drop(guard);
        let (mut last, mut granted, mut kept) = (since, 0, Vec::new());
        let through = timeout(TIMEOUT, async {
            while let Some(done) = crowd.join_next().await {
                let done = done.map_err(|error| error.to_string())?;
                let (at, guard, locks) = done.map_err(failed)?;
                last = last.max(at);
                granted += 1;
                kept.push((guard, locks));
            }
            Ok::<_, String>(())
        });
        if let Ok(result) = through.await {
            result?;
        } else {
            last = Instant::now();
        }
        if granted == 0 { Err(nobody()) } else { Ok(each(last - since, granted)) }
    })
}

fn nobody() -> String {
    format!("nobody was granted within {TIMEOUT:?}")
}

/// The same with the lock service, which has exclusive locks only.
pub(super) fn lock_service(place: &Place<'_>) -> Result<f64, String> {
    let measured = on_a_runtime(async {
        let mut clients = Vec::new();
        for _ in 0..MACHINES {
            clients.push(Client::connect([place.endpoint], None).await?);
        }
        let mut own = clients[0].clone();
        let mut leases = vec![lease(&mut own).await?];
        let key = lock(&own, &place.name, leases[0]).await?;
        let granted = Arc::new(AtomicUsize::new(0));
        let mut crowd = JoinSet::new();
        for client in clients.iter().cycle().take(place.count) {
            let (mut client, name) = (client.clone(), place.name.clone());
            let lease = lease(&mut client).await?;
            leases.push(lease);
            let granted = Arc::clone(&granted);
            crowd.spawn(async move {
                let key = lock(&client, &name, lease).await?;
                let at = Instant::now();
                granted.fetch_add(1, Ordering::Relaxed);
                unlock(&client, key).await?;
                Ok::<_, navlock_etcd_client::Error>(at)
            });
        }
        let prefix = format!("{}/", place.name);
        let settled = Instant::now();
        loop {
            let all = RangeRequest::range(&*prefix, prefix_end(prefix.as_bytes()));
            let count = own.get(RangeRequest { count_only: true, ..all }).await?.count;
            if usize::try_from(count).is_ok_and(|count| count > place.count) {
                break;
            }
            if settled.elapsed() > SETTLING {
                return Ok(None);
            }
            sleep(Duration::from_millis(5)).await;
        }
        // Their watches on the waiters before them must be there too.
        sleep(WATCHES).await;
        let since = Instant::now();
        unlock(&own, key).await?;
        let mut last = since;
        let through = timeout(TIMEOUT, async {
            while let Some(Ok(done)) = crowd.join_next().await {
                last = last.max(done?);
            }
            Ok::<_, navlock_etcd_client::Error>(())
        });
        if let Ok(result) = through.await {
            result?;
        } else {
            last = Instant::now();
        }
        crowd.shutdown().await;
        for lease in leases {
            own.lease_revoke(lease).await?;
        }
        Ok(Some((last - since, granted.load(Ordering::Relaxed))))
    })?;
    match measured {
        Some((_, 0)) => Err(nobody()),
        Some((time, granted)) => Ok(each(time, granted)),
        None => Err("they do not all wait".to_owned()),
    }
}
