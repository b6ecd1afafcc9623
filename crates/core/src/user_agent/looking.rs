//! Looking at the locks that this process keeps.
//!
//! A picture shows one moment: all wanted shards of all buckets are locked, one after the other, before it
//! is taken. No other code locks shards of two buckets at once, and this code locks the user agent's table
//! of buckets first.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc as StdArc,
    thread,
    time::{Duration, Instant},
};

use foldhash::quality::RandomState;

use crate::{
    Error,
    backend::{AnyBackend, Heard, Looking, MemoryBackend, Reader},
    buckets::{Buckets, Entry},
    look::{Event, LookOptions, News, Overview},
    sync::{Arc, lock},
};

/// While a picture is taken, nobody gets a lock in the wanted shards. So after each picture, no
/// other one is taken for this many times as long, however many lookers there are.
const REST: u32 = 9;

/// A look at the buckets of a user agent in memory.
pub(super) struct MemoryLook {
    buckets: Arc<Buckets>,
    options: LookOptions,
    overview: Overview,
    /// Reads the board, once it has its first picture.
    follows: Option<Reader>,
}

impl MemoryLook {
    pub(super) fn new(buckets: Arc<Buckets>, options: LookOptions) -> Self {
        Self { buckets, options, overview: Overview::default(), follows: None }
    }

    /// Waits until a picture may be taken. Returns whether that is before the deadline.
    fn wait_for_turn(&self, deadline: Option<Instant>) -> bool {
        loop {
            let (rested, now) = (lock(&self.buckets.lookers).rested, Instant::now());
            let Some(rested) = rested.filter(|rested| *rested > now) else { return true };
            if deadline.is_some_and(|deadline| deadline <= now) {
                return false;
            }
            let until = deadline.map_or(rested, |deadline| deadline.min(rested));
            thread::sleep(until.duration_since(now));
        }
    }

    /// Takes a picture, and follows events from that moment on, unless they are not wanted.
    fn take_picture(&mut self) -> News {
        let buckets = lock(&self.buckets.in_use);
        let wanted: Vec<_> = wanted(&buckets, &self.options).collect();
        for (memory, _) in &wanted {
            memory.name_agents();
        }
        let mut lookers = lock(&self.buckets.lookers);
        let begin = Instant::now();
        let mut frozen: Vec<_> =
            wanted.iter().map(|(memory, bucket)| (memory.freeze(&self.options), *bucket)).collect();
        let now = Instant::now();
        if self.follows.is_none() && !self.options.once {
            let board = StdArc::clone(lookers.board.get_or_insert_default());
            for (frozen, bucket) in &mut frozen {
                frozen.begin(&board, bucket, now);
            }
            let reader = Reader::new(board);
            lookers.all.push((reader.id(), self.options.clone()));
            self.follows = Some(reader);
        }
        let picture: Vec<_> = frozen
            .iter()
            .flat_map(|(frozen, bucket)| frozen.picture(&self.options, bucket, now))
            .collect();
        let missed = self.follows.as_ref().map_or(0, |reader| reader.catch_up(&self.options));
        drop(frozen);
        let end = Instant::now();
        lookers.rested = end.checked_add(end.duration_since(begin) * REST);
        drop((lookers, wanted));
        drop(buckets);

        self.overview = Overview::default();
        for change in picture {
            self.overview.apply(&Event { at: now, change });
        }
        News::Anew { missed }
    }
}

impl Looking for MemoryLook {
    fn overview(&self) -> &Overview {
        &self.overview
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<News>, Error> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let follows = self.follows.as_mut();
        Ok(match follows.map_or(Heard::Behind, |reader| reader.read(deadline)) {
            Heard::Events(events) => {
                for event in &events {
                    self.overview.apply(event);
                }
                Some(News::Events(events))
            }
            Heard::Nothing => None,
            Heard::Behind => self.wait_for_turn(deadline).then(|| self.take_picture()),
        })
    }
}

impl Drop for MemoryLook {
    fn drop(&mut self) {
        let Some(reader) = self.follows.take() else { return };
        let buckets = lock(&self.buckets.in_use);
        let mut lookers = lock(&self.buckets.lookers);
        lookers.all.retain(|(other, _)| *other != reader.id());
        if reader.end() {
            lookers.board = None;
        }
        let leftovers: Vec<_> = wanted(&buckets, &self.options)
            .map(|(memory, _)| memory.freeze(&self.options).end())
            .collect();
        // The notes may be large, so they are dropped only when nothing is locked any more.
        drop((lookers, buckets));
        drop(leftovers);
    }
}

/// The buckets that are wanted.
fn wanted<'a>(
    buckets: &'a HashMap<String, Entry, RandomState>,
    options: &'a LookOptions,
) -> impl Iterator<Item = (&'a MemoryBackend, &'a StdArc<str>)> {
    let all = buckets.values().map(|entry| &*entry.bucket);
    let wanted = all.filter(|bucket| options.wants_bucket(&bucket.name));
    wanted.filter_map(|bucket| match &bucket.backend {
        AnyBackend::Memory(memory) => Some((memory, &bucket.name)),
        AnyBackend::Other(_) => None,
    })
}

impl fmt::Debug for MemoryLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLook").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserAgent;

    #[test]
    fn no_picture_is_taken_before_its_turn() {
        let user_agent = UserAgent::new();
        let lookers = || lock(&user_agent.0.buckets.lookers);
        let mut looks = [LookOptions::default(), LookOptions::default().once()]
            .map(|options| user_agent.look(options).unwrap());
        for look in &mut looks {
            lookers().rested = Instant::now().checked_add(Duration::from_secs(3600));
            assert_eq!(look.next(Some(Duration::from_millis(1))), Ok(None));
            lookers().rested = None;
            assert_eq!(look.next(None), Ok(Some(News::Anew { missed: 0 })));
            assert!(lookers().rested.is_some(), "each picture is followed by a rest");
        }
    }
}
