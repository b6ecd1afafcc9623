//! What is complete before another process begins to ask is seen by what it asks.
//!
//! Two processes take turns. The first one does something completely, and then writes a byte to the second one,
//! which asks at once. What it is told has to be right every time: whatever else the two do, whether names are
//! owned, and whichever clocks the two have.
//!
//! One thing is not promised, and is not tested: the order of two requests that are both on their way.

mod acts;
mod commands;
mod deaths;
mod noise;
mod side;

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Stdio},
};

use self::{acts::Act, noise::Noise};
pub(crate) use self::{
    commands::{kills, make_noise},
    side::play,
};
use crate::{
    sandbox::{Sandbox, wait},
    worker::{self, Worker},
};

/// What is around the two while they take turns.
struct Circumstances {
    what: &'static str,
    noise: Noise,
    /// Which of the two, if any, has a clock that is more than a day ahead.
    ahead: Option<&'static str>,
}

const CIRCUMSTANCES: [Circumstances; 5] = [
    Circumstances { what: "nothing else", noise: Noise::None, ahead: None },
    Circumstances { what: "threads make noise", noise: Noise::Threads, ahead: None },
    Circumstances { what: "the first one's socket is full", noise: Noise::Flood, ahead: None },
    Circumstances {
        what: "the first one's clock is ahead",
        noise: Noise::None,
        ahead: Some("first"),
    },
    Circumstances {
        what: "the second one's clock is ahead",
        noise: Noise::None,
        ahead: Some("second"),
    },
];

/// A program before another one, which then has a clock of its own.
const AHEAD: [&str; 6] = ["--time", "--fork", "--kill-child", "--monotonic", "100000", "--"];

/// Whether this system lets us give a process a clock of its own.
fn has_clocks() -> bool {
    let tried = Command::new("unshare").args(AHEAD).arg("true").stderr(Stdio::null()).spawn();
    tried.is_ok_and(|mut child| wait(&mut child).success())
}

/// Has two processes do this in turns, and returns how often the second one was told what is wrong.
fn wrong(act: &Act, owned: bool, around: &Circumstances) -> usize {
    let sandbox = Sandbox::new();
    let pipe = UnixStream::pair().unwrap();
    let start = |side: &str, end: UnixStream| {
        let mut command = sandbox.program(std::env::current_exe().unwrap());
        if around.ahead == Some(side) {
            command = sandbox.program("unshare");
            command.args(AHEAD).arg(std::env::current_exe().unwrap());
        }
        let words = format!("{side} {} {}", act.name, around.noise.word());
        worker::cast(command.args(worker::PLAY), "order::play", &words);
        command.env("NAVLOCK_DELEGATE", if owned { "1" } else { "0" });
        command.stdin(OwnedFd::from(end)).stdout(Stdio::piped());
        Worker::of(command.spawn().unwrap())
    };
    // The ends of the pipe are the children's alone, so that each one sees the other one end.
    let (mut first, mut second) = (start("first", pipe.0), start("second", pipe.1));
    let wrong = second.read_line().parse().unwrap();
    assert!(first.ended().success() && second.ended().success());
    wrong
}

/// Asserts that this act is seen in all circumstances, with owned names and without.
fn assert_is_seen(act: &Act) {
    let has_clocks = has_clocks();
    if !has_clocks {
        println!("skipped: clocks that are ahead, because unshare is refused");
    }
    let mut faults = Vec::new();
    for around in CIRCUMSTANCES.iter().filter(|around| has_clocks || around.ahead.is_none()) {
        for owned in [true, false] {
            let wrong = wrong(act, owned, around);
            let names = if owned { "owned names" } else { "names that nobody owns" };
            let line =
                format!("{wrong} of {} wrong: {}, {names}, {}", act.rounds, act.name, around.what);
            println!("{line}");
            if wrong > 0 {
                faults.push(line);
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn a_lock_that_was_released_is_available() {
    assert_is_seen(&acts::RELEASE);
}

#[test]
fn a_lock_whose_holder_has_died_is_available() {
    assert_is_seen(&deaths::DEATH);
}

#[test]
fn a_request_that_was_aborted_stands_in_nobodys_way() {
    assert_is_seen(&acts::ABORT);
}

#[test]
fn a_request_that_was_aborted_is_not_shown() {
    assert_is_seen(&acts::ABORT_SEEN);
}

#[test]
fn a_lock_that_was_granted_is_not_available() {
    assert_is_seen(&acts::GRANT);
}

#[test]
fn a_lock_that_was_stolen_is_the_thiefs() {
    assert_is_seen(&acts::THEFT);
}

#[test]
fn who_sees_a_lock_of_an_agent_sees_what_it_had_requested_before() {
    assert_is_seen(&acts::REQUESTS);
    assert_is_seen(&acts::REQUESTS_MEANWHILE);
}

#[test]
fn who_sees_a_lock_of_an_agent_does_not_see_what_it_had_released_before() {
    assert_is_seen(&acts::TURNS_MEANWHILE);
}

#[test]
fn requests_of_an_agent_that_could_be_granted_are_answered_in_their_order() {
    assert_is_seen(&acts::ANSWERS);
}
