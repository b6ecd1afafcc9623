//! How maps hash here.

/// FAST: what is hashed are numbers of our own and names; to slow down a table of its own is all
/// that a program could do with names that collide.
#[cfg(not(test))]
pub(crate) use foldhash::fast::RandomState as HashState;

/// In tests the same in each run, so that what is done again is done in the same order.
#[cfg(test)]
pub(crate) use foldhash::fast::FixedState as HashState;
