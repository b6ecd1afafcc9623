//! The atomics of what both sides share, exchanged for those of a model checker as a whole.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
