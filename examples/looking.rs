//! Seeing what goes on: who takes which lock and for how long, and who waits for whom. Whoever works does
//! not know that somebody looks, and pays nothing for it while nobody does.
//!
//! `cargo run -p navlock --example looking`

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use navlock::{
    AgentInfo, Error, LockManager,
    look::{Change, LookOptions, News, tree},
};

fn main() -> Result<(), Error> {
    let user_agent = navlock::in_process();
    let options = LookOptions::default().bucket("my-app");
    let mut looker = user_agent.look(options).expect("this process keeps the locks");
    // What there is before anything happens: nothing.
    assert_eq!(looker.next(None)?, Some(News::Anew { missed: 0 }));

    let work = |why: &'static str, millis: u64| {
        let locks = user_agent.lock_manager("my-app");
        describe(&locks, why);
        thread::spawn(move || {
            let guard = locks.lock("db").blocking()?;
            thread::sleep(Duration::from_millis(millis));
            drop(guard);
            Ok::<(), Error>(())
        })
    };
    let workers = [work("backup", 50), work("import", 20), work("report", 20)];

    let mut since = HashMap::new();
    while since.len() < workers.len() || !looker.overview().queues.is_empty() {
        let Some(News::Events(events)) = looker.next(None)? else { continue };
        for event in events {
            match event.change {
                Change::Granted { entry, .. } => {
                    since.insert(entry.id, event.at);
                }
                Change::Released { name, id } => {
                    let held = event.at - since[&id];
                    println!("{} was held for {} ms", name.name, held.as_millis());
                }
                _ => {}
            }
        }
        for root in tree(looker.overview()) {
            let held = root.rows[0].entry;
            let agent = looker.overview().info(held.id.client_id).cloned().unwrap_or_default();
            let age = held.age(Instant::now()).as_millis();
            println!("{} keeps {} waiting, for {age} ms now", agent.why, root.blocks);
        }
    }
    for worker in workers {
        worker.join().expect("it did not panic")?;
    }
    Ok(())
}

/// Says what this agent is at, to those who look.
fn describe(locks: &LockManager, why: &str) {
    let mut info = AgentInfo::default();
    why.clone_into(&mut info.why);
    locks.describe(&info);
}
