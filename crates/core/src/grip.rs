//! What a guard is a pointer to.

use std::{
    sync::{Arc as StdArc, OnceLock},
    task::{Poll, Waker},
};

use crate::{
    Lost, backend::PackedTicket, lock::Lock, measure::Holds, seat::Seat, sync::Arc, watch::Watch,
};

/// A guard's lock, and what it needs to release it.
pub(crate) struct Grip {
    pub(crate) lock: Lock,
    pub(crate) ticket: PackedTicket,
    pub(crate) seat: Arc<Seat>,
    pub(crate) holds: Holds,
    /// Made when anybody watches for the loss of the lock. Few ever do.
    pub(crate) watch: OnceLock<StdArc<Watch>>,
}

impl Grip {
    /// How the lock was lost, if it is.
    pub(crate) fn lost(&self) -> Option<Lost> {
        self.seat.lost(self.ticket)
    }

    /// Ready once the lock is lost, upon which the backend calls this waker and no other.
    pub(crate) fn poll_lost(&self, waker: &Waker) -> Poll<Lost> {
        self.seat.poll_lost(self.ticket, waker)
    }

    /// Ready once the lock is lost, upon which the backend calls all who [watch](Self::watch).
    pub(crate) fn poll_lost_for_all(&self) -> Poll<Lost> {
        self.poll_lost(&Waker::from(StdArc::clone(self.watch())))
    }

    pub(crate) fn watch(&self) -> &StdArc<Watch> {
        self.watch.get_or_init(Default::default)
    }
}
