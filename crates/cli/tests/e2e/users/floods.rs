//! Whoever floods the broker shuts out nobody but the own user.

use std::{
    io::Write,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use navlock_engine::{Mode, RequestId, RequestKind};
use navlock_wire::{FileTask, ToDaemon};

use super::{
    raw::{Raw, bytes, file, greeting, hello, key, open_agent, request},
    *,
};

/// More memory than this is not what one user's limits are for.
const MOST_MEMORY: u64 = 1 << 20;

/// How many clients with files one user may have.
const CLIENTS_OF_USER: u64 = 1 << 10;

/// One that is the client's own, one that will be inherited, and one that is.
const FILES_OF_CLIENT: u64 = 3;

impl Machine {
    /// Checks that another user, root and the broker's own get a lock and are answered.
    fn serves_others(&self) {
        for user in [ADA, ROOT] {
            for name in ["free", "other"] {
                self.written(user, &["run", "-w", "60", name, "true"]);
            }
        }
        assert_eq!(self.code(BROKER, &["daemon", "status"]), 0);
        let broker = self.broker.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{broker}/status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory: u64 = memory.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(memory < MOST_MEMORY, "the broker has {memory} kB");
    }

    /// Lets a user do this again and again, while others are served.
    fn serves_during(&self, flood: impl Fn(u64) + Sync) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for part in 0..4 {
                let (is_over, flood) = (&is_over, &flood);
                scope.spawn(move || {
                    let mut number = part << 32;
                    while !is_over.load(Relaxed) {
                        flood(number);
                        number += 1;
                    }
                });
            }
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (0..3).for_each(|_| self.serves_others());
            }));
            is_over.store(true, Relaxed);
            served.unwrap();
        });
    }
}

#[test]
fn a_user_with_as_many_connections_as_can_be_had_leaves_some_for_others() {
    let Some(mut machine) = Machine::without_broker() else { return };
    machine.start_broker_by("prlimit", &["--nofile=1024:1024"]);
    let held = machine.hold(ADA, &["held"]);
    for words in [&[][..], &[hello()]] {
        let mut crowd = Vec::new();
        for _ in 0..5_000 {
            let Ok(mut raw) = Raw::try_connect(&machine, BEA) else { break };
            if raw.say(words).is_err() {
                break;
            }
            crowd.push(raw);
        }
        // This process needs a few as well.
        crowd.truncate(crowd.len() - 50);
        machine.serves_others();
    }
    let clients: Vec<_> = (0..2_000)
        .map_while(|number| {
            let mut raw = Raw::try_connect(&machine, BEA).ok()?;
            raw.say(&greeting(key(BEA, number), false)).ok()?;
            Some(raw)
        })
        .collect();
    machine.serves_others();
    drop(clients);
    eventually("the user comes in again", || machine.code(BEA, &["run", "-n", "x", "true"]) == 0);
    held.release();
}

#[test]
fn a_user_with_as_many_requests_as_can_be_had_leaves_some_for_others() {
    let Some(machine) = Machine::new() else { return };
    let mut all = Vec::new();
    for client in 0..8 {
        let mut raw = Raw::client(&machine, BEA, client);
        raw.stream.set_nonblocking(true).unwrap();
        let _ = raw.say(&[open_agent(0, [u8::try_from(client).unwrap() + 1; 16])]);
        let wait = RequestKind::Wait(Mode::Exclusive);
        let many: Vec<_> = (0..20_000)
            .map(|serial| request(serial, &format!("n{}", serial % 999), wait))
            .collect();
        // As much as fits: the broker reads on while others are served.
        let _ = raw.stream.write_all(&bytes(&many));
        all.push(raw);
    }
    machine.serves_others();
}

