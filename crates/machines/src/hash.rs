//! The hashes of the maps of a reach.

/// FAST: the hash is not keyed. Our own numbers and names are hashed. With names that collide, a
/// program could only slow down its own table.
#[cfg(not(test))]
pub(crate) use foldhash::fast::RandomState as HashState;

/// In a simulation, hashes are the same in each run, so that a run that is repeated has the same order.
#[cfg(test)]
pub(crate) use foldhash::fast::FixedState as HashState;
