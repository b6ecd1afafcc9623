//! A holder that was stopped, and asks whether it still holds.

use std::{
    fs,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    sandbox::{Sandbox, eventually, write},
    worker::{self, Worker},
};

/// While this file is there, a holder says what it is told next.
const CONTINUED: &str = "continued";

/// A holder that asks in two threads whether it has lost its lock, and says what each of them is told after the
/// process was stopped.
pub(crate) fn asks(_: &[&str]) {
    let guard = worker::locks().lock("db").blocking().unwrap();
    worker::say("held");
    let answer = || {
        loop {
            let is_continued = fs::exists(CONTINUED).unwrap();
            let is_lost = guard.is_lost();
            if is_continued {
                return is_lost;
            }
            thread::yield_now();
        }
    };
    let answers = thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(answer));
        threads.map(|thread| thread.join().unwrap())
    });
    worker::say(&format!("lost: {answers:?}"));
}

#[test]
fn a_holder_that_was_stopped_never_says_again_that_it_holds_what_it_has_lost() {
    for (delegate, given_up, rounds) in
        [("0", false, 5), ("1", false, 5), ("0", true, 2), ("1", true, 2)]
    {
        let sandbox = Sandbox::new();
        for round in 0..rounds {
            let mut command = worker::program(&sandbox, "stopped::asks", "");
            command.env("NAVLOCK_DELEGATE", delegate).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut holder = Worker::of(command.spawn().unwrap());
            assert_eq!(holder.read_line(), "held");
            holder.stop();
            let since = Instant::now();
            if given_up {
                // The next broker would believe the holder's map.
                sandbox.remove_clients();
                if round == 0 {
                    // It has asked the holder to make its file anew.
                    let note = sandbox.path("sock.clients/removed");
                    eventually("the broker has noticed", || note.exists());
                }
                sandbox.kill_broker();
                assert_eq!(sandbox.code(&["run", "-w", "60", "db", "true"]), 0);
            } else {
                assert_eq!(sandbox.code(&["run", "--steal", "db", "true"]), 0);
            }
            eventually("it was stopped for a while", || since.elapsed() > Duration::from_secs(1));
            write(&sandbox.path(CONTINUED), "");
            holder.signal(Signal::CONT);
            assert_eq!(holder.read_line(), "lost: [true, true]", "{delegate} {given_up}");
            holder.ended();
            fs::remove_file(sandbox.path(CONTINUED)).unwrap();
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_waiter_that_was_stopped_before_it_was_granted_is_shown_with_the_line_that_continues_it() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut next = sandbox.queue(&["--why", "nightly", "db"]);
    next.stop();
    holder.release();
    eventually("it is granted", || sandbox.query() == ["held db exclusive"]);
    let pid = next.wrapper().as_raw_nonzero();
    let line = format!("kill -CONT {pid}");
    let shown = sandbox.written(&["query"]);
    assert!(shown.contains(&format!(" stopped ({line}), nightly ")), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.written(&["query", "--json"])).unwrap();
    assert_eq!(json["stopped"], serde_json::json!([pid.get()]));
    let said = format!("stopped ('{line}' has it go on) (nightly)");
    sandbox.output(&["run", "-n", "db", "true"]).assert_says(1, &said);
    next.signal(Signal::CONT);
    next.begun();
    let shown = sandbox.written(&["query"]) + &sandbox.written(&["query", "--json"]);
    assert!(!shown.contains("stopped"), "{shown}");
    next.release();
}
