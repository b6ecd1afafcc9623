//! The slots while a thread has them locked.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::slots::Slots;

/// The slots, as long as they are locked. When this is dropped, [`Owned`](super::Owned) knows how many notes there are.
pub(in super::super) struct OpenSlots<'a> {
    pub(super) slots: MutexGuard<'a, Slots>,
    pub(super) noted: &'a AtomicUsize,
}

impl Deref for OpenSlots<'_> {
    type Target = Slots;

    fn deref(&self) -> &Slots {
        &self.slots
    }
}

impl DerefMut for OpenSlots<'_> {
    fn deref_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }
}

impl Drop for OpenSlots<'_> {
    fn drop(&mut self) {
        self.noted.store(self.slots.notes.len(), Ordering::Relaxed);
    }
}
