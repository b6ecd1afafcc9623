//! Locks by their names.

use navlock::{LockGuard, ResourceName};

/// The locks of these names in the order of the names, which is not the order in which locks are taken.
pub(super) fn in_order_of<'a>(
    names: &[ResourceName],
    guards: &'a [LockGuard],
) -> Vec<&'a LockGuard> {
    let guard = |name| guards.iter().find(|guard| guard.name() == name);
    names.iter().filter_map(guard).collect()
}
