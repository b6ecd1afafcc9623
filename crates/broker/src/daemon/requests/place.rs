//! Where a lock stands in its client's map.

use navlock_wire::Slot;

use super::super::delegations::Delegation;

/// Where a lock is to stand, or stands, in its client's map.
pub(super) enum SlotPlace {
    Nowhere,
    Wanted(Slot),
    In(Delegation),
}
