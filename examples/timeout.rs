//! Giving up: a request whose future is dropped has left its queue, so a timeout is whatever your
//! executor has. A thread without an executor has `blocking_timeout`.
//!
//! `cargo run -p navlock --example timeout`

use std::time::Duration;

use navlock::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let locks = navlock::in_process().lock_manager("my-app");
    let holder = locks.lock("printer").await?;

    let print = locks.request("printer", async |_lock| println!("printing"));
    match tokio::time::timeout(Duration::from_millis(50), print).await {
        Ok(result) => result?,
        Err(_) => println!("the printer was busy for 50 ms; not printing"),
    }
    assert!(locks.query().await?.pending.is_empty(), "who gave up does not wait any more");

    let other = locks.clone();
    let blocking = tokio::task::spawn_blocking(move || {
        other.lock("printer").blocking_timeout(Duration::from_millis(50)).map(drop)
    });
    let answer = blocking.await.expect("the thread did not panic");
    assert!(matches!(answer, Err(Error::TimedOut(_))));

    drop(holder);
    locks.request("printer", async |_lock| println!("printing now")).await
}
