//! A holder that dies.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork},
};

use super::{
    acts::{Act, ask_before, let_ask_before},
    side::Side,
};

/// The first one has a child that holds the lock, kills it, and waits for its end.
pub(super) const DEATH: Act = Act {
    name: "death→ifAvailable",
    // In all circumstances together as many as others have in each: each round is a process.
    rounds: 100,
    first: |side, round| {
        let child = holder(side, round);
        let_ask_before(side, round);
        kill(child, Signal::SIGKILL).unwrap();
        waitpid(child, None).unwrap();
        side.tell();
        side.hear();
    },
    second: |side, round| {
        let is_had_before = ask_before(side, round, |side| side.try_lock("x").is_some());
        side.hear();
        let is_had = side.try_lock("x").is_some();
        side.tell();
        is_had && !is_had_before
    },
};

/// A child of this process, without a program of its own, that holds the lock when this returns.
#[allow(unsafe_code, reason = "to fork is that")]
fn holder(side: &Side, round: usize) -> Pid {
    let (mut held, mut holds) = UnixStream::pair().unwrap();
    // SAFETY: This process has no connection and no other thread that works, so there is nothing that
    // the child could find half done.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => {
            drop(holds);
            held.read_exact(&mut [0]).expect("the child holds the lock");
            child
        }
        ForkResult::Child => {
            side.turns("x", round);
            let _held = side.lock("x");
            holds.write_all(&[0]).unwrap();
            // Until it is killed.
            loop {
                thread::park();
            }
        }
    }
}