#[test]
fn names_of_a_user_do_not_fill_the_broker() {
    let Some(machine) = Machine::new() else { return };
    let long = "x".repeat(1 << 20);
    machine.serves_during(|number| {
        let mut raw = Raw::connect(&machine, BEA);
        let mut id = [1; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let _ = raw.say(&greeting(key(BEA, number), false));
        let _ = raw.say(&[open_agent(0, id)]);
        for serial in 0..100 {
            let name = format!("{serial}{long}");
            let wait = request(serial, &name[..long.len()], RequestKind::Wait(Mode::Exclusive));
            if raw.say(&[wait]).is_err() {
                break;
            }
        }
    });
}

#[test]
fn answers_that_a_user_does_not_read_hold_up_nobody() {
    let Some(machine) = Machine::new() else { return };
    let holders: Vec<_> =
        (0..4).map(|number| machine.hold(BEA, &[&format!("n{number}")])).collect();
    let looks = ToDaemon::Look { bucket: None, name: None, follow: true };
    let asks = vec![ToDaemon::Query { query: 1, bucket: "default".into() }; 2_000];
    let inspects =
        vec![ToDaemon::Inspect { query: 1, bucket: "default".into(), name: None }; 2_000];
    let mut deaf = Vec::new();
    for number in 0..16 {
        for questions in [&asks, &inspects] {
            let mut raw = Raw::connect(&machine, BEA);
            raw.stream.set_nonblocking(true).unwrap();
            let _ = raw.say(&greeting(key(BEA, number), false));
            for _ in 0..20 {
                if raw.stream.write_all(&bytes(questions)).is_err() {
                    break;
                }
            }
            deaf.push(raw);
        }
        let mut raw = Raw::connect(&machine, BEA);
        let _ = raw.say(&[hello(), looks.clone()]);
        deaf.push(raw);
    }
    machine.serves_others();
    drop(deaf);
    holders.into_iter().for_each(Holder::release);
}

#[test]
fn nonsense_of_a_user_holds_up_nobody() {
    let Some(machine) = Machine::new() else { return };
    let held = machine.hold(ADA, &["held"]);
    let claim = ToDaemon::ClaimRequest {
        agent: 7,
        request: RequestId::from_parts(0, 0),
        name: "db".try_into().unwrap(),
        kind: RequestKind::Steal,
        since: 0,
    };
    machine.serves_during(|number| {
        let words = greeting(key(BEA, number), true);
        let said = match number % 6 {
            0 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            1 => vec![0xFF; 100_000],
            2 => vec![0, 0, 0, 1, 99],
            3 => bytes(&words[1..]).to_vec(),
            4 => bytes(&[&words[..], std::slice::from_ref(&claim)].concat()).to_vec(),
            _ => bytes(&[&words[..], &[ToDaemon::Stop]].concat()).to_vec(),
        };
        let mut raw = Raw::connect(&machine, BEA);
        let _ = raw.stream.write_all(&said);
    });
    assert_eq!(machine.query(ROOT).len(), 1);
    held.release();
}

#[test]
fn files_that_a_user_asks_for_do_not_fill_the_place() {
    let Some(machine) = Machine::new() else { return };
    let claims = vec![0; 1 << 16];
    let ask = |number| {
        for task in [FileTask::Own, FileTask::Reserve, FileTask::Inherit { claims: claims.clone() }]
        {
            // Not all are given, and those that were are let go at once.
            drop(file(&machine, BEA, key(BEA, number), task));
        }
    };
    machine.serves_during(ask);
    // More than one user may have, in parts between which no connection of the user is open.
    for part in [1 << 40, 2 << 40] {
        thread::sleep(Duration::from_millis(200));
        (part..part + 900).for_each(ask);
    }
    let clients = fs::read_dir(machine.directory().join("clients")).unwrap();
    let sizes: Vec<_> = clients.map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    let bytes: u64 = sizes.iter().sum();
    // Some are other users', who were served meanwhile.
    let most = usize::try_from(CLIENTS_OF_USER * FILES_OF_CLIENT).unwrap() + 100;
    assert!(sizes.len() < most && bytes < 64 << 20, "{} files, {bytes} bytes", sizes.len());
}
