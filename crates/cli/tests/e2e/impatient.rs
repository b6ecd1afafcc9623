//! Commands that do not want to wait, and a broker that does not answer.

use std::{
    fs::File,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Signal, kill_process},
};

use crate::sandbox::Sandbox;

/// Less than a client without a limit waits for a broker, and much more than a client with a limit may take.
const BOUND: Duration = Duration::from_secs(8);

impl Sandbox {
    /// The exit codes of the commands that do not want to wait, or not for long.
    fn bounded_codes(&self) -> Vec<i32> {
        let commands: [&[&str]; 4] = [
            &["run", "-n", "db", "true"],
            &["run", "-w", "0.1", "db", "true"],
            &["run", "-w", "1", "db", "true"],
            &["wait", "-n", "db"],
        ];
        // All run at once, because what they must not wait for may end.
        let code = |command: &[&str]| {
            let began = Instant::now();
            let code = self.code(command);
            let took = began.elapsed();
            assert!(took < BOUND, "{command:?} took {took:?}");
            code
        };
        thread::scope(|scope| {
            let all = commands.map(|command| scope.spawn(move || code(command)));
            all.map(|one| one.join().unwrap()).to_vec()
        })
    }
}

#[test]
fn a_command_that_does_not_want_to_wait_does_not_wait_for_a_stopped_broker() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let broker = sandbox.broker().unwrap();
    kill_process(broker, Signal::STOP).unwrap();
    assert_eq!(sandbox.bounded_codes(), [69; 4]);
    let stopped =
        format!("process {0}) is stopped; let it go on: kill -CONT {0}", broker.as_raw_nonzero());
    sandbox.output(&["run", "-n", "db", "true"]).assert_says(69, &stopped);
    kill_process(broker, Signal::CONT).unwrap();
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    holder.release();
}

#[test]
fn a_command_that_does_not_want_to_wait_does_not_wait_for_a_broker_that_never_listens() {
    let sandbox = Sandbox::new();
    // This test acts as a broker that was stopped while it was starting.
    let starting = File::create(sandbox.path("sock.broker.lock")).unwrap();
    flock(&starting, FlockOperation::LockExclusive).unwrap();
    assert_eq!(sandbox.bounded_codes(), [69; 4]);
    drop(starting);
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
}

#[test]
fn a_command_that_does_not_want_to_wait_is_told_when_a_broker_grants_nothing_yet() {
    let sandbox = Sandbox::new();
    let stopped = sandbox.hold(&["-o", "other"]);
    stopped.stop();
    sandbox.kill_broker();
    // The broker waits for the stopped client, and cannot know what that holds.
    assert_eq!(sandbox.bounded_codes(), [1; 4]);
    let said = sandbox.output(&["run", "-n", "-E", "7", "db", "true"]);
    assert_eq!(said.status.code(), Some(7));
    assert!(said.stderr.contains("takes over"), "{said:?}");
    stopped.signal(Signal::CONT);
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    stopped.release();
}
