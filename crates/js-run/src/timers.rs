//! The timers of an agent.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::{Duration, Instant},
};

/// Timers by the number by which a script knows them. Timers that are due at the same time fire in
/// the order in which they were set.
#[derive(Default)]
pub(crate) struct Timers {
    queue: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The timers that were not cancelled, and whether the agent lives for each of them.
    set: HashMap<u64, bool>,
    referenced: usize,
}

impl Timers {
    /// Sets a timer. `number` must be larger than the numbers of all earlier timers.
    pub(crate) fn set(&mut self, number: u64, milliseconds: f64, is_referenced: bool) {
        // More than a century becomes a century. What is not a number becomes zero.
        let century = 100.0 * 366.0 * 86_400.0;
        let seconds = (milliseconds / 1000.0).clamp(0.0, century);
        let after = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        self.queue.push(Reverse((Instant::now() + after, number)));
        self.set.insert(number, is_referenced);
        self.referenced += usize::from(is_referenced);
    }

    pub(crate) fn cancel(&mut self, number: u64) {
        if self.set.remove(&number) == Some(true) {
            self.referenced -= 1;
        }
    }

    /// Takes the next timer that is due.
    pub(crate) fn take_due(&mut self) -> Option<u64> {
        let due = self.next_due().filter(|due| *due <= Instant::now())?;
        let Reverse((_, number)) = self.queue.pop().filter(|Reverse((first, _))| *first == due)?;
        self.cancel(number);
        Some(number)
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&mut self) -> Option<Instant> {
        while let Some(Reverse((due, number))) = self.queue.peek() {
            if self.set.contains_key(number) {
                return Some(*due);
            }
            self.queue.pop();
        }
        None
    }

    /// Whether the agent lives for a timer.
    pub(crate) fn keep_alive(&self) -> bool {
        self.referenced > 0
    }
}
