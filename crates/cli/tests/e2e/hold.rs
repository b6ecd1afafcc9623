//! `navlock hold`, `release` and `extend`: locks of a script that needs them over many commands.

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::{
    sandbox::{Sandbox, eventually, finish, wait},
    system::{HELD, Pid, SHELL, Signal, kill_process},
};

#[cfg(target_os = "linux")]
mod killed;
/// Scripts for `sh`, signals, and sockets that are files.
#[cfg(unix)]
mod unix;

/// Longer than any test takes. If a test fails, its holds end by this.
const LONG: &str = "100";

impl Sandbox {
    /// Takes locks for a long time, and returns what was written.
    fn hold_long(&self, arguments: &[&str]) -> String {
        self.written(&[&["hold", "--ttl", LONG], arguments].concat())
    }

    /// The process of the only holder, as the holder has named it.
    fn holder(&self) -> Pid {
        let shown = self.written(&["query", "--json"]);
        assert_eq!(shown.lines().count(), 1, "{shown}");
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        Pid::from_raw(shown["pid"].as_i64().unwrap().try_into().unwrap()).unwrap()
    }

    fn is_free(&self, name: &str) -> bool {
        self.code(&["run", "-n", "-q", name, "true"]) == 0
    }

    /// How many sockets of holds there are.
    fn sockets(&self) -> usize {
        fs::read_dir(self.path("sock.holds")).map_or(0, Iterator::count)
    }

    /// The exit code of `navlock release`, and what it says.
    fn released(&self, hold: &str) -> (Option<i32>, String) {
        let output = self.output(&["release", hold]);
        (output.code(), output.stderr)
    }
}

