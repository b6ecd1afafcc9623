//! The library in programs of all kinds: with executors and without, and with many threads on one connection.
//! The thread that reads the connection for others forgets none of them.

use std::{
    future::Future,
    process::Stdio,
    sync::{Barrier, mpsc},
    thread,
    time::Duration,
};

use navlock::{LockManager, Lost, Place, UserAgent, blocking};

use crate::{
    sandbox::{NAVLOCK, Sandbox, wait},
    system::{absolute, is_wine},
    worker::{self, TIMEOUT},
};

/// How often each user asks for a lock. By Wine a message takes many times longer.
fn rounds() -> usize {
    if is_wine() { 250 } else { 1000 }
}

/// The executors that run futures.
#[derive(Clone, Copy, Debug)]
enum Executor {
    Blocking,
    Pollster,
    Smol,
    Tokio,
}

const EXECUTORS: [Executor; 4] =
    [Executor::Blocking, Executor::Pollster, Executor::Smol, Executor::Tokio];

impl Executor {
    fn run<F: Future>(self, future: F) -> F::Output {
        match self {
            Self::Blocking => blocking::block_on(future),
            Self::Pollster => pollster::block_on(future),
            Self::Smol => smol::block_on(future),
            Self::Tokio => {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(future)
            }
        }
    }
}

/// Does each piece of work on a thread of its own, and fails if they are not done in good time.
fn soon(work: impl IntoIterator<Item = Box<dyn FnOnce() + Send>>) {
    let (done, is_done) = mpsc::channel();
    let threads: Vec<_> = work
        .into_iter()
        .map(|work| {
            let done = done.clone();
            thread::spawn(move || {
                work();
                done.send(()).unwrap();
            })
        })
        .collect();
    drop(done);
    for _ in &threads {
        // If one has failed, this ends too.
        is_done.recv_timeout(2 * TIMEOUT).expect("nobody waits for what is there");
    }
}

/// Takes a few locks, one after the other, in one executor.
async fn use_locks(locks: LockManager, user: usize) {
    for round in 0..rounds() {
        let name = ["a", "b", "c"][(user + round * (user + 1)) % 3];
        let request = locks.lock(name);
        let request = if (user + round) % 5 == 0 { request.shared() } else { request };
        drop(request.await.unwrap());
    }
}

/// The role of a program that uses one connection in all ways at once.
pub(crate) fn mix(_: &[&str]) {
    let connect = |executor: Executor| -> UserAgent { executor.run(navlock::local()).unwrap() };
    // A user on each executor, for a connection that Tokio made and for one that Smol made.
    let users = [Executor::Tokio, Executor::Smol].into_iter().flat_map(|executor| {
        let locks = connect(executor).lock_manager("default");
        EXECUTORS.into_iter().enumerate().map(move |(user, executor)| {
            let locks = locks.clone();
            Box::new(move || executor.run(use_locks(locks, user))) as Box<dyn FnOnce() + Send>
        })
    });
    // Besides, many tasks on threads that are not their own.
    let locks = connect(Executor::Pollster).lock_manager("default");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks = Box::new(move || {
        runtime.block_on(async {
            let tasks: Vec<_> =
                (0..4).map(|user| tokio::spawn(use_locks(locks.clone(), user))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    soon(users.chain([tasks as Box<dyn FnOnce() + Send>]));
}

#[test]
fn any_executor_and_none_use_one_connection_together() {
    let sandbox = Sandbox::new();
    let mut program = worker::program(&sandbox, "executors::mix", "");
    program.env("NAVLOCK_BIN", absolute(NAVLOCK)).stdout(Stdio::null());
    let mut programs = [program.spawn().unwrap(), program.spawn().unwrap()];
    assert!(programs.each_mut().map(wait).iter().all(std::process::ExitStatus::success));
    assert!(sandbox.query().is_empty());
}

#[test]
fn threads_that_block_on_one_connection_hear_for_each_other() {
    let sandbox = Sandbox::new();
    let place = Place::at(sandbox.socket());
    // Each thread passes a lock of its own to and fro with one of another connection.
    let users = (0..2).flat_map(|_| {
        let locks = worker::connect(&place).lock_manager("default");
        ["a", "b", "c"].map(|name| {
            let locks = locks.clone();
            Box::new(move || {
                for _ in 0..2 * rounds() {
                    drop(locks.lock(name).blocking().unwrap());
                }
            }) as Box<dyn FnOnce() + Send>
        })
    });
    soon(users);
}

#[test]
fn a_loss_is_told_at_once_also_while_another_thread_blocks_for_a_lock() {
    let sandbox = Sandbox::new();
    let place = Place::at(sandbox.socket());
    let (ours, theirs) = (worker::connect(&place), worker::connect(&place));
    let work = move || {
        let (ours, theirs) = (ours.lock_manager("default"), theirs.lock_manager("default"));
        let (begin, end) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds() {
                    begin.wait();
                    drop(ours.lock("busy").blocking().unwrap());
                    end.wait();
                }
            });
            for round in 0..rounds() {
                let busy = theirs.lock("busy").blocking().unwrap();
                begin.wait();
                let victim = ours.lock("db").blocking().unwrap();
                // The loss may be asked for before or after it happens.
                let lost = victim.lost();
                let steal = || theirs.lock("db").steal().blocking().unwrap();
                let executor = EXECUTORS[round / 2 % EXECUTORS.len()];
                let (lost, thief) = if round % 2 == 0 {
                    let thief = scope.spawn(steal);
                    (executor.run(lost), thief.join().unwrap())
                } else {
                    let thief = steal();
                    (executor.run(lost), thief)
                };
                assert_eq!(lost, Lost::Stolen);
                drop((thief, victim, busy));
                // Otherwise the other thread's request of this round could come after this thread's of the
                // next one.
                end.wait();
            }
        });
    };
    soon([Box::new(work) as Box<dyn FnOnce() + Send>]);
}

#[test]
fn a_connection_that_only_a_blocked_thread_hears_finds_the_next_broker() {
    let sandbox = Sandbox::new();
    let place = Place::at(sandbox.socket());
    let (ours, theirs) = (worker::connect(&place), worker::connect(&place));
    let (ours, theirs) = (ours.lock_manager("default"), theirs.lock_manager("default"));
    for _ in 0..10 {
        let held = theirs.lock("db").blocking_timeout(TIMEOUT).unwrap();
        let kept = ours.lock("kept").blocking_timeout(TIMEOUT).unwrap();
        thread::scope(|scope| {
            let blocked = scope.spawn(|| ours.lock("db").blocking_timeout(TIMEOUT).unwrap());
            crate::sandbox::eventually("it waits", || sandbox.query().len() == 3);
            // Time itself is the subject: after some of it, the thread that keeps the connection
            // leaves it to the other one, which nobody outside of the client can see.
            thread::sleep(Duration::from_millis(5));
            sandbox.replace_broker();
            drop(held);
            drop(blocked.join().unwrap());
        });
        assert!(!kept.is_lost());
    }
}
