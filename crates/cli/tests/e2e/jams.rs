//! `navlock query --tree`: who waits for whom, why nothing moves, and what ends it.

use std::thread;

use navlock::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    broker::in_namespaces,
    sandbox::{Holder, Sandbox, eventually, wait},
    worker,
};

fn trees(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["query", "--tree", "--json"], arguments].concat();
    let text = sandbox.written(&arguments);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The kind and the line of each remedy.
fn remedies(tree: &Value) -> Vec<(&str, &str)> {
    let all = tree["remedies"].as_array().unwrap().iter();
    all.map(|one| (one["kind"].as_str().unwrap(), one["line"].as_str().unwrap())).collect()
}

/// Has a shell run a line that users are to paste.
fn paste(sandbox: &Sandbox, line: &str) {
    // The line names the program as users call it who have installed it.
    let line = line.replacen("navlock ", "\"$NAVLOCK\" ", 1);
    let status = sandbox.program("sh").args(["-c", &line]).status().unwrap();
    assert!(status.success(), "{line}: {status}");
}

fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

fn ends(mut holder: Holder) {
    holder.begun();
    holder.release();
}

#[test]
fn a_holder_that_sleeps_is_shown_with_whom_it_holds_up_and_ended_by_what_is_pasted() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.written(&["query", "--tree"]), "");
    let mut holder = sandbox.hold(&["--why", "nightly", "db"]);
    let waiters: Vec<_> = (0..2).map(|_| sandbox.queue(&["db"])).collect();
    let other = sandbox.hold(&["other"]);
    let all = trees(&sandbox, &[]);
    let [tree] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&tree["blocks"], &tree["cycle"]), (&2.into(), &false.into()));
    let pid = number(holder.command());
    assert_eq!(tree["rows"][0]["pid"], pid);
    assert_eq!(tree["rows"][0].get("block"), None);
    assert_eq!(tree["rows"][1]["block"], "hard");
    let text = sandbox.written(&["query", "--tree"]);
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with(&format!("sh[{pid}] holds db (exclusive) for ")), "{text}");
    assert!(first.contains(" (nightly); 2 wait, for up to "), "{text}");
    assert!(rest.starts_with("├─ hard  navlock run sh["), "{text}");
    assert!(rest.contains("\n└─ hard  navlock run sh["), "{text}");
    assert!(rest.contains(&format!("\n  kill {pid}    # ends it\n")), "{text}");
    assert!(rest.contains("\n  or navlock run --steal db true    # takes the lock"), "{text}");
    let end = format!("kill {pid}");
    assert_eq!(remedies(tree), [("end", &*end), ("steal", "navlock run --steal db true")]);
    paste(&sandbox, &end);
    assert!(!holder.ended().success());
    waiters.into_iter().for_each(ends);
    other.release();
}

#[test]
fn a_holder_that_is_stopped_is_said_to_be_and_goes_on_by_what_is_pasted() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let waiter = sandbox.queue(&["db"]);
    let pid = number(holder.command());
    for process in [holder.command(), holder.wrapper()] {
        kill_process(process, Signal::STOP).unwrap();
        eventually("it is said to be stopped", || {
            trees(&sandbox, &[])[0]["rows"][0]["stopped"] == Value::from(vec![number(process)])
        });
        let text = sandbox.written(&["query", "--tree"]);
        assert!(text.lines().next().unwrap().contains(", and is stopped; 1 waits"), "{text}");
        let tree = &trees(&sandbox, &[])[0];
        let goes_on = format!("kill -CONT {}", number(process));
        let end = format!("kill -KILL {pid}");
        assert_eq!(remedies(tree)[..2], [("continue", &*goes_on), ("end", &*end)]);
        paste(&sandbox, &goes_on);
        eventually("it goes on", || trees(&sandbox, &[])[0]["rows"][0].get("stopped").is_none());
    }
    holder.release();
    ends(waiter);
}

#[test]
fn from_another_pid_namespace_no_number_is_offered_to_kill() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let waiter = sandbox.queue(&["db"]);
    kill_process(holder.command(), Signal::STOP).unwrap();
    let shown = in_namespaces(&sandbox, &["-rpf"], "\"$NAVLOCK\" query --tree --json");
    kill_process(holder.command(), Signal::CONT).unwrap();
    if let Some(shown) = shown {
        let tree: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(remedies(&tree), [("steal", "navlock run --steal db true")]);
        assert_eq!(tree["rows"][0].get("stopped"), None);
    }
    holder.release();
    ends(waiter);
}

