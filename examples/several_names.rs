//! Several names at once: transfers between accounts, each of which locks both of its accounts.
//! Taken one after the other in whatever order the transfer names them, two opposite transfers
//! would wait for each other for ever; `request_all` takes them in the one order that all use.
//!
//! `cargo run -p navlock --example several_names`

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

const ACCOUNTS: [&str; 3] = ["alice", "bob", "carol"];

#[tokio::main]
async fn main() -> Result<(), navlock::Error> {
    let locks = navlock::in_process().lock_manager("bank");
    let balances = Arc::new([AtomicI64::new(100), AtomicI64::new(100), AtomicI64::new(100)]);

    let transfers: Vec<_> = (0..300)
        .map(|number| {
            let (from, to) = (number % 3, (number + 1 + number / 3 % 2) % 3);
            let (locks, balances) = (locks.clone(), Arc::clone(&balances));
            tokio::spawn(async move {
                let names = [ACCOUNTS[from], ACCOUNTS[to]];
                let transfer = locks.request_all(names, async |_locks| {
                    // Read, wait, write: only the locks make this one step.
                    let (has, gets) = (balances[from].load(Relaxed), balances[to].load(Relaxed));
                    tokio::task::yield_now().await;
                    balances[from].store(has - 1, Relaxed);
                    balances[to].store(gets + 1, Relaxed);
                });
                transfer.await
            })
        })
        .collect();
    for transfer in transfers {
        transfer.await.expect("no transfer panicked")?;
    }

    let balances: Vec<_> = balances.iter().map(|balance| balance.load(Relaxed)).collect();
    println!("after 300 transfers: {balances:?}");
    assert_eq!(balances.iter().sum::<i64>(), 300, "money was made or lost");
    Ok(())
}
