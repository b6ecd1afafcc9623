//! The state that the callers of a connection and its thread share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::table::Table;

/// The state that the callers and the thread share.
///
/// # Invariant
///
/// No waker is called or dropped while the table is locked.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Table>);

impl Shared {
    /// The state of a connection to the store that is called so in messages.
    pub(crate) fn new(store: &'static str) -> Self {
        Self(Mutex::new(Table::new(store)))
    }

    /// Locks the table.
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        // A poisoned mutex may be used: only a waker's `clone` can panic while the table is locked,
        // and it is called before anything is changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