#[test]
fn a_wait_behind_another_request_is_shown_apart_from_a_wait_for_a_holder() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["-s", "db"]);
    let writer = sandbox.queue(&["db"]);
    let reader = sandbox.queue(&["-s", "db"]);
    let tree = trees(&sandbox, &[]).remove(0);
    let rows = tree["rows"].as_array().unwrap();
    let shape: Vec<_> = rows.iter().map(|row| (&row["depth"], &row["block"])).collect();
    assert_eq!(
        shape,
        [(&0.into(), &Value::Null), (&1.into(), &"hard".into()), (&2.into(), &"soft".into())]
    );
    assert_eq!(tree["blocks"], 2);
    let text = sandbox.written(&["query", "--tree"]);
    assert!(text.contains("\n└─ hard  navlock run sh["), "{text}");
    assert!(text.contains("\n   └─ soft  navlock run sh["), "{text}");
    holder.release();
    ends(writer);
    ends(reader);
}

/// The role of a program of which two agents each hold what the other one waits for. If a number is given,
/// they say that they are the process of this number.
pub(crate) fn crossed(words: &[&str]) {
    let user = worker::connect(&Place::from_env().unwrap());
    let (one, two) = (user.lock_manager("default"), user.lock_manager("default"));
    for pid in words {
        let mut info = navlock::this_process();
        info.pid = pid.parse().unwrap();
        for locks in [&one, &two] {
            locks.describe(&info);
        }
    }
    let _held = [one.lock("a").blocking().unwrap(), two.lock("b").blocking().unwrap()];
    thread::spawn(move || one.lock("b").blocking().map(drop));
    drop(two.lock("a").blocking());
}

#[test]
fn two_that_wait_for_each_other_are_said_to_and_parted_by_what_is_pasted() {
    let sandbox = Sandbox::new();
    let mut program = worker::program(&sandbox, "jams::crossed", "").spawn().unwrap();
    let pending = || sandbox.query().iter().filter(|line| line.starts_with("pending")).count();
    eventually("both wait", || pending() == 2);
    let found = trees(&sandbox, &[]);
    let [tree] = &found[..] else { panic!("{found:?}") };
    // Nobody has said that one lock is asked for under the other.
    assert_eq!((&tree["cycle"], &tree["deadlock"]), (&true.into(), &"possible".into()));
    assert_eq!(tree["rows"].as_array().unwrap().len(), 4, "{tree}");
    let text = sandbox.written(&["query", "--tree"]);
    assert!(text.starts_with("possible deadlock: these wait for each other"), "{text}");
    // The agents are one process, and end together.
    let end = format!("kill {}", program.id());
    assert_eq!(remedies(tree), [("end", &*end)]);
    assert!(text.contains(&format!("\n  {end}    # ends ")), "{text}");
    paste(&sandbox, &end);
    assert!(!wait(&mut program).success());
    assert!(trees(&sandbox, &[]).is_empty());
}

/// A command under a lock that asks for another one within it. The command is killed when this is dropped.
struct Crossed(Holder);

impl Crossed {
    fn new(sandbox: &Sandbox, holds: &str) -> Self {
        let script = "echo $$; read next; exec \"$NAVLOCK\" run \"$next\" true";
        let mut holder = sandbox.hold_by(&[holds], script);
        sandbox.know(&mut holder);
        Self(holder)
    }
}

impl Drop for Crossed {
    fn drop(&mut self) {
        // The command would wait for ever, and its starter has no power over it any more.
        let _ = kill_process(self.0.command(), Signal::KILL);
    }
}

