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
        [("0", false, 5), ("1", false, 5), ("0", true, 1), ("1", true, 1)]
    {
        let sandbox = Sandbox::new();
        for _ in 0..rounds {
            let mut command = worker::program(&sandbox, "stopped::asks", "");
            command.env("NAVLOCK_DELEGATE", delegate).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut holder = Worker::of(command.spawn().unwrap());
            assert_eq!(holder.read_line(), "held");
            holder.stop();
            let since = Instant::now();
            if given_up {
                // The next broker would believe the holder's map.
                sandbox.remove_clients();
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
