//! The broker is killed: who held, holds; who waited, waits.

use std::{
    fs,
    sync::{Barrier, mpsc},
    thread,
    time::{Duration, Instant},
};

use navlock::{BrokerReach, ConnectOptions, LockManager, Place, UserAgent, blocking::block_on};

use crate::{
    sandbox::{Holder, NAVLOCK, Sandbox, eventually},
    system::{absolute, is_wine},
    worker::TIMEOUT,
};

/// Wrappers that are stopped.
#[cfg(unix)]
mod stopped;

impl Sandbox {
    /// A client in this process, which starts a broker with this program.
    fn client(&self, program: &str) -> LockManager {
        let options = ConnectOptions::default().place(Place::at(self.socket())).program(program);
        let reach = block_on(BrokerReach::connect(options)).unwrap();
        UserAgent::with_reach(reach).lock_manager("default")
    }
}

#[test]
fn after_a_restart_holders_hold_and_waiters_are_served_in_order() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let waiters: Vec<_> = (0..4).map(|_| sandbox.queue(&["db"])).collect();
    for _ in 0..3 {
        sandbox.kill_broker();
        // The next command starts another broker, or finds it.
        assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
        assert_eq!(sandbox.query()[0], "held db exclusive");
        assert_eq!(sandbox.query().len(), 5);
    }
    holder.release();
    for mut waiter in waiters {
        waiter.begun();
        waiter.release();
    }
}

#[test]
fn readers_hold_together_again_and_the_writer_behind_them_waits() {
    let sandbox = Sandbox::new();
    let readers: Vec<_> = (0..3).map(|_| sandbox.hold(&["-s", "db"])).collect();
    let mut writer = sandbox.queue(&["db"]);
    sandbox.kill_broker();
    assert_eq!(sandbox.answered(&["run", "-n", "-s", "db", "true"]), 1);
    readers.into_iter().for_each(Holder::release);
    writer.begun();
    writer.release();
}

#[test]
fn a_command_whose_wrapper_was_killed_before_the_broker_holds_on() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let mut waiter = sandbox.queue(&["db"]);
    holder.kill_wrapper();
    for _ in 0..2 {
        sandbox.kill_broker();
        assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
        assert_eq!(sandbox.query(), ["held db exclusive", "pending db exclusive"]);
    }
    holder.let_go();
    waiter.begun();
    waiter.release();
}

#[test]
fn a_command_whose_wrapper_was_killed_after_the_broker_holds_on() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    sandbox.kill_broker();
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    holder.kill_wrapper();
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    sandbox.kill_broker();
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    holder.kill_command();
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
}

#[test]
fn a_holder_that_died_with_the_broker_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let mut waiter = sandbox.queue(&["db"]);
    sandbox.kill_broker();
    holder.kill_wrapper();
    holder.kill_command();
    waiter.begun();
    waiter.release();
    eventually("the dead leave nothing", || {
        fs::read_dir(sandbox.path("sock.clients")).unwrap().count() == 0
    });
}

#[test]
fn fencing_tokens_grow_over_restarts() {
    let sandbox = Sandbox::new();
    let keep = sandbox.hold(&["other"]);
    let mut last = 0;
    for _ in 0..5 {
        let fence = sandbox.fence("fence");
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        sandbox.kill_broker();
    }
    keep.release();
}

#[test]
fn many_who_find_the_broker_dead_start_one() {
    let sandbox = Sandbox::new();
    // By Wine, forty holders leave the next broker no time to start.
    let count = if is_wine() { 10 } else { 40 };
    let holders: Vec<_> = (0..count).map(|_| sandbox.hold(&["-s", "db"])).collect();
    sandbox.kill_broker();
    eventually("all are back", || {
        sandbox.broker().is_some() && sandbox.query().len() == holders.len()
    });
    holders.into_iter().for_each(Holder::release);
}

#[test]
fn a_command_that_was_stolen_from_does_not_get_its_lock_back_by_a_restart() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let mut both = sandbox.hold(&["-l", "a", "-l", "b"]);
    holder.kill_wrapper();
    both.kill_wrapper();
    for stolen in ["db", "a"] {
        assert_eq!(sandbox.code(&["run", "--steal", stolen, "true"]), 0);
    }
    assert_eq!(sandbox.query(), ["held b exclusive"]);
    sandbox.kill_broker();
    // The query is answered once the next broker has taken over.
    assert_eq!(sandbox.query(), ["held b exclusive"]);
    for free in ["db", "a"] {
        assert_eq!(sandbox.answered(&["run", "-n", free, "true"]), 0);
    }
    both.kill_command();
    assert_eq!(sandbox.code(&["run", "-w", "20", "b", "true"]), 0);
}

