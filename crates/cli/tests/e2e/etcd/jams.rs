//! What holds others up from another machine.

use std::process::Command;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::machines_with;
use crate::{
    sandbox::{Holder, Sandbox, eventually, stop},
    top::Seat,
};

/// Far longer than anything here may take, in seconds: no lease ends by itself.
const LONG: &str = "300";

/// A holder on a machine of this name, as far as programs can tell; at work when this returns.
fn hold_on(machine: &Sandbox, host: &str, arguments: &[&str]) -> Holder {
    let mut command = machine.program("unshare");
    // All names of machines are in a namespace of the kernel, which the broker inherits.
    let line = "hostname \"$0\" && exec \"$NAVLOCK\" run \"$@\" -- sh -c 'echo $$; exec cat'";
    command.args(["--map-root-user", "--uts", "sh", "-c", line, host]).args(arguments);
    let mut holder = Holder::start(command);
    holder.begun();
    machine.know(&holder);
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

#[test]
fn who_waits_for_a_machine_that_died_is_told_of_it_and_goes_on_by_what_is_pasted() {
    if !can_be_elsewhere() {
        return;
    }
    for sign in [Signal::KILL, Signal::STOP] {
        let [theirs, ours] = machines_with(LONG);
        let mut dead = hold_on(&theirs, "elsewhere", &["--why", "nightly", "db"]);
        let mut waiter = ours.queue(&["db"]);
        let mut behind = ours.queue(&["db"]);
        // All of the machine at once: nobody is left there who would give anything back. Who is only
        // killed one after the other has time to start another broker.
        let all = [dead.wrapper(), dead.command(), theirs.broker().unwrap()];
        all.into_iter().for_each(stop);
        for process in all {
            kill_process(process, sign).unwrap();
        }
        eventually("one tree tells of both", || {
            let found = trees(&ours);
            let [tree] = &found[..] else { return false };
            (&tree["blocks"], &tree["rows"][0]["host"]) == (&2.into(), &"elsewhere".into())
        });
        let text = ours.written(&["query", "--tree"]);
        let first = text.lines().next().unwrap();
        assert!(first.contains("@elsewhere holds db (exclusive) for "), "{text}");
        assert!(first.contains(" (nightly); 2 wait, for up to "), "{text}");
        // What is known of a process of another machine is not said of one of ours that has its number.
        assert!(!first.contains("stopped"), "{text}");
        let evict =
            text.lines().find_map(|line| line.trim_start().strip_prefix("or navlock evict "));
        let (evict, does) = evict.unwrap_or_else(|| panic!("{text}")).split_once("    # ").unwrap();
        let if_gone = "removes it from etcd at once, if elsewhere is gone: otherwise it ends by itself \
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
