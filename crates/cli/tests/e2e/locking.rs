//! Who gets the lock, and when.

#[cfg(unix)]
use std::fs;

#[cfg(unix)]
use crate::sandbox::{finish, wait, write};
use crate::{
    sandbox::{Holder, Sandbox, eventually},
    system::SHELL,
};

#[test]
#[cfg(unix)]
fn a_counter_read_and_written_under_a_lock_loses_no_increment() {
    let sandbox = Sandbox::new();
    write(&sandbox.path("counter"), "0\n");
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
        \"$NAVLOCK\" run counter -- sh -c 'read n <counter; echo $((n + 1)) >counter' || exit; done";
    let start = || sandbox.program("sh").args(["-c", script]).spawn().unwrap();
    for mut worker in (0..8).map(|_| start()).collect::<Vec<_>>() {
        assert!(wait(&mut worker).success());
    }
    assert_eq!(fs::read_to_string(sandbox.path("counter")).unwrap(), "160\n");
}

#[test]
fn readers_overlap_and_keep_a_writer_out() {
    let sandbox = Sandbox::new();
    let readers = [sandbox.hold(&["-s", "db"]), sandbox.hold(&["--shared", "db"])];
    assert_eq!(sandbox.query(), ["held db shared", "held db shared"]);
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    let mut writer = sandbox.wait_for(&["db"]);
    eventually("the writer waits", || sandbox.query().len() == 3);
    // The request comes behind the writer: no request overtakes another.
    assert_eq!(sandbox.code(&["run", "-n", "-s", "db", "true"]), 1);
    readers.into_iter().for_each(Holder::release);
    writer.begun();
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    writer.release();
    assert!(sandbox.query().is_empty());
}

#[test]
fn a_command_that_does_not_want_to_wait_fails_at_once_and_runs_nothing() {
    let sandbox = Sandbox::new();
    let url = "url=http://localhost:3000";
    let holder = sandbox.hold(&["--why", "nightly", "--meta", url, "db"]);
    for option in ["-n", "-w0"] {
        let output = sandbox.output(&["run", option, "db", "--", "touch", "ran"]);
        assert_eq!(output.code(), Some(1));
        assert!(!sandbox.path("ran").exists());
        // The command says who is in the way.
        let said = output.stderr;
        let holder = format!("{SHELL}[{}] ", holder.command().as_raw_nonzero());
        assert!(said.starts_with(&format!("navlock: \"db\" is held by {holder}")), "{said}");
        assert!(said.ends_with(&format!("s (nightly), {url}\n")), "{said}");
    }
    let quiet = sandbox.output(&["run", "-q", "-n", "db", "true"]);
    assert_eq!((quiet.code(), &*quiet.stderr), (Some(1), ""));
    assert_eq!(sandbox.code(&["run", "-n", "other", "--", "touch", "ran"]), 0);
    assert!(sandbox.path("ran").exists());
    holder.release();
}

#[test]
fn a_waiter_leaves_the_queue_after_its_timeout() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["-s", "db"]);
    let writer = sandbox.output(&["run", "-w", "0.2", "db", "--", "touch", "ran"]);
    assert_eq!(writer.status.code(), Some(1));
    let said = writer.stderr;
    assert!(said.contains("\"db\" could not be had within 0.2 s"), "{said}");
    assert_eq!(sandbox.query(), ["held db shared"]);
    assert_eq!(sandbox.code(&["run", "-n", "-s", "db", "true"]), 0);
    assert!(!sandbox.path("ran").exists());
    holder.release();
}

#[test]
fn a_waiter_is_told_after_a_second_for_which_holder_it_waits() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["--why", "to see", "db"]);
    let first = sandbox.queue(&["-q", "db"]);
    let command = format!("held by {SHELL}[{}] ", holder.command().as_raw_nonzero());
    // The waiter says this line only if it learns it before the line is due.
    eventually("it is told for what", || {
        let waiter = sandbox.output(&["run", "-w", "2.5", "db", "true"]);
        let said = waiter.stderr;
        said.starts_with("navlock: waiting for \"db\" (exclusive) ")
            && said.contains(&command)
            && said.contains("s (to see); 1 ahead\n")
    });
    drop(first);
    eventually("it has left", || sandbox.query().len() == 1);
    // A quiet command says nothing at all.
    let quiet = sandbox.output(&["run", "-q", "-w", "1.2", "db", "true"]);
    assert_eq!((quiet.code(), &*quiet.stderr), (Some(1), ""));
    holder.release();
}