#[test]
fn a_client_that_is_busy_under_its_lock_comes_back_all_the_same() {
    let sandbox = Sandbox::new();
    let (mine, theirs) = (sandbox.client(absolute(NAVLOCK)), sandbox.client(absolute(NAVLOCK)));
    let held = block_on(theirs.lock("db")).unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (end, is_to_end) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            // After these, the thread reads the connection itself.
            for _ in 0..100 {
                drop(block_on(mine.lock("warm")).unwrap());
            }
            block_on(mine.request("db", async |_| {
                begun.send(()).unwrap();
                // Blocks the thread within the callback, as programs without an executor do.
                is_to_end.recv_timeout(TIMEOUT).unwrap();
            }))
            .unwrap();
        });
        eventually("it waits", || sandbox.query().len() == 2);
        // Wait long enough that the connection is left to the waiting thread.
        eventually("it is alone", {
            let since = Instant::now();
            move || since.elapsed() > Duration::from_millis(100)
        });
        drop(held);
        has_begun.recv_timeout(TIMEOUT).unwrap();
        sandbox.kill_broker();
        assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
        assert_eq!(sandbox.query(), ["held db exclusive"]);
        end.send(()).unwrap();
    });
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0);
}

#[test]
fn a_client_that_cannot_start_a_broker_keeps_its_lock_and_is_told_of_no_loss_while_there_is_none() {
    let sandbox = Sandbox::new();
    drop(sandbox.client(absolute(NAVLOCK)));
    // This client cannot start a broker itself.
    let locks = sandbox.client("/nonexistent");
    let held = block_on(locks.lock("db")).unwrap();
    sandbox.kill_broker();
    let error = block_on(locks.lock("other")).unwrap_err();
    assert!(error.to_string().contains("nonexistent"), "{error}");
    assert!(!held.is_lost());
    // The next command starts a broker, and finds that the client holds its lock.
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    drop(held);
    drop(block_on(locks.lock("db")).unwrap());
    // A client that has nothing delays nobody later.
    sandbox.kill_broker();
    assert_eq!(sandbox.code(&["run", "-w", "8", "db", "true"]), 0);
}

#[test]
fn two_threads_and_a_task_of_one_connection_hear_each_their_own() {
    let sandbox = Sandbox::new();
    let locks = sandbox.client(absolute(NAVLOCK));
    let start = Barrier::new(3);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..1000 {
                    drop(block_on(locks.lock("db")).unwrap());
                }
            });
        }
        start.wait();
        for _ in 0..1000 {
            drop(futures_lite::future::block_on(locks.lock("db").into_future()).unwrap());
        }
    });
}

#[test]
fn an_orphan_is_known_by_its_command_after_a_restart_too() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let pid = format!("\"pid\":{}", holder.command().as_raw_nonzero());
    // The command begins before its wrapper has said of it what it is; last, it is written down.
    let is_known = || {
        let mut files = fs::read_dir(sandbox.path("sock.clients")).unwrap();
        let will = files.find_map(|file| {
            let path = file.unwrap().path();
            (path.extension()? == "locks").then(|| fs::read(path).unwrap())
        });
        !String::from_utf8_lossy(&will.unwrap()).contains("navlock run")
    };
    eventually("the command is known", is_known);
    holder.kill_wrapper();
    for _ in 0..2 {
        let shown = sandbox.output(&["query", "--json"]).stdout;
        assert!(shown.contains(&pid), "{shown} has no {pid}");
        sandbox.kill_broker();
    }
    holder.kill_command();
}

#[test]
fn a_navlock_that_has_lost_one_of_its_locks_leaves_the_others_to_its_command() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["--on-lost", "ignore", "-l", "a", "-l", "b"]);
    assert_eq!(sandbox.code(&["run", "--steal", "a", "true"]), 0);
    assert_eq!(sandbox.query(), ["held b exclusive"]);
    holder.kill_wrapper();
    assert_eq!(sandbox.code(&["run", "-n", "a", "true"]), 0);
    assert_eq!(sandbox.answered(&["run", "-n", "b", "true"]), 1);
    holder.kill_command();
    assert_eq!(sandbox.code(&["run", "-w", "20", "b", "true"]), 0);
}
