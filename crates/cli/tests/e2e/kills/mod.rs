//! Processes of all kinds are killed at random, in all phases. The others keep what they have, and no process
//! waits for a dead one.
//!
//! The witnesses are locks of files, which the kernel keeps and of which navlock knows nothing. A process
//! that has the lock of a name also takes the lock of the name's witness, and must get it at once.

mod dice;
mod processes;
mod roles;
mod witness;

use std::{
    env,
    fs::{self, File},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use self::processes::{Processes, VICTIMS};
pub(crate) use self::roles::{client, command};
use crate::{
    broker::brokers,
    sandbox::{NAVLOCK, Sandbox, eventually},
};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The file into which workers write what must not be.
const VIOLATIONS: &str = "violations";

/// The file that says who was killed.
const KILLED: &str = "killed";

/// While this file exists, no worker begins anything new.
const STOP: &str = "stop";

/// Fails with what has happened so far, if a worker has seen what must not be.
fn check_violations(sandbox: &Sandbox) {
    let read = |file: &str| fs::read_to_string(sandbox.path(file)).unwrap_or_default();
    let violations = read(VIOLATIONS);
    if !violations.is_empty() {
        let logs = NAMES.map(|name| format!("{name}:\n{}", read(&format!("{name}.log"))));
        panic!("{violations}\nkilled:\n{}\nheld {}", read(KILLED), logs.join("\n"));
    }
}

/// Checks that every holder's token is larger than those of all earlier holders whose locks exclude its own.
/// Returns how many holders there were.
fn check_tokens(log: &str) -> usize {
    let (mut exclusive, mut any) = (0, 0);
    let begins = || log.lines().filter_map(|line| line.strip_prefix("begins "));
    for line in begins() {
        let mut words = line.split(' ');
        let mode = words.next().unwrap();
        let token: u64 = words.next().unwrap().parse().unwrap();
        let before = if mode == "exclusive" { any } else { exclusive };
        assert!(token > before, "{line} after {before} in\n{log}");
        any = any.max(token);
        if mode == "exclusive" {
            exclusive = token;
        }
    }
    begins().count()
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |number| number.parse().unwrap())
}

#[test]
fn after_any_kill_the_living_keep_their_locks_and_nobody_waits_for_the_dead() {
    let seed = number("NAVLOCK_TEST_SEED", 20_250_924);
    let kills = usize::try_from(number("NAVLOCK_TEST_KILLS", 240)).unwrap();
    println!("NAVLOCK_TEST_SEED={seed} NAVLOCK_TEST_KILLS={kills} {NAVLOCK}");
    let sandbox = Sandbox::new();
    let began = Instant::now();
    let mut processes = Processes::new(&sandbox, seed);
    while processes.killed.values().sum::<usize>() < kills {
        processes.replace_ended();
        check_violations(&sandbox);
        // Processes are not killed as often as possible: otherwise none would ever get anything done.
        let victim = VICTIMS[processes.dice.below(VICTIMS.len())];
        if processes.kill(victim).is_some() {
            let until = Instant::now() + Duration::from_millis(processes.dice.next() % 200);
            while Instant::now() < until {
                processes.replace_ended();
                processes.dice.pass(10);
            }
        }
    }
    println!("{:?} in {:?}", processes.killed, began.elapsed());

    // Every living process gets what it waits for, and ends.
    processes.end();
    for name in NAMES {
        let witness = File::open(sandbox.path(&format!("{name}.witness"))).unwrap();
        eventually("the orphans end", || {
            flock(&witness, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
    }
    eventually("all names are free", || sandbox.query().is_empty());
    for name in NAMES {
        assert_eq!(sandbox.code(&["run", "-n", name, "true"]), 0);
    }
    eventually("the dead leave nothing", || {
        fs::read_dir(sandbox.path("sock.clients")).unwrap().count() == 0
    });
    let broker = sandbox.broker().unwrap().as_raw_nonzero().to_string();
    // A broker whose starter was killed lives until it has seen that there is another one.
    eventually("there is one broker", || *brokers(&sandbox) == [broker.clone()]);
    check_violations(&sandbox);
    let logs = NAMES.map(|name| fs::read_to_string(sandbox.path(&format!("{name}.log"))).unwrap());
    let holders = logs.iter().map(|log| check_tokens(log)).sum::<usize>();
    println!("{holders} holders, {} processes", processes.started);
    assert!(holders > kills, "{holders} holders only");
    for victim in VICTIMS {
        assert!(processes.killed.contains_key(&victim), "{victim:?} was never killed");
    }
}

#[test]
fn a_client_that_died_between_two_brokers_leaves_no_files() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let clients = sandbox.path("sock.clients");
    let of_the_holder = fs::read_dir(&clients).unwrap().count();
    for extension in ["", ".locks", ".new"] {
        File::create(clients.join("7".repeat(32) + extension)).unwrap();
    }
    eventually("they are removed", || fs::read_dir(&clients).unwrap().count() == of_the_holder);
    holder.release();
}