#[test]
fn a_verbose_command_tells_each_of_its_steps() {
    let sandbox = Sandbox::new();
    let said = sandbox.output(&["run", "-v", "db", "true"]).stderr;
    let lines = said.lines().filter(|line| !line.starts_with("navlock: waiting for "));
    let lines: Vec<_> = lines.collect();
    for (line, beginning) in lines.iter().zip([
        "navlock: the bucket \"default\" lives ",
        "navlock: connected to ",
        "navlock: took \"db\" (exclusive) after ",
        "navlock: running true (process ",
        "navlock: true ended after ",
    ]) {
        assert!(line.starts_with(beginning), "{said}");
    }
    assert_eq!(lines.len(), 5, "{said}");
    assert_eq!(sandbox.code(&["run", "-v", "-q", "db", "true"]), 64);
}

#[test]
#[cfg(unix)]
fn processes_are_served_in_the_order_in_which_they_came() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let waiters: Vec<_> = (0..6)
        .map(|i| {
            let append = format!("echo {i} >>order");
            let waiter = sandbox.start(&["run", "db", "sh", "-c", &append]);
            eventually("it waits", || sandbox.query().len() == i + 2);
            waiter
        })
        .collect();
    holder.release();
    for waiter in waiters {
        assert!(finish(waiter).status.success());
    }
    assert_eq!(fs::read_to_string(sandbox.path("order")).unwrap(), "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn buckets_have_locks_of_their_own() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["--bucket", "mine", "db"]);
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0);
    assert_eq!(sandbox.code(&["run", "-n", "--bucket", "mine", "db", "true"]), 1);
    assert!(sandbox.query().is_empty());
    holder.release();
}

#[test]
#[cfg(unix)]
fn the_command_is_told_what_it_holds() {
    let sandbox = Sandbox::new();
    let script = "echo $NAVLOCK_NAME $NAVLOCK_MODE $NAVLOCK_FENCE";
    let fence = |mode: &str, flag: &str| -> u64 {
        let output = sandbox.output(&["run", flag, "my db", "--", "sh", "-c", script]);
        let said = output.stdout;
        let number = said.trim().strip_prefix(&format!("my db {mode} "));
        number.unwrap_or_else(|| panic!("{said}")).parse().unwrap()
    };
    let first = fence("shared", "-s");
    assert!(fence("exclusive", "-x") > first);
}

#[test]
#[cfg(unix)]
fn a_command_whose_name_is_too_long_for_a_variable_runs_without_it() {
    let sandbox = Sandbox::new();
    for (length, told) in [(32 << 10, 32 << 10), ((32 << 10) + 1, 0), (131_000, 0)] {
        let script = "echo ${#NAVLOCK_NAME}";
        let output = sandbox.output(&["run", &"n".repeat(length), "sh", "-c", script]);
        assert_eq!(output.stdout, format!("{told}\n"), "{length}");
    }
}

#[test]
fn a_query_shows_one_name_and_speaks_json() {
    let sandbox = Sandbox::new();
    let holders = [sandbox.hold(&["a"]), sandbox.hold(&["-s", "b \"quoted\""])];
    let all = sandbox.written(&["query", "--json"]);
    assert_eq!(all.lines().count(), 2);
    let one = sandbox.written(&["query", "--json", "b \"quoted\""]);
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["state"], "held");
    assert_eq!(one["name"], "b \"quoted\"");
    assert_eq!(one["mode"], "shared");
    assert_eq!(one["clientId"].as_str().unwrap().len(), 36);
    holders.into_iter().for_each(Holder::release);
}
