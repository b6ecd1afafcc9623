//! Fencing tokens: how a resource refuses a writer that is too late.
//!
//! Between looking at its lock and writing, a process can be stopped for any time: swapped out, its
//! machine suspended. Meanwhile the lock may have become another's: here by `steal`, on etcd also by
//! a lease that has ended. No look at the lock can help, however late it is; but every grant of a
//! name has a larger number than the one before, and what is written to can remember the largest.
//!
//! `cargo run -p navlock --example fencing`, or between machines
//! `NAVLOCK_ETCD=127.0.0.1:2379 cargo run -p navlock --features etcd --example fencing`

use std::sync::{Mutex, MutexGuard};

use navlock::{Error, FencingToken, UserAgent};

/// What the lock protects: a file server, a table, a queue; anything that can keep one number more.
#[derive(Default)]
struct Report(Mutex<Content>);

#[derive(Default)]
struct Content {
    text: String,
    largest: Option<FencingToken>,
}

/// Somebody with this token has been there.
struct TooLate(FencingToken);

impl Report {
    /// Reading shows the token too: what was read under a lock is then overwritten by nobody who had
    /// it earlier.
    fn read(&self, token: FencingToken) -> Result<String, TooLate> {
        Ok(self.enter(token)?.text.clone())
    }

    fn write(&self, token: FencingToken, text: String) -> Result<(), TooLate> {
        self.enter(token)?.text = text;
        Ok(())
    }

    fn enter(&self, token: FencingToken) -> Result<MutexGuard<'_, Content>, TooLate> {
        let mut content = self.0.lock().expect("nobody panics in here");
        if let Some(largest) = content.largest.filter(|largest| *largest > token) {
            return Err(TooLate(largest));
        }
        content.largest = Some(token);
        Ok(content)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let (slow, quick) =
        (machine().await?.lock_manager("my-app"), machine().await?.lock_manager("my-app"));
    let report = Report::default();

    let guard = slow.lock("report").await?;
    let late = guard.fencing_token();
    let text = report.read(late).unwrap_or_default();
    assert!(!guard.is_lost());
    println!("slow:  I hold the lock, with token {late}; I have looked. Now I am stopped.");

    // Nobody hears of it any more, so somebody takes the lock away.
    let thief = quick.lock("report").steal().await?;
    let token = thief.fencing_token();
    println!("quick: I have taken the lock, with token {token}.");
    let written = report.read(token).and_then(|text| report.write(token, text + "quick was here"));
    assert!(written.is_ok(), "nobody has a larger token");
    println!("quick: I have written.");
    drop(thief);

    match report.write(late, text + "slow was here") {
        Ok(()) => unreachable!("its token is the smaller one"),
        Err(TooLate(largest)) => {
            println!("slow:  I go on and write. It is refused: {late} is less than {largest}.");
        }
    }
    println!("slow:  I look at my lock again: it was lost: {}.", guard.lost().await);
    println!("what is written: {:?}", report.0.lock().expect("nobody panics in there").text);
    Ok(())
}

/// A machine: with etcd one that could be anywhere, else a part of this process.
async fn machine() -> Result<UserAgent, Error> {
    #[cfg(feature = "etcd")]
    if let Ok(endpoint) = std::env::var("NAVLOCK_ETCD") {
        return navlock::etcd(navlock::EtcdOptions::new([endpoint])).await;
    }
    Ok(navlock::in_process())
}
