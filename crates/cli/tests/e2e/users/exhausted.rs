//! What a user cannot use up, and what being refused does not give.

use std::{
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use navlock_engine::{Mode, RequestKind};
use navlock_wire::{FileTask, FromDaemon, ToDaemon};

use super::{
    raw::{Raw, bytes, greeting, hello, key, open_agent, request},
    *,
};

impl Raw {
    /// Whether the broker has accepted this client, which has introduced itself.
    fn is_accepted(&mut self) -> bool {
        assert!(matches!(self.receive(), Some(FromDaemon::Welcome { .. })));
        match self.receive() {
            Some(FromDaemon::Settled) => true,
            Some(FromDaemon::Refused { .. }) => false,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_connection_beyond_the_limit_of_its_user_may_do_no_more_than_others() {
    let Some(mut machine) = Machine::without_broker() else { return };
    machine.start_broker_by("prlimit", &["--nofile=1024:1024"]);
    let held = machine.hold(ADA, &["--why", "secret", "held"]);
    let mut crowd = Vec::new();
    loop {
        let mut raw = Raw::connect(&machine, BEA);
        raw.say(&greeting(key(BEA, crowd.len() as u64), false)).unwrap();
        if !raw.is_accepted() {
            break;
        }
        crowd.push(raw);
    }
    let refused = machine.output(BEA, &["run", "-n", "free", "true"]);
    refused.assert_says(69, "connections as one user may have");
    let mut stops = Raw::connect(&machine, BEA);
    stops.say(&[hello(), ToDaemon::Stop]).unwrap();
    assert!(matches!(stops.receive(), Some(FromDaemon::Welcome { .. })));
    assert!(matches!(stops.receive(), Some(FromDaemon::Refused { .. })));
    let mut looks = Raw::connect(&machine, BEA);
    looks.say(&[hello(), ToDaemon::Look { bucket: None, name: None, follow: false }]).unwrap();
    let seen: Vec<_> = std::iter::from_fn(|| looks.receive()).collect();
    let seen = format!("{seen:?}");
    assert!(seen.contains("held") && !seen.contains("secret"), "{seen}");
    assert_eq!(machine.query(ROOT).len(), 1);
    held.release();
}

#[test]
fn nobody_keeps_the_next_broker_from_granting_locks() {
    let Some(mut machine) = Machine::new() else { return };
    // The next broker waits for this client.
    let client = Raw::client(&machine, BEA, 1);
    machine.kill_broker();
    machine.start_broker();
    let waiter = machine.wait_for(ADA, &["db"]);
    let mut claiming = Vec::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 2.. {
                if is_over.load(Relaxed) {
                    break;
                }
                let mut raw = Raw::connect(&machine, BEA);
                let _ = raw.say(&greeting(key(BEA, number), true));
                claiming.push(raw);
                // The time is the attack: a new one comes before the last one is given up.
                thread::sleep(Duration::from_secs(1));
            }
        });
        let mut waiter = waiter;
        let served = catch_unwind(AssertUnwindSafe(|| waiter.begun()));
        is_over.store(true, Relaxed);
        served.unwrap();
        waiter.release();
    });
    drop(client);
}

#[test]
fn files_that_a_user_does_not_take_do_not_keep_others_from_theirs() {
    let Some(mut machine) = Machine::without_broker() else { return };
    machine.start_broker_by("prlimit", &["--nofile=1024:1024"]);
    let mut unread = Vec::new();
    for number in 0..60 {
        let client = Raw::client(&machine, BEA, number);
        let mut raw = Raw::connect(&machine, BEA);
        let task = |task| ToDaemon::File { client: key(BEA, number), task };
        let asks = (0..30).flat_map(|_| [task(FileTask::Reserve), task(FileTask::Revoke)]);
        let words: Vec<_> = std::iter::once(hello()).chain(asks).collect();
        raw.say(&words).unwrap();
        unread.push((client, raw));
    }
    for user in [ADA, ROOT] {
        machine.written(user, &["run", "-w", "60", "free", "true"]);
    }
}

#[test]
fn thefts_that_are_refused_hold_up_nobody() {
    let Some(machine) = Machine::new() else { return };
    let held = machine.hold(ADA, &["db"]);
    let mut raw = Raw::client(&machine, BEA, 1);
    raw.say(&[open_agent(0, [1; 16])]).unwrap();
    let wait = RequestKind::Wait(Mode::Exclusive);
    let waits: Vec<_> = (1..20_000).map(|serial| request(serial, "db", wait)).collect();
    raw.say(&waits).unwrap();
    let steals: Vec<_> =
        (20_000..30_000).map(|serial| request(serial, "db", RequestKind::Steal)).collect();
    raw.stream.set_nonblocking(true).unwrap();
    let _ = raw.stream.write_all(&bytes(&steals));
    for user in [ADA, ROOT] {
        machine.written(user, &["run", "-w", "60", "free", "true"]);
    }
    held.release();
}
