//! Etcd's own lock service, called by its client and as a command.

use std::{
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Instant,
};

use navlock_etcd_client::Client;

use super::{
    cases::{Place, TIME_TO_LIVE, each, median, micros, on_a_runtime},
    lock_calls::{lock, unlock},
    raw::lease,
};

/// Takes and releases a free lock.
pub(super) fn acquire(place: &Place<'_>) -> Result<f64, String> {
    on_a_runtime(async {
        let mut client = Client::connect([place.endpoint], None).await?;
        let lease = lease(&mut client).await?;
        let mut since = Instant::now();
        for nth in 0..=place.count {
            if nth == 1 {
                since = Instant::now();
            }
            let key = lock(&client, &place.name, lease).await?;
            unlock(&client, key).await?;
        }
        let time = since.elapsed();
        client.lease_revoke(lease).await?;
        Ok(each(time, place.count))
    })
}

/// `etcdctl lock NAME true`, from start to end.
pub(super) fn command(place: &Place<'_>) -> Result<f64, String> {
    let since = Instant::now();
    for _ in 0..place.count {
        let status = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", place.endpoint))
            .args(["lock", &place.name, "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        let status = status.map_err(|error| {
            format!("cannot start etcdctl: {error}; install it (Debian: etcd-client)")
        })?;
        if !status.success() {
            return Err(format!("etcdctl failed: {status}"));
        }
    }
    Ok(each(since.elapsed(), place.count))
}

/// The time from the call that releases the lock to the grant to another client, which has waited.
pub(super) fn handover(place: &Place<'_>) -> Result<f64, String> {
    let (ask, asked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let (endpoint, name) = (place.endpoint.to_owned(), place.name.clone());
    let heir = thread::spawn(move || {
        on_a_runtime(async {
            let mut client = Client::connect([endpoint], None).await?;
            let lease = lease(&mut client).await?;
            while asked.recv().is_ok() {
                let key = lock(&client, &name, lease).await?;
                let granted = Instant::now();
                unlock(&client, key).await?;
                let _ = tell.send(granted);
            }
            client.lease_revoke(lease).await
        })
    });
    let samples = on_a_runtime(async {
        let mut client = Client::connect([place.endpoint], None).await?;
        let lease = lease(&mut client).await?;
        let mut samples = Vec::new();
        for nth in 0..=place.count {
            let key = lock(&client, &place.name, lease).await?;
            let _ = ask.send(());
            thread::sleep(place.wait);
            let since = Instant::now();
            unlock(&client, key).await?;
            match told.recv_timeout(TIME_TO_LIVE) {
                Ok(granted) if nth > 0 => samples.push(micros(granted - since)),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        drop(ask);
        client.lease_revoke(lease).await?;
        Ok(samples)
    })?;
    match heir.join() {
        Ok(Ok(_)) if samples.len() == place.count => Ok(median(samples)),
        Ok(Err(error)) => Err(error),
        _ => Err("the lock never changed hands".to_owned()),
    }
}