#[test]
fn commands_that_wait_for_each_other_are_a_deadlock_until_one_is_ended_as_it_is_pasted() {
    for names in [&["a", "b"][..], &["a", "b", "c"]] {
        let sandbox = Sandbox::new();
        let mut all: Vec<_> = names.iter().map(|name| Crossed::new(&sandbox, name)).collect();
        for (one, next) in all.iter_mut().zip(names.iter().cycle().skip(1)) {
            one.0.tell(next);
        }
        let mut found = Vec::new();
        // Each has told inside which lock it asks before it asks.
        eventually("all wait for each other", || {
            found = trees(&sandbox, &[]);
            matches!(&found[..], [tree] if tree["deadlock"] == "certain")
        });
        let tree = &found[0];
        assert_eq!(tree["cycle"], true);
        assert_eq!(tree["rows"].as_array().unwrap().len(), 2 * names.len(), "{tree}");
        let text = sandbox.written(&["query", "--tree"]);
        assert!(
            text.starts_with("deadlock: these wait for each other, and none goes on"),
            "{text}"
        );
        let offered = remedies(tree);
        let ends: Vec<_> =
            all.iter().map(|one| format!("kill {}", number(one.0.command()))).collect();
        assert_eq!(offered.len(), names.len());
        assert!(
            offered.iter().all(|(kind, line)| *kind == "end" && ends.contains(&(*line).to_owned()))
        );
        paste(&sandbox, offered[0].1);
        let ended: Vec<_> = all.iter_mut().map(|one| one.0.ended().success()).collect();
        assert_eq!(ended.iter().filter(|success| !**success).count(), 1, "{ended:?}");
    }
}

/// The role of a program that says that it is the process of this number, and holds a lock.
pub(crate) fn liar(words: &[&str]) {
    let locks = worker::locks();
    let mut info = navlock::this_process();
    info.pid = words[0].parse().unwrap();
    locks.describe(&info);
    let _held = locks.lock("db").blocking().unwrap();
    worker::say("held");
    loop {
        thread::park();
    }
}

#[test]
fn a_client_that_claims_to_be_another_process_is_ended_by_its_own_number() {
    let sandbox = Sandbox::new();
    let other = sandbox.hold(&["other"]);
    let theirs = number(other.command()).to_string();
    let mut liar = worker::Worker::start(&sandbox, "jams::liar", &theirs);
    assert_eq!(liar.read_line(), "held");
    let waiter = sandbox.queue(&["db"]);
    let tree = trees(&sandbox, &[]).remove(0);
    assert_eq!(tree["rows"][0]["pid"].to_string(), theirs);
    let (kind, line) = remedies(&tree)[0];
    assert_eq!(kind, "end");
    assert_ne!(line, format!("kill {theirs}"));
    paste(&sandbox, line);
    assert!(!liar.ended().success());
    ends(waiter);
    other.release();
}

#[test]
fn a_hold_is_ended_by_its_release_and_only_trees_that_are_asked_for_are_shown() {
    let sandbox = Sandbox::new();
    let id = sandbox.written(&["hold", "--ttl", "600", "--bucket", "elsewhere", "it's mine"]);
    let id = id.split_whitespace().next().unwrap().to_owned();
    let waiter = {
        let waiter = sandbox.wait_for(&["--bucket", "elsewhere", "it's mine"]);
        eventually("it waits", || !trees(&sandbox, &["-a"]).is_empty());
        waiter
    };
    assert!(trees(&sandbox, &[]).is_empty());
    assert!(trees(&sandbox, &["-a", "another"]).is_empty());
    assert!(trees(&sandbox, &["-a", "--longer-than", "1h"]).is_empty());
    assert_eq!(trees(&sandbox, &["-a", "it's mine"]).len(), 1);
    let tree = trees(&sandbox, &["--bucket", "elsewhere"]).remove(0);
    let release = format!("navlock release {id}");
    let steal = r"navlock run --bucket elsewhere --steal 'it'\''s mine' true";
    assert_eq!(remedies(&tree), [("release", &*release), ("steal", steal)]);
    paste(&sandbox, &release);
    ends(waiter);
}

#[test]
fn a_hostile_name_is_shown_safely_and_stands_in_no_line_to_paste() {
    let sandbox = Sandbox::new();
    let name = "a\u{1b}[2J\u{202e}b\nkill 1";
    let holder = sandbox.hold(&["--why", "\u{1b}[31m", name]);
    let waiter = sandbox.queue(&[name]);
    let text = sandbox.written(&["query", "--tree"]);
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    assert_eq!(text.lines().count(), 3, "{text}");
    let tree = trees(&sandbox, &[]).remove(0);
    assert_eq!(remedies(&tree).iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["end"]);
    assert_eq!(tree["rows"][0]["name"], name);
    holder.release();
    ends(waiter);
}
