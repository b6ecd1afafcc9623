//! The buckets of one user agent that are in use.

use std::{collections::HashMap, fmt, sync::Arc as StdArc, time::Instant};

use foldhash::quality::RandomState;

use crate::{
    backend::{AnyBackend, AnyReach, Board},
    look::LookOptions,
    sync::{Arc, Mutex, Weak, lock, shrink},
};

/// The buckets of a user agent, and where they come from.
pub(crate) struct Buckets {
    pub(crate) reach: AnyReach,
    /// The buckets in use, by name. Locked before anything within a bucket.
    pub(crate) in_use: Mutex<HashMap<String, Entry, RandomState>>,
    /// Who looks at the buckets, if this process keeps the locks. Locked after `in_use`.
    pub(crate) lookers: Mutex<Lookers>,
}

/// A bucket in use.
pub(crate) struct Entry {
    pub(crate) bucket: Arc<OpenBucket>,
    /// This is dead while the last use is being dropped.
    uses: Weak<BucketUse>,
}

/// A share in a bucket's use: when the last is gone, the user agent forgets the bucket.
pub(crate) struct BucketUse {
    buckets: Arc<Buckets>,
    pub(crate) bucket: Arc<OpenBucket>,
}

/// A bucket that has a lock manager.
pub(crate) struct OpenBucket {
    /// Shared with those who look.
    pub(crate) name: StdArc<str>,
    pub(crate) backend: AnyBackend,
}

/// Who looks at the buckets of a user agent in memory. Locked after its buckets.
#[derive(Default)]
pub(crate) struct Lookers {
    /// The board on which lookers are told what happens. `None` if nobody looks.
    pub(crate) board: Option<StdArc<Board>>,
    /// What each looker wants to see, with its key on the board.
    pub(crate) all: Vec<(u64, LookOptions)>,
    /// When the next picture may be taken.
    pub(crate) rested: Option<Instant>,
}

impl Buckets {
    pub(crate) fn new(reach: AnyReach) -> Arc<Self> {
        Arc::new(Self { reach, in_use: Mutex::default(), lookers: Mutex::default() })
    }

    /// The bucket of this name, opened if it is not in use yet.
    #[inline]
    pub(crate) fn open(self: &Arc<Self>, name: &str) -> Arc<BucketUse> {
        let mut in_use = lock(&self.in_use);
        if let Some(entry) = in_use.get_mut(name) {
            // If the last use is just being dropped, the bucket is taken over as it is.
            return entry.uses.upgrade().unwrap_or_else(|| {
                let again = BucketUse::new(Arc::clone(self), Arc::clone(&entry.bucket));
                entry.uses = Arc::downgrade(&again);
                again
            });
        }
        let bucket = Arc::new(OpenBucket::new(name, self.reach.open_bucket(name)));
        lock(&self.lookers).begin_in(&bucket);
        let first = BucketUse::new(Arc::clone(self), Arc::clone(&bucket));
        in_use.insert(name.to_owned(), Entry { bucket, uses: Arc::downgrade(&first) });
        first
    }

    /// Called when the last use of a bucket is dropped: forgets the bucket, unless somebody uses it
    /// again.
    fn leave(&self, bucket: &OpenBucket) {
        let mut in_use = lock(&self.in_use);
        // The entry may belong to a later bucket with the same name, or be in use again.
        let unused = in_use.get(&*bucket.name).is_some_and(|entry| {
            std::ptr::eq(Arc::as_ptr(&entry.bucket), bucket) && entry.uses.strong_count() == 0
        });
        if unused {
            bucket.backend.retire();
            in_use.remove(&*bucket.name);
            shrink(&mut in_use);
        }
    }
}

impl BucketUse {
    fn new(buckets: Arc<Buckets>, bucket: Arc<OpenBucket>) -> Arc<Self> {
        Arc::new(Self { buckets, bucket })
    }
}

impl Drop for BucketUse {
    fn drop(&mut self) {
        self.buckets.leave(&self.bucket);
    }
}

impl OpenBucket {
    fn new(name: &str, backend: AnyBackend) -> Self {
        Self { name: name.into(), backend }
    }
}

impl Lookers {
    /// Begins to tell of a new bucket to all who want to see it.
    fn begin_in(&self, bucket: &OpenBucket) {
        let (Some(board), AnyBackend::Memory(memory)) = (&self.board, &bucket.backend) else {
            return;
        };
        let wanted = self.all.iter().filter(|(_, wants)| wants.wants_bucket(&bucket.name));
        for (_, wants) in wanted {
            memory.freeze(wants).begin(board, &bucket.name, Instant::now());
        }
    }
}

impl fmt::Debug for OpenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenBucket").field("name", &self.name).finish_non_exhaustive()
    }
}
