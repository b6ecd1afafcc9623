//! A resource on the network that locks protect: one number, which checks fencing tokens or not.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use super::process::{Line, Process};
use crate::server::DEADLINE;

/// The number, and those who write it.
pub(crate) struct Register {
    /// Whether who has a smaller token than another had is refused.
    checks_tokens: bool,
    /// How many are to be stopped before it is over.
    faults: u64,
    /// Of them, so many have been.
    stopped: AtomicU64,
    state: Mutex<State>,
}

/// What has come of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) value: u64,
    /// The largest token of who has read or written.
    largest: u64,
    /// Writes that were done; each wrote one more than was read.
    pub(crate) writes: u64,
    /// Those of them that came after somebody with a larger token.
    pub(crate) late: u64,
    /// Reads and writes that were not done.
    pub(crate) refused: u64,
}

impl State {
    /// How many writes nothing is left of.
    pub(crate) fn lost_updates(&self) -> u64 {
        self.writes - self.value
    }
}

impl Register {
    pub(crate) fn new(checks_tokens: bool, faults: u64) -> Self {
        Self { checks_tokens, faults, stopped: AtomicU64::new(0), state: Mutex::default() }
    }

    pub(crate) fn state(&self) -> State {
        *self.state.lock().unwrap()
    }

    /// Answers one worker. Every 20th time that it has seen that its lock is not lost, and has not
    /// written yet, it is stopped until another has written; unless it is left in peace.
    pub(crate) fn serve(&self, worker: Option<&Process>, mut line: Line) {
        let mut looks = 0;
        loop {
            let asked = line.read_answer();
            let words: Vec<_> = asked.split(' ').collect();
            let number = |nth: usize| -> u64 { words[nth].parse().unwrap() };
            match words[0] {
                "read" => line.say(&self.read(number(1))),
                "looked" => {
                    looks += 1;
                    let is_due = looks % 20 == 0 && !self.is_over();
                    match worker.filter(|_| is_due) {
                        Some(worker) => {
                            worker.stop();
                            line.say("go");
                            self.until_written_after(number(1));
                            self.stopped.fetch_add(1, SeqCst);
                            worker.go_on();
                        }
                        None => line.say("go"),
                    }
                }
                "write" => line.say(self.write(number(1), number(2))),
                "done" if self.is_over() => {
                    line.say("end");
                    return;
                }
                "done" => line.say("go"),
                // The worker has failed.
                _ => return,
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stopped.load(SeqCst) >= self.faults
    }

    /// Who reads shows its token too: had only writes, one that was read before could be
    /// overwritten by who read before it.
    fn read(&self, token: u64) -> String {
        let mut state = self.state.lock().unwrap();
        if self.is_late(&mut state, token) {
            return "refused".to_owned();
        }
        state.value.to_string()
    }

    fn write(&self, token: u64, value: u64) -> &'static str {
        let mut state = self.state.lock().unwrap();
        let late = token < state.largest;
        if self.is_late(&mut state, token) {
            return "refused";
        }
        state.late += u64::from(late);
        state.value = value;
        state.writes += 1;
        "written"
    }

    fn is_late(&self, state: &mut State, token: u64) -> bool {
        let is_late = self.checks_tokens && token < state.largest;
        state.refused += u64::from(is_late);
        state.largest = state.largest.max(token);
        is_late
    }

    fn until_written_after(&self, token: u64) {
        let (since, before) = (Instant::now(), self.state().writes);
        // The one after it may have read, and not written yet.
        while self.state().largest <= token || self.state().writes == before {
            assert!(since.elapsed() < DEADLINE, "nobody else writes");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
