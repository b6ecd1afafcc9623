//! A maintainer that sleeps while another thread reads is woken: with one such thread in every order of
//! their single steps, with two in many random orders.
//!
//! Only this sleep depends on a flag alone: the thread that reads wakes the maintainer only if it sees that
//! the maintainer is asleep. The maintainer's other rest ends by itself after some milliseconds (`REST`). A
//! thread that waits with the reader is woken by messages, by the end of the connection, and by a byte in a
//! wake pipe. So if one of the other flags is seen late, that costs some milliseconds and no more. The tests
//! do not check these flags.
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
    scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler},
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

/// The maintainer rests while other threads read, each this often.
fn turns(readers: usize, rounds: usize) {
    let connection = Arc::new(Connection::default());
    let spawn = |_| {
        let connection = Arc::clone(&connection);
        thread::spawn(move || (0..rounds).for_each(|_| connection.read()))
    };
    let readers: Vec<_> = (0..readers).map(spawn).collect();
    for _ in 0..rounds {
        connection.rest();
    }
    for reader in readers {
        reader.join().unwrap();
    }
}

/// Runs [`turns`] in the orders of this scheduler. Returns how many orders there were.
fn run(scheduler: impl Scheduler + 'static, readers: usize, rounds: usize) -> usize {
    let runner = shuttle::Runner::new(scheduler, shuttle::Config::default());
    runner.run(move || turns(readers, rounds))
}

#[test]
fn a_maintainer_that_sleeps_while_one_thread_reads_is_woken_in_every_order() {
    let orders = run(DfsScheduler::new(None, false), 1, 1);
    assert!(orders > 100, "only {orders} orders were tried");
}

#[test]
fn a_maintainer_that_sleeps_while_two_threads_read_is_woken() {
    run(RandomScheduler::new(50_000), 2, 1);
    run(PctScheduler::new(3, 20_000), 2, 3);
}