#[test]
fn the_output_is_an_id_and_the_tokens_in_the_order_of_the_names() {
    let sandbox = Sandbox::new();
    let hold = sandbox.hold_long(&["b", "-l", "c", "a", "b"]);
    let lines: Vec<_> = hold.lines().collect();
    // The order in which names are taken is a, b, c; options come first.
    let [id, c, b, a] = lines[..] else { panic!("{hold}") };
    assert!(a < b && b < c, "{hold}");
    let shown = sandbox.written(&["query", "--json", "b"]);
    assert!(shown.contains(id) && shown.contains(&format!("\"fencingToken\":\"{b}\"")), "{shown}");
    assert_eq!(sandbox.released(&hold), (Some(0), String::new()));
    assert!(sandbox.query().is_empty());
    eventually("its keeper has ended", || sandbox.sockets() == 0);

    let json = sandbox.hold_long(&["--json", "-s", "db"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let lock = &value["locks"][0];
    assert_eq!((&lock["name"], &lock["mode"]), (&"db".into(), &"shared".into()), "{json}");
    assert!(lock["fencingToken"].as_str().unwrap().parse::<u64>().is_ok(), "{json}");
    assert_eq!(json.lines().count(), 1);
    assert_eq!(sandbox.code(&["release", value["id"].as_str().unwrap()]), 0);
}

#[test]
fn a_hold_ends_when_its_time_is_over_whichever_process_lives() {
    let sandbox = Sandbox::new();
    let us = std::process::id().to_string();
    let hold = sandbox.written(&["hold", "--ttl", "0.2", "--while-pid", &us, "db"]);
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    eventually("nothing is left", || sandbox.sockets() == 0);
    let (code, said) = sandbox.released(&hold);
    assert_eq!(code, Some(1));
    assert!(said.contains("there is no hold ") && said.contains("its time is over"), "{said}");
    assert_eq!(sandbox.code(&["extend", &hold]), 1);
}

#[test]
fn a_time_is_extended_and_never_shortened() {
    let sandbox = Sandbox::new();
    let began = Instant::now();
    let hold = sandbox.written(&["hold", "--ttl", "8", "db"]);
    assert_eq!(sandbox.code(&["extend", &hold, LONG]), 0);
    assert_eq!(sandbox.code(&["extend", &hold, "0.001"]), 0);
    assert_eq!(sandbox.code(&["extend", &hold]), 0);
    let output = sandbox.output(&["extend", "-v", &hold, "0.001"]);
    let said = output.stderr;
    assert!(said.starts_with("navlock: held for 1m"), "{said}");
    eventually("its first time is over", || began.elapsed() > Duration::from_secs(9));
    assert_eq!(sandbox.released(&hold).0, Some(0));

    let us = std::process::id().to_string();
    let hold = sandbox.written(&["hold", "--while-pid", &us, "db"]);
    sandbox
        .output(&["extend", &hold, "60"])
        .assert_says(64, &format!("it ends when process {us} has ended"));
    assert_eq!(sandbox.released(&hold).0, Some(0));
}

#[test]
fn a_hold_for_a_process_that_ends_while_it_waits_gets_nothing() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut script = sandbox
        .program(HELD[0])
        .args(&HELD[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let asker = sandbox.start(&["hold", "--while-pid", &script.id().to_string(), "-q", "db"]);
    eventually("it waits", || sandbox.query().len() == 2);
    drop(script.stdin.take());
    let output = finish(asker);
    output.assert_says(64, "has ended; nothing is held");
    eventually("it has left the queue", || sandbox.query().len() == 1);
    holder.release();
    assert!(sandbox.query().is_empty());
    wait(&mut script);
}

#[test]
fn an_asker_is_told_when_its_waiting_keeper_is_killed() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let asker = sandbox.start(&["hold", "--ttl", LONG, "-q", "db"]);
    eventually("it waits", || sandbox.query().len() == 2);
    let shown = sandbox.written(&["query", "--json"]);
    let shown = shown.lines().find(|line| line.contains("pending")).unwrap();
    let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
    let keeper = shown["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().unwrap()));
    kill_process(keeper.unwrap(), Signal::KILL).unwrap();
    let output = finish(asker);
    output.assert_says(69, "was killed; nothing is held");
    holder.release();
}

#[test]
fn a_killed_keeper_has_freed_its_lock_and_leaves_nothing_for_long() {
    let sandbox = Sandbox::new();
    let hold = sandbox.hold_long(&["db"]);
    kill_process(sandbox.holder(), Signal::KILL).unwrap();
    assert_eq!(sandbox.code(&["run", "-w", "10", "db", "true"]), 0);
    assert_eq!(sandbox.sockets(), 1);
    assert_eq!(sandbox.released(&hold).0, Some(1));
    assert_eq!(sandbox.sockets(), 0);
    sandbox.hold_long(&["db"]);
    kill_process(sandbox.holder(), Signal::KILL).unwrap();
    eventually("it has ended", || sandbox.query().is_empty());
    let hold = sandbox.hold_long(&["db"]);
    assert_eq!(sandbox.sockets(), 1);
    assert_eq!(sandbox.released(&hold).0, Some(0));
}

#[test]
fn a_lock_is_kept_when_the_broker_is_killed() {
    let sandbox = Sandbox::new();
    let hold = sandbox.hold_long(&["db"]);
    let id = hold.lines().next().unwrap();
    sandbox.replace_broker();
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    assert!(sandbox.written(&["query", "--json"]).contains(id));
    assert_eq!(sandbox.released(&hold).0, Some(0));
    assert!(sandbox.query().is_empty());
}

#[test]
fn of_many_who_release_at_once_one_has_done_it() {
    let sandbox = Sandbox::new();
    for _ in 0..5 {
        let hold = sandbox.hold_long(&["db"]);
        let releases: Vec<_> = (0..4).map(|_| sandbox.start(&["release", &hold])).collect();
        let codes = releases.into_iter().map(|release| finish(release).status.code().unwrap());
        let mut codes: Vec<_> = codes.collect();
        codes.sort_unstable();
        assert_eq!(codes, [0, 1, 1, 1]);
        assert!(sandbox.is_free("db"));
    }
}

#[test]
fn a_hold_that_lost_a_lock_holds_nothing_and_its_release_tells_so() {
    let sandbox = Sandbox::new();
    let hold = sandbox.hold_long(&["db", "other"]);
    assert_eq!(sandbox.code(&["run", "--steal", "db", "true"]), 0);
    eventually("the other is free", || sandbox.query().is_empty());
    assert_eq!(sandbox.code(&["extend", &hold]), 75);
    let (code, said) = sandbox.released(&hold);
    assert_eq!(code, Some(75));
    let expected = "navlock: \"db\": the lock was stolen by another request; all that it held was \
                    released then\n";
    assert_eq!(said, expected);
    assert_eq!(sandbox.released(&hold).0, Some(1));
}

#[test]
fn options_of_a_request_are_as_with_run() {
    let sandbox = Sandbox::new();
    let reader = sandbox.hold_long(&["-s", "db"]);
    let other = sandbox.hold_long(&["--shared", "db"]);
    assert_eq!(sandbox.code(&["hold", "--ttl", LONG, "-n", "-q", "free", "db"]), 1);
    assert_eq!(sandbox.code(&["hold", "--ttl", LONG, "-n", "-q", "-E", "7", "db"]), 7);
    assert_eq!(sandbox.code(&["hold", "--ttl", LONG, "-w", "0.1", "free", "db"]), 1);
    assert_eq!(sandbox.query(), ["held db shared", "held db shared"]);
    let thief = sandbox.hold_long(&["--steal", "db"]);
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    for hold in [&reader, &other] {
        eventually("its keeper has heard of it", || sandbox.code(&["extend", hold]) == 75);
        assert_eq!(sandbox.released(hold).0, Some(75));
    }
    let elsewhere = sandbox.hold_long(&["--bucket", "mine", "db"]);
    for hold in [thief, elsewhere] {
        assert_eq!(sandbox.released(&hold).0, Some(0));
    }
    // People are told what it waits for.
    let holder = sandbox.hold(&["db"]);
    eventually("it is told for whom", || {
        let waiter = sandbox.output(&["hold", "--ttl", LONG, "-w", "2.5", "db"]);
        let said = waiter.stderr;
        said.starts_with("navlock: waiting for \"db\" (exclusive) ")
            && said.contains(&format!("; held by {SHELL}["))
    });
    holder.release();
}

#[test]
fn metadata_of_a_holder_is_shown_where_the_reason_is() {
    let sandbox = Sandbox::new();
    let meta = ["--meta", "url=http://localhost:3000", "--meta", "job=a b"];
    let hold = sandbox.hold_long(&[&["--why", "nightly"], &meta[..], &["db"]].concat());
    let told = "nightly, url=http://localhost:3000, job=a b ";
    assert!(sandbox.written(&["query"]).contains(told));
    let json = sandbox.written(&["query", "--json"]);
    assert!(json.contains(r#""meta":{"url":"http://localhost:3000","job":"a b"}"#), "{json}");
    let reason = "s (nightly), url=http://localhost:3000, job=a b";
    eventually("who waits is told why it is held", || {
        let waiter = sandbox.output(&["wait", "-w", "2.5", "db"]);
        let said = waiter.stderr;
        said.starts_with("navlock: waiting for ") && said.contains(reason)
    });
    // The next broker is told as well.
    sandbox.replace_broker();
    assert!(sandbox.written(&["query"]).contains(told));
    assert_eq!(sandbox.released(&hold).0, Some(0));
    let many = ["--meta=a=1"; 2];
    for arguments in [&["--meta", "url"][..], &many, &["--meta", &format!("a={}", "x".repeat(513))]]
    {
        let arguments = [&["run"], arguments, &["db", "true"]].concat();
        assert_eq!(sandbox.code(&arguments), 64, "{arguments:?}");
    }
}

#[test]
fn a_hold_is_found_after_its_files_were_removed() {
    let sandbox = Sandbox::new();
    for files in ["sock.holds", "sock.clients"] {
        let hold = sandbox.hold_long(&["db"]);
        // Whoever makes a file anew may do so before the directory is removed.
        let _ = fs::remove_dir_all(sandbox.path(files));
        assert_eq!(sandbox.released(&hold), (Some(0), String::new()), "{files}");
        assert!(sandbox.query().is_empty());
    }
}

#[test]
fn a_hold_is_released_by_a_name_that_no_other_hold_has() {
    let sandbox = Sandbox::new();
    let first = sandbox.hold_long(&["-s", "db", "other"]);
    let reader = sandbox.hold(&["-s", "db"]);
    assert_eq!(sandbox.code(&["extend", "db", LONG]), 0);
    let second = sandbox.hold_long(&["-s", "db"]);
    let (code, said) = sandbox.released("db");
    assert_eq!(code, Some(64), "{said}");
    let ids = [&first, &second].map(|hold| hold.lines().next().unwrap());
    assert!(ids.iter().all(|id| said.contains(id)) && said.contains("the id of one"), "{said}");
    assert_eq!(sandbox.released("other"), (Some(0), String::new()));
    assert_eq!(sandbox.released("db"), (Some(0), String::new()));
    let (code, said) = sandbox.released("db");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("\"db\" is held by no 'navlock hold'"), "{said}");
    assert_eq!(sandbox.query(), ["held db shared"]);
    reader.release();
}
