//! How many calls may be on their way at once.
//!
//! A store that is slow serves nobody sooner because it is asked more. So the calls of a connection are
//! limited: a call that is late halves what is on its way, and each call that was answered in time allows one
//! more. All calls that one stall makes late halve it once. Keepalives are not limited, because everything
//! that is held depends on them.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Semaphore;

/// How many calls may be on their way at first.
const FIRST: usize = 64;

/// Whether a call waits until there is room for it.
#[derive(Clone, Copy, Debug)]
pub enum Turn {
    /// It waits.
    Waits,
    /// What is held may depend on the call, as on a keepalive.
    Passes,
}

/// The calls of a connection that are on their way, and those that wait for room, in their order.
#[derive(Debug)]
pub struct Load {
    room: Semaphore,
    limit: Mutex<Limit>,
}

#[derive(Debug)]
struct Limit {
    /// How many calls may be on their way.
    most: usize,
    /// How many calls are on their way or find room at once. This is more than `most` until calls have
    /// ended that were on their way when the limit was lowered.
    issued: usize,
    /// How often a late call has lowered the limit.
    lowered: u64,
}

/// A call that is on its way, until this is dropped.
#[derive(Debug)]
pub struct Running<'a> {
    load: &'a Load,
    /// How often the limit had been lowered when the call began.
    lowered: u64,
}

impl Default for Load {
    fn default() -> Self {
        let limit = Limit { most: FIRST, issued: FIRST, lowered: 0 };
        Self { room: Semaphore::new(FIRST), limit: Mutex::new(limit) }
    }
}

impl Load {
    /// Waits until there is room for a call.
    pub async fn enter(&self) -> Running<'_> {
        // The semaphore is never closed. `Running` gives the room back.
        if let Ok(room) = self.room.acquire().await {
            room.forget();
        }
        Running { load: self, lowered: self.limit().lowered }
    }

    fn limit(&self) -> MutexGuard<'_, Limit> {
        // A poisoned mutex may be used: nothing panics while it is locked.
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self, limit: &Limit) -> usize {
        limit.issued.saturating_sub(self.room.available_permits())
    }
}

impl Running<'_> {
    /// Notes that the call was answered in time.
    pub fn note_served(&self) {
        let mut limit = self.load.limit();
        // A limit that is not reached says nothing of what the store can bear.
        if 2 * self.load.running(&limit) >= limit.most {
            limit.most += 1;
            if limit.issued < limit.most {
                limit.issued += 1;
                self.load.room.add_permits(1);
            }
        }
    }

    /// Notes that the call is late.
    pub fn note_late(&self) {
        let mut limit = self.load.limit();
        // What it has met with has lowered the limit already.
        if self.lowered < limit.lowered {
            return;
        }
        limit.lowered += 1;
        limit.most = (limit.most.min(self.load.running(&limit)) / 2).max(1);
        let surplus = limit.issued.saturating_sub(limit.most);
        limit.issued -= self.load.room.forget_permits(surplus);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut limit = self.load.limit();
        if limit.issued > limit.most {
            limit.issued -= 1;
        } else {
            self.load.room.add_permits(1);
        }
    }
}

/// About this long, between half and one and a half times. What many have seen fail together, they do not
/// try again together.
pub fn about(time: Duration) -> Duration {
    // Each state of the standard library's hasher has a key of its own.
    let random = RandomState::new().hash_one(0) >> 32;
    time / 2
        + time.mul_f64(f64::from(u32::try_from(random).unwrap_or(u32::MAX)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Begins all calls for which there is room.
    fn fill(load: &Load) -> Vec<Running<'_>> {
        std::iter::from_fn(|| load.enter().now_or_never()).collect()
    }

    #[test]
    fn a_stall_halves_what_is_on_its_way_and_each_answer_allows_one_more() {
        let load = Load::default();
        let mut running = fill(&load);
        assert_eq!(running.len(), FIRST);
        running.iter().for_each(Running::note_late);
        // Those that are on their way stay on their way.
        assert!(fill(&load).is_empty());
        running.truncate(FIRST / 2);
        assert!(fill(&load).is_empty());
        running.pop();
        running.extend(fill(&load));
        assert_eq!(running.len(), FIRST / 2);
        for nth in 1..=3 {
            running[0].note_served();
            running.extend(fill(&load));
            assert_eq!(running.len(), FIRST / 2 + nth);
        }
        // It has begun after the stall.
        running.last().inspect(|last| last.note_late());
        running.truncate(FIRST / 4 + 1);
        assert!(fill(&load).is_empty());
    }

    #[test]
    fn one_call_is_always_possible() {
        let load = Load::default();
        for _ in 0..10 {
            let running = fill(&load);
            running.iter().for_each(Running::note_late);
        }
        assert_eq!(fill(&load).len(), 1);
    }

    #[test]
    fn a_limit_that_is_not_reached_does_not_grow() {
        let load = Load::default();
        for _ in 0..1000 {
            load.enter().now_or_never().expect("there is room").note_served();
        }
        assert_eq!(fill(&load).len(), FIRST);
    }
}
