//! What users are told of a holder on another machine, and how they end it.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::machines_with;
use crate::{
    sandbox::{Holder, Sandbox, eventually},
    system::stop,
    top::Seat,
};

/// Far longer than anything here may take, in seconds: no lease ends by itself.
const LONG: &str = "300";

/// A holder on a machine that has this name, as far as programs can tell. It is at work when this returns.
fn hold_on(machine: &Sandbox, host: &str, arguments: &[&str]) -> Holder {
    let mut command = machine.program("unshare");
    // All names of machines are in a namespace of the kernel, which the broker inherits.
    let line = "hostname \"$0\" && exec \"$NAVLOCK\" run \"$@\" -- sh -c 'echo $$; exec cat'";
    command.args(["--map-root-user", "--uts", "sh", "-c", line, host]).args(arguments);
    let mut holder = Holder::start(command);
    holder.begun();
    machine.know(&mut holder);
    holder
}

/// Whether namespaces can be made here; containers may not let us.
fn can_be_elsewhere() -> bool {
    let mut command = Command::new("unshare");
    let output = command.args(["--map-root-user", "--uts", "true"]).output();
    let why = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    println!("skipped: {why}");
    false
}

fn trees(machine: &Sandbox) -> Vec<Value> {
    let text = machine.written(&["query", "--tree", "--json"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The process of a holder, its command and the broker: all that a machine has.
fn all_of(machine: &Sandbox, holder: &Holder) -> [Pid; 3] {
    [holder.wrapper(), holder.command(), machine.broker().unwrap()]
}

/// Sends a signal to all processes of a machine at once, so that none is left to give anything back. If they
/// were killed one after the other, one would have time to start another broker.
fn strike(all: [Pid; 3], sign: Signal) {
    all.into_iter().for_each(stop);
    for process in all {
        kill_process(process, sign).unwrap();
    }
}

#[test]
fn how_long_a_machine_has_left_that_is_not_heard_of_is_told() {
    if !can_be_elsewhere() {
        return;
    }
    let [theirs, ours] = machines_with("20");
    let mut dead = hold_on(&theirs, "elsewhere", &["db"]);
    let mut waiter = ours.queue(&["db"]);
    let all = all_of(&theirs, &dead);
    let silent = |machine: &Sandbox| {
        let found = trees(machine);
        let row = found.first().map(|tree| tree["rows"][0].clone()).unwrap_or_default();
        row["silentMs"].as_u64().zip(row["endsInMs"].as_u64())
    };
    let mut seat = Seat::take(&ours, (110, 24), &[]);
    seat.sees("elsewhere");
    assert_eq!(silent(&ours), None);
    // The machine comes back in time, and nothing has happened.
    strike(all, Signal::STOP);
    eventually("it is silent", || silent(&ours).is_some());
    for process in all {
        kill_process(process, Signal::CONT).unwrap();
    }
    eventually("it is heard of again", || silent(&ours).is_none());
    assert!(!dead.has_ended());
    strike(all, Signal::KILL);
    let mut told = None;
    eventually("it is silent", || {
        told = silent(&ours);
        told.is_some()
    });
    let (silence, left) = told.unwrap();
    // The figures are exact to a second, apart from the time until the query.
    assert!((9_000..20_500).contains(&silence) && left <= 11_000, "{silence} {left}");
    assert!((19_900..21_500).contains(&(silence + left)), "{silence} {left}");
    let text = ours.written(&["query", "--tree"]);
    let first = text.lines().next().unwrap();
    assert!(first.contains(", not heard of for ") && first.contains(", ends in "), "{text}");
    assert!(
        text.contains("otherwise it ends in ") && text.contains("not heard of again"),
        "{text}"
    );
    seat.terminal.press("t");
    seat.sees(", not heard of for ");
    drop(seat);
    // The waiter is granted the lock, as the tree has said.
    waiter.begun();
    waiter.release();
    dead.kill_wrapper();
}

#[test]
fn a_waiter_for_a_dead_machine_is_told_of_it_and_goes_on_after_the_remedy_is_pasted() {
    if !can_be_elsewhere() {
        return;
    }
    for sign in [Signal::KILL, Signal::STOP] {
        let [theirs, ours] = machines_with(LONG);
        let mut dead = hold_on(&theirs, "elsewhere", &["--why", "nightly", "db"]);
        let mut waiter = ours.queue(&["db"]);
        let mut behind = ours.queue(&["db"]);
        let all = all_of(&theirs, &dead);
        strike(all, sign);
        eventually("one tree tells of both", || {
            let found = trees(&ours);
            let [tree] = &found[..] else { return false };
            (&tree["blocks"], &tree["rows"][0]["host"]) == (&2.into(), &"elsewhere".into())
        });
        let text = ours.written(&["query", "--tree"]);
        let first = text.lines().next().unwrap();
        assert!(first.contains("@elsewhere holds db (exclusive) for "), "{text}");
        assert!(first.contains(" (nightly); 2 wait, for up to "), "{text}");
        // What is known of a process of another machine is not said of a process here that has its number.
        assert!(!first.contains("stopped"), "{text}");
        let evict =
            text.lines().find_map(|line| line.trim_start().strip_prefix("or navlock evict "));
        let (evict, does) = evict.unwrap_or_else(|| panic!("{text}")).split_once("    # ").unwrap();
        let if_gone = "removes it at once, if elsewhere is gone: otherwise it ends by itself \
                       when its lease has run out";
        assert_eq!(does, if_gone);
        let mut seat = Seat::take(&ours, (110, 24), &[]);
        seat.sees("elsewhere");
        seat.terminal.press("t");
        seat.sees("@elsewhere holds db");
        drop(seat);
        let words: Vec<_> = ["evict"].into_iter().chain(evict.split(' ')).collect();
        assert!(ours.written(&words).starts_with("removed "));
        waiter.begun();
        waiter.release();
        behind.begun();
        behind.release();
        eventually("nobody waits", || trees(&ours).is_empty());
        if sign == Signal::STOP {
            for process in all {
                kill_process(process, Signal::KILL).unwrap();
            }
        }
        dead.kill_wrapper();
    }
}
