//! The numbers of names on the page.

use std::collections::HashMap;

use navlock::look::LockName;

use crate::text::bytes_of;

/// How many names that are not in use any more keep their numbers on the page, and how many bytes
/// these names have together.
const SPARE_KEYS: usize = 4_096;
const SPARE_BYTES: usize = 4 << 20;

/// The numbers by which the page refers to names, because names can be any text.
pub(super) struct NameNumbers {
    last: u64,
    pub(super) of: HashMap<LockName, u64>,
    pub(super) names: HashMap<u64, LockName>,
    /// How many bytes the names have together.
    pub(super) bytes: usize,
    /// If there are more names than this, or more bytes, the names that are not needed are
    /// forgotten.
    limits: (usize, usize),
}

impl NameNumbers {
    pub(super) fn new() -> Self {
        let (of, names) = (HashMap::new(), HashMap::new());
        Self { last: 0, of, names, bytes: 0, limits: (SPARE_KEYS, SPARE_BYTES) }
    }

    pub(super) fn are_many(&self) -> bool {
        self.of.len() > self.limits.0 || self.bytes > self.limits.1
    }

    pub(super) fn forget(&mut self, is_needed: impl Fn(&LockName, u64) -> bool) {
        self.of.retain(|name, key| is_needed(name, *key));
        let left = &self.of;
        self.names.retain(|_, name| left.contains_key(name));
        self.bytes = left.keys().map(bytes_of).sum();
        // FAST: the next search for such names comes only after as many more names have come.
        self.limits = (2 * left.len() + SPARE_KEYS, 2 * self.bytes + SPARE_BYTES);
    }

    /// The number of this name; 0 if it has none.
    pub(super) fn get(&self, name: &LockName) -> u64 {
        self.of.get(name).copied().unwrap_or(0)
    }

    pub(super) fn make(&mut self, name: &LockName) -> u64 {
        if let Some(key) = self.of.get(name) {
            return *key;
        }
        self.last += 1;
        self.bytes += bytes_of(name);
        self.of.insert(name.clone(), self.last);
        self.names.insert(self.last, name.clone());
        self.last
    }
}
