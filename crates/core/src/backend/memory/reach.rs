//! The reach of one process.

use navlock_engine::{FencingToken, NameHasher};

use super::{MemoryBackend, shard::Shard};
use crate::{
    backend::{Backend, Reach},
    sync::{Arc, AtomicU64, Mutex, Ordering},
};

/// The reach of one process: makes the buckets of one user agent.
///
/// Each bucket that this reach opens is new. Its clones share one thing: the fencing tokens of a
/// new bucket go on after those of the buckets that any of the clones has forgotten.
#[derive(Clone, Debug)]
pub struct MemoryReach {
    /// The first fencing token of the next bucket that is opened. It is larger than all tokens in
    /// buckets that are gone, so that the tokens of a bucket that is opened again go on.
    next_token: Arc<AtomicU64>,
    shards: usize,
}

impl Default for MemoryReach {
    fn default() -> Self {
        Self::with_first_token(FencingToken::new(1))
    }
}

impl MemoryReach {
    /// A reach whose first grant gets this token: for a daemon that goes on where an earlier one
    /// ended.
    pub fn with_first_token(token: FencingToken) -> Self {
        // With N shards, two threads with two names meet in one shard in one of N cases.
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        let shards = (8 * threads).next_power_of_two().clamp(16, 256);
        Self { next_token: Arc::new(AtomicU64::new(token.get())), shards }
    }

    /// Sets the number of shards, which is at least one. A caller with a single thread needs just
    /// one.
    #[must_use]
    pub fn with_shards(mut self, shards: usize) -> Self {
        self.shards = shards.max(1);
        self
    }

    pub(crate) fn open_memory_bucket(&self) -> MemoryBackend {
        let first_token = FencingToken::new(self.next_token.load(Ordering::SeqCst));
        let hasher = NameHasher::default();
        MemoryBackend {
            shards: (0..self.shards).map(|_| Shard::new(&hasher, first_token)).collect(),
            hasher,
            agents: Mutex::default(),
            nested: Mutex::default(),
            deciding: Mutex::default(),
            next_token: Arc::clone(&self.next_token),
        }
    }
}

impl Reach for MemoryReach {
    fn open_bucket(&self, _name: &str) -> Box<dyn Backend> {
        Box::new(self.open_memory_bucket())
    }
}
