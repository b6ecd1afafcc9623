//! How often each function of Node-API was called.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

/// How often each function of Node-API was called, while that is wanted.
#[derive(Default)]
pub(crate) struct Counts {
    is_counting: Cell<bool>,
    by_name: RefCell<BTreeMap<&'static str, u64>>,
}

impl Counts {
    pub(crate) fn start(&self) {
        self.by_name.borrow_mut().clear();
        self.is_counting.set(true);
    }

    /// As lines of a name and a number.
    pub(crate) fn stop(&self) -> String {
        self.is_counting.set(false);
        let by_name = self.by_name.borrow();
        let line = |(name, count): (&&str, &u64)| format!("{name} {count}");
        by_name.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn add(&self, name: &'static str) {
        if self.is_counting.get() {
            *self.by_name.borrow_mut().entry(name).or_default() += 1;
        }
    }
}
