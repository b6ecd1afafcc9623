//! The numbers of names on the page.

use std::collections::HashMap;

use navlock::look::LockName;

/// The numbers by which the page refers to names, because names can be any text.
#[derive(Default)]
pub(super) struct NameNumbers {
    last: u64,
    pub(super) of: HashMap<LockName, u64>,
    pub(super) names: HashMap<u64, LockName>,
}

impl NameNumbers {
    pub(super) fn forget(&mut self, is_needed: impl Fn(&LockName, u64) -> bool) {
        self.of.retain(|name, key| is_needed(name, *key));
        let left = &self.of;
        self.names.retain(|_, name| left.contains_key(name));
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
        self.of.insert(name.clone(), self.last);
        self.names.insert(self.last, name.clone());
        self.last
    }
}
