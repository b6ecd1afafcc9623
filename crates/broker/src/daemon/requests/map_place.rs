//! Where a lock stands in its client's map.

use navlock_wire::Slot;

use super::super::delegations::Delegation;

/// The place in its client's map in which a lock stands, or is to stand.
pub(super) enum MapPlace {
    Nowhere,
    Wanted(Slot),
    /// In a box, because a map has room for few of the locks.
    In(Box<Delegation>),
}
