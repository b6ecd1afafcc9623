//! The lock managers of a realm: one for each bucket of each user agent that the realm uses.

use std::{mem, sync::Arc};

use navlock::{LockManager, UserAgent, host::Term};
use slab::Slab;

use crate::js::Failure;

/// How many idle lock managers a realm keeps open.
///
/// A program may use a bucket for each of its tenants, for ever. An open lock manager costs
/// kilobytes here and in the broker, which takes 65,536 agents of a client.
const KEEP: usize = 256;

/// The lock managers of a realm, by number. JavaScript says when it has forgotten one.
#[derive(Default)]
pub(crate) struct Managers {
    entries: Slab<Entry>,
    /// How many are open.
    open: usize,
    /// When more than this many are open, idle ones are looked for again.
    most: usize,
    /// Grows with every use.
    now: u64,
}

struct Entry {
    user_agent: Arc<UserAgent>,
    bucket: Box<str>,
    /// `None` while the lock manager is closed. The next use opens it, as another agent.
    locks: Option<LockManager>,
    /// How many slots are in use for it. The lock manager is idle if there are none.
    uses: usize,
    used_at: u64,
    is_forgotten: bool,
}

impl Managers {
    /// Adds a lock manager, and returns its number. The first use opens the lock manager.
    pub(crate) fn add(&mut self, user_agent: Arc<UserAgent>, bucket: &str) -> u32 {
        let bucket = bucket.into();
        let entry =
            Entry { user_agent, bucket, locks: None, uses: 0, used_at: 0, is_forgotten: false };
        number(self.entries.insert(entry))
    }

    /// The lock manager, for something that goes into a slot. The caller calls
    /// [`leave`](Self::leave) when the slot is empty.
    pub(crate) fn enter(&mut self, number: u32) -> Result<&LockManager, Failure> {
        let index = self.open(number)?;
        let entry = &mut self.entries[index];
        entry.uses += 1;
        Ok(entry.locks.get_or_insert_with(|| entry.user_agent.lock_manager(&entry.bucket)))
    }

    /// As [`enter`](Self::enter), but for a look, for which no agent is needed. Returns the user agent
    /// and the bucket.
    pub(crate) fn enter_unopened(&mut self, number: u32) -> Result<(&UserAgent, &str), Failure> {
        let entry = self.entries.get_mut(number as usize).ok_or_else(unknown)?;
        entry.uses += 1;
        Ok((&entry.user_agent, &entry.bucket))
    }

    pub(crate) fn leave(&mut self, number: u32) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.uses -= 1;
            self.remove_if_over(number);
        }
    }

    /// Notes that JavaScript has no reference to the lock manager any more. Its requests and locks go
    /// on.
    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.is_forgotten = true;
            self.remove_if_over(number);
        }
    }

    pub(crate) fn client_id(&mut self, number: u32) -> Result<String, Failure> {
        let index = self.open(number)?;
        let Entry { user_agent, bucket, locks, .. } = &mut self.entries[index];
        let locks = locks.get_or_insert_with(|| user_agent.lock_manager(bucket));
        Ok(locks.client_id().to_string())
    }

    /// The term of its locks; see [`LockManager::term`].
    pub(crate) fn term(&self, number: u32) -> Option<Term> {
        self.entries.get(number as usize)?.locks.as_ref()?.term()
    }

    pub(crate) fn bucket(&self, number: u32) -> Result<&str, Failure> {
        Ok(&self.entries.get(number as usize).ok_or_else(unknown)?.bucket)
    }

    /// All open lock managers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LockManager> {
        self.entries.iter().filter_map(|(_, entry)| entry.locks.as_ref())
    }

    /// Notes a use. If the lock manager is to be opened for it, idle ones are closed first.
    fn open(&mut self, number: u32) -> Result<usize, Failure> {
        let index = number as usize;
        self.now += 1;
        let entry = self.entries.get_mut(index).ok_or_else(unknown)?;
        entry.used_at = self.now;
        if entry.locks.is_none() {
            self.open += 1;
            if self.open > self.most {
                self.close_idle();
            }
        }
        Ok(index)
    }

    /// Closes idle lock managers, except for those that were used last.
    ///
    /// FAST: closes many at once. To close one for each that is opened would mean to go through all of
    /// them each time.
    fn close_idle(&mut self) {
        let idle = |entry: &Entry| entry.uses == 0 && entry.locks.is_some();
        let mut idle: Vec<_> =
            self.entries.iter_mut().map(|(_, entry)| entry).filter(|entry| idle(entry)).collect();
        if idle.len() > KEEP {
            idle.sort_unstable_by_key(|entry| entry.used_at);
            let surplus = idle.len() - KEEP;
            for entry in &mut idle[..surplus] {
                entry.locks = None;
            }
            self.open -= surplus;
        }
        self.most = 2 * self.open.max(KEEP);
    }

    fn remove_if_over(&mut self, number: u32) {
        let index = number as usize;
        let Some(Entry { uses: 0, is_forgotten: true, .. }) = self.entries.get(index) else {
            return;
        };
        if self.entries.remove(index).locks.is_some() {
            self.open -= 1;
        }
        // After a peak, memory is given back.
        if self.entries.is_empty() {
            drop(mem::take(&mut self.entries));
        }
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends before 2^32 buckets")
}

fn unknown() -> Failure {
    Failure::Own("there is no such lock manager".to_owned())
}
