//! Commands of several machines that wait for each other.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::{machines, machines_with};
use crate::{
    deadlock::{DEADLOCK, Participant},
    sandbox::{Lines, Sandbox, eventually},
    system::stop,
};

/// The trees of all buckets, as programs see them.
fn trees(machine: &Sandbox) -> Vec<Value> {
    let text = machine.written(&["query", "--tree", "--json", "--all-buckets"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether a request waits in this bucket.
fn somebody_waits(machine: &Sandbox, bucket: &str) -> bool {
    machine.written(&["query", "--bucket", bucket]).contains("pending")
}

#[test]
fn a_cycle_of_two_machines_is_told_on_both_and_nowhere_once_it_is_broken() {
    let [ours, theirs] = machines();
    let mut first = Participant::new(&ours, &["--why", "first", "a"], "$NAVLOCK run b true");
    let mut second = Participant::new(&theirs, &["--why", "second", "b"], "$NAVLOCK run a true");
    first.go_and_wait(&ours);
    // A long wait is no deadlock.
    assert!(trees(&ours).iter().all(|tree| tree["deadlock"].is_null()));
    second.go();
    let told = [&mut first, &mut second].map(|participant| participant.says("waits for \"a\""));
    for said in &told {
        assert!(said.contains(DEADLOCK), "{said}");
        let holds = |who: &str, name: &str| {
            said.contains(&format!("({who}) holds \"{name}\" (exclusive) for "))
        };
        assert!(
            holds("first", "a") || said.contains("held by") && said.contains("(first)"),
            "{said}"
        );
        assert!(holds("second", "b") || said.contains("(second)"), "{said}");
    }
    for machine in [&ours, &theirs] {
        let found = trees(machine);
        let [tree] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (&tree["deadlock"], &tree["cycle"]),
            (&"certain".into(), &true.into()),
            "{tree}"
        );
    }
    kill_process(second.wrapper(), Signal::TERM).unwrap();
    let (code, said) = second.end();
    assert_ne!(code, Some(0), "{said}");
    let (code, said) = first.end();
    assert_eq!((code, said.contains("deadlock")), (Some(0), false), "told once: {said}");
    assert!(trees(&ours).is_empty());
}

#[test]
fn a_request_made_on_another_machine_is_shown_inside_the_lock_of_its_command() {
    let [ours, theirs] = machines();
    let mut holder = Participant::new(&theirs, &["--why", "holder", "inner"], "true");
    // As with ssh, if ssh passes the variable on.
    let socket = theirs.socket();
    let script = format!("NAVLOCK_SOCKET='{}' $NAVLOCK run inner true", socket.display());
    let mut outer = Participant::new(&ours, &["--why", "outer", "outer"], &script);
    outer.go_and_wait(&theirs);
    let found = trees(&theirs);
    let [tree] = &found[..] else { panic!("{found:?}") };
    let rows = tree["rows"].as_array().unwrap().iter();
    let rows: Vec<_> =
        rows.map(|row| (row["name"].as_str().unwrap(), row["block"].as_str())).collect();
    assert_eq!(rows, [("inner", None), ("inner", Some("hard")), ("outer", Some("inside"))]);
    assert!(tree["deadlock"].is_null());
    holder.go();
    for participant in [holder, outer] {
        let (code, said) = participant.end();
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn the_one_that_came_last_ends_if_it_is_to_whichever_machine_it_is_on() {
    let all: [Sandbox; 2] = machines();
    let command = |name| format!("$NAVLOCK run --deadlock-exit-code 7 {name} true");
    for [early, late] in [[0, 1], [1, 0]] {
        // If each command's own broker decided, each of the two would be the last one.
        let mut first = Participant::new(&all[early], &["a"], &command("b"));
        let mut last = Participant::new(&all[late], &["b"], &command("a"));
        first.go_and_wait(&all[early]);
        last.go();
        let (code, said) = last.end();
        assert_eq!(code, Some(7), "{said}");
        assert!(said.contains(&format!("navlock: \"a\": {DEADLOCK}\n")), "{said}");
        let (code, said) = first.end();
        assert_eq!(code, Some(0), "{said}");
    }
    // One that is to end does, if the last one is not.
    let mut first = Participant::new(&all[0], &["a"], &command("b"));
    let mut last = Participant::new(&all[1], &["b"], "$NAVLOCK run a true");
    first.go_and_wait(&all[0]);
    last.go();
    assert_eq!(first.end().0, Some(7));
    assert_eq!(last.end().0, Some(0));
}

#[test]
fn a_cycle_of_three_machines_in_buckets_that_no_two_share_is_told() {
    let all: [Sandbox; 3] = machines();
    let holds = |nth: usize| format!("bucket-{nth}");
    let mut participants = Vec::new();
    for (nth, machine) in all.iter().enumerate() {
        let (ours, next) = (holds(nth), holds((nth + 1) % 3));
        let more = if nth == 2 { "--deadlock-exit-code 7 " } else { "" };
        let script = format!("$NAVLOCK run {more}--bucket {next} x true");
        participants.push(Participant::new(machine, &["--bucket", &ours, "x"], &script));
    }
    for nth in [0, 1] {
        participants[nth].go();
        eventually("it waits", || somebody_waits(&all[nth], &holds(nth + 1)));
    }
    participants[2].go();
    let (code, said) = participants.pop().unwrap().end();
    assert_eq!(code, Some(7), "{said}");
    assert_eq!(said.matches("waits for").count(), 3, "{said}");
    for participant in participants.into_iter().rev() {
        let (code, said) = participant.end();
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn a_broker_that_takes_over_knows_of_cycles_with_other_machines() {
    let [ours, theirs] = machines();
    let mut first = Participant::new(&ours, &["a"], "$NAVLOCK run b true");
    let last = "$NAVLOCK run --deadlock-exit-code 7 a true";
    let mut last = Participant::new(&theirs, &["b"], last);
    first.go_and_wait(&ours);
    ours.replace_broker();
    theirs.replace_broker();
    last.go();
    let (code, said) = last.end();
    assert_eq!(code, Some(7), "{said}");
    assert_eq!(first.end().0, Some(0));
}

#[test]
fn a_waiter_behind_a_request_that_gives_up_on_another_machine_is_in_no_deadlock() {
    let [ours, theirs] = machines();
    let mut first = Participant::new(&ours, &["a"], "$NAVLOCK run -s b true");
    let mut second = Participant::new(&theirs, &["-s", "b"], "$NAVLOCK run a true");
    second.go_and_wait(&theirs);
    let (before, gave_up) = (theirs.pending(), Instant::now());
    thread::scope(|scope| {
        let gives_up = scope.spawn(|| theirs.output(&["run", "-w", "7", "b", "true"]));
        eventually("it waits", || theirs.pending() > before);
        // The request would share the held lock. So the first participant waits only for the exclusive
        // request before it, and not for ever.
        first.go();
        assert_eq!(gives_up.join().unwrap().status.code(), Some(1));
    });
    assert!(gave_up.elapsed() > Duration::from_secs(6));
    for participant in [first, second] {
        let (code, said) = participant.end();
        assert_eq!((code, said.contains("deadlock")), (Some(0), false), "{said}");
    }
}

#[test]
fn a_cycle_by_way_of_a_machine_that_is_not_heard_of_is_not_told() {
    let [ours, theirs] = machines_with("10");
    let mut first = Participant::new(&ours, &["a"], "$NAVLOCK run b true");
    let mut second = Participant::new(&theirs, &["b"], "$NAVLOCK run a true");
    second.go_and_wait(&theirs);
    // Wait until this machine knows inside which lock the other one waits.
    let mut watch = ours.start(&["watch", "--json"]);
    let inside = |line: &String| line.contains("\"inside\":[\"");
    assert!(Lines::of(watch.stdout.as_mut().unwrap()).any(|line| inside(&line)));
    watch.kill().unwrap();
    watch.wait().unwrap();
    let broker = theirs.broker().unwrap();
    stop(broker);
    let is_silent = || trees(&ours).iter().any(|tree| !tree["rows"][1]["silentMs"].is_null());
    eventually("it is silent", is_silent);
    first.go();
    // The lock of the silent machine ends with its lease.
    let (code, said) = first.end();
    assert_eq!((code, said.contains("deadlock")), (Some(0), false), "{said}");
    kill_process(broker, Signal::CONT).unwrap();
    let (code, said) = second.end();
    assert!(code != Some(0) && !said.contains("deadlock"), "{said}");
}

#[test]
fn machines_that_wait_much_and_never_for_each_other_are_told_nothing() {
    let all: [Sandbox; 2] = machines();
    // One of these commands gives up by itself.
    let mut gives_up = Participant::new(
        &all[0],
        &["--bucket", "cycle", "a"],
        "$NAVLOCK run --bucket cycle -w 6 b true",
    );
    let mut waits = Participant::new(
        &all[1],
        &["--bucket", "cycle", "b"],
        "$NAVLOCK run --bucket cycle a true",
    );
    for (participant, machine) in [&mut gives_up, &mut waits].into_iter().zip(&all) {
        participant.go();
        eventually("it waits", || somebody_waits(machine, "cycle"));
    }
    // These take what they need in one order, for a while.
    let (is_over, end) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(6));
    thread::scope(|scope| {
        for machine in [&all[0], &all[0], &all[1], &all[1]] {
            let is_over = &is_over;
            scope.spawn(move || {
                while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
                    let nested =
                        "$NAVLOCK run -s b $NAVLOCK run --deadlock-exit-code 9 c sleep 0.1";
                    let output = machine.output(&["run", "a", "sh", "-c", nested]);
                    if !output.status.success() || output.stderr.contains("deadlock") {
                        is_over.store(true, Ordering::Relaxed);
                        panic!("{output:?}");
                    }
                }
            });
        }
    });
    let (code, said) = gives_up.end();
    assert_eq!((code, said.contains("deadlock")), (Some(1), false), "{said}");
    let (code, said) = waits.end();
    assert_eq!((code, said.contains("deadlock")), (Some(0), false), "{said}");
}
