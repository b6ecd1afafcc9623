//! A process that was forked from a client without a program of its own.

use std::{fs::File, io::Read, thread};

use navlock::blocking::{block_on, block_on_timeout};
use nix::unistd::{ForkResult, fork};
use rustix::process::Signal;

use crate::{
    sandbox::Sandbox,
    worker::{self, TIMEOUT, Worker},
};

/// The role of a process that holds, waits, and forks: parent and child both say what they see.
#[allow(unsafe_code, reason = "to fork is that")]
pub(crate) fn parent(words: &[&str]) {
    // The child shares this open gate: if the child opened it itself after the test is over, it would wait
    // for ever.
    let mut gate = File::open(words[0]).unwrap();
    // The lock is held by a word in memory, which the child must not find.
    let (reach, locks) = worker::connected();
    while reach.owned() == 0 {
        drop(block_on(locks.lock("db")).unwrap());
    }
    let held = block_on(locks.lock("db")).unwrap();
    // SAFETY: The child calls what a program calls that knows nothing of this, which is what is
    // tested; should it find a lock of another thread's locked, the test fails.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { .. } => {
            worker::say(&format!("parent lost={}", held.is_lost()));
            // Until it is killed.
            loop {
                thread::park();
            }
        }
        ForkResult::Child => {
            let lost = held.is_lost();
            let asked = block_on_timeout(locks.lock("other").into_future(), TIMEOUT).unwrap();
            let seen = block_on_timeout(locks.query(), TIMEOUT).unwrap();
            let told = block_on_timeout(held.lost(), TIMEOUT).unwrap();
            assert_eq!(reach.owned(), 0);
            let why = asked.unwrap_err().to_string();
            worker::say(&format!("child lost={lost} {told:?} {} {why}", seen.is_err()));
            // The child's copies must not release the parent's locks.
            drop(held);
            drop(locks);
            worker::say("child has dropped all");
            // A connection of the child's own works as usual.
            let own = worker::locks();
            assert!(block_on(own.lock("db").if_available()).unwrap().is_none());
            drop(block_on(own.lock("other")).unwrap());
            worker::say("child has had a lock");
            // Until the test is over.
            gate.read_to_end(&mut Vec::new()).unwrap();
            std::process::exit(0);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_forked_process_does_not_live_on_as_its_parent_where_no_broker_has_seen_the_parent_end() {
    let sandbox = Sandbox::new();
    let gate = sandbox.pipe("gate");
    let open = File::options().read(true).write(true).open(&gate).unwrap();
    let mut parent = Worker::start(&sandbox, "forked::parent", gate.to_str().unwrap());
    (0..4).for_each(|_| drop(parent.read_line()));
    crate::system::stop(sandbox.broker().unwrap());
    parent.signal(Signal::KILL);
    parent.ended();
    sandbox.kill_broker();
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    drop(open);
}

#[test]
fn a_forked_process_holds_nothing_and_keeps_nothing_of_its_parent_s() {
    let sandbox = Sandbox::new();
    let gate = sandbox.pipe("gate");
    let open = File::options().read(true).write(true).open(&gate).unwrap();
    let mut parent = Worker::start(&sandbox, "forked::parent", gate.to_str().unwrap());
    let mut said: Vec<_> = (0..4).map(|_| parent.read_line()).collect();
    said.sort();
    assert_eq!(said[0], "child has dropped all");
    assert_eq!(said[1], "child has had a lock");
    let child = "child lost=true Disconnected true ";
    assert!(said[2].starts_with(child) && said[2].contains("forked from"), "{said:?}");
    assert_eq!(said[3], "parent lost=false");
    // Whatever the child did, the parent still holds.
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    parent.signal(Signal::KILL);
    parent.ended();
    // The child lives, with all its copies.
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    drop(open);
}
