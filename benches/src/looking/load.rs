//! What there is to look at, and how many lookers there are.

/// How many lookers there are.
pub(super) const MANY: usize = 10;

/// How many names are held all the time.
pub(super) const HELD: usize = 10_000;

/// How many names the busy client takes in turn.
pub(super) const NAMES: u32 = 100;

/// How often the busy client takes a lock in a second; each is granted and released.
pub(super) const PAIRS: u32 = 5_000;
