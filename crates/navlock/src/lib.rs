//! navlock
pub use navlock_core::*;
