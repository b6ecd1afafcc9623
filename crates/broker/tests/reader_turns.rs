//! How the maintainer of a connection and the threads that read for themselves take turns, in every
//! order of their single steps.
//!
//! The code under test is the client's own, with the atomics of a scheduler. The reader is a lock,
//! as it is there; the wake pipe is a flag that stays set until the maintainer has seen it, as a
//! byte stays in a pipe. The code is the same on all systems, and the scheduler is built on Linux
//! alone.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[expect(dead_code, reason = "the tests use what may put a thread to sleep")]
#[path = "../src/client/connection/reader_turns.rs"]
mod reader_turns;

use shuttle::{
    scheduler::{DfsScheduler, PctScheduler, Scheduler},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use self::reader_turns::ReaderTurns;

#[derive(Default)]
struct Connection {
    turns: ReaderTurns,
    /// Who has it locked reads.
    reader: Mutex<()>,
    wake_pipe: (Mutex<bool>, Condvar),
}

impl Connection {
    /// What a thread does that blocks for an answer: it reads if it can, and then gives the reader up.
    fn read(&self) {
        let Ok(reader) = self.reader.try_lock() else {
            self.turns.want();
            return;
        };
        self.turns.take();
        drop(reader);
        if self.turns.wake_if_asleep() {
            let (is_written, written) = &self.wake_pipe;
            *is_written.lock().unwrap() = true;
            written.notify_one();
        }
    }

    fn is_free(&self) -> bool {
        self.reader.try_lock().is_ok()
    }

    /// What the maintainer does when another thread has the reader. It sleeps if the reader is not free, and
    /// sleeps for ever if nobody wakes it, which the scheduler reports.
    fn rest(&self) {
        if self.is_free() || !self.turns.sleep_unless_free(|| self.is_free()) {
            return;
        }
        let (is_written, written) = &self.wake_pipe;
        let mut is_written = is_written.lock().unwrap();
        while !*is_written {
            is_written = written.wait(is_written).unwrap();
        }
        *is_written = false;
    }
}

/// The maintainer rests while two threads read, each this often.
fn turns(rounds: usize) {
    let connection = Arc::new(Connection::default());
    let readers = [(); 2].map(|()| {
        let connection = Arc::clone(&connection);
        thread::spawn(move || (0..rounds).for_each(|_| connection.read()))
    });
    for _ in 0..rounds {
        connection.rest();
    }
    for reader in readers {
        reader.join().unwrap();
    }
}

fn run(scheduler: impl Scheduler + 'static, rounds: usize) -> usize {
    shuttle::Runner::new(scheduler, shuttle::Config::default()).run(move || turns(rounds))
}

#[test]
fn a_maintainer_that_sleeps_is_woken_in_every_order() {
    let orders = run(DfsScheduler::new(Some(200_000), false), 1);
    assert!(orders > 1000, "only {orders} orders were tried");
}

#[test]
fn a_maintainer_that_sleeps_again_and_again_is_woken() {
    run(PctScheduler::new(3, 20_000), 3);
}
