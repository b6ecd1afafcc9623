//! Primary election: one candidate leads, the others wait; when the primary dies, the next one
//! leads at once. The lock's name is the office, and holding it is having it.
//!
//! `cargo run -p navlock --example election`

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
};

use navlock::LockManager;

fn main() {
    let user_agent = navlock::UserAgent::new();
    let (announce, elected) = mpsc::channel();

    let mut candidates: Vec<(LockManager, JoinHandle<()>)> = Vec::new();
    for number in 1..=3 {
        // Each candidate is an agent of its own: it can die alone.
        let locks = user_agent.lock_manager("cluster");
        let (handle, announce) = (locks.clone(), announce.clone());
        let thread = thread::spawn(move || {
            let Ok(office) = locks.lock("primary").blocking() else { return };
            announce.send(number).expect("main listens");
            // Leads for as long as it has the office; here until it is told that it has lost it.
            let lost = navlock::blocking::block_on(office.lost());
            println!("candidate {number}: {lost}");
        });
        candidates.push((handle, thread));
    }

    for _ in 0..candidates.len() {
        let primary: usize = elected.recv().expect("somebody is elected");
        println!("candidate {primary} leads");
        // The primary dies. A thread that panics, or a process that is killed, ends the same way.
        candidates[primary - 1].0.terminate();
    }
    for (_, thread) in candidates {
        thread.join().expect("no candidate panicked");
    }
}
