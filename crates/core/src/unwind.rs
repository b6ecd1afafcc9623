//! Unwind safety: all types that users have may be used after a panic was caught.
//!
//! The compiler cannot know this, because a reach is a trait object. No panic leaves the state
//! behind our mutexes half changed: only the caller's code can panic there, in the functions of
//! wakers, and these are called before or after a change, never within one. A lock itself contains
//! no data that a panic could leave half changed. For the data that a program protects by a lock,
//! the program is responsible.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{
    Bucket, LockAllFuture, LockAllRequest, LockFuture, LockGuard, LockManager, LockRequest,
    LostFuture, Refusal, UserAgent, host::PolledGuard,
};

impl UnwindSafe for UserAgent {}
impl RefUnwindSafe for UserAgent {}

impl UnwindSafe for Bucket {}
impl RefUnwindSafe for Bucket {}

impl UnwindSafe for LockManager {}
impl RefUnwindSafe for LockManager {}

impl UnwindSafe for LockGuard {}
impl RefUnwindSafe for LockGuard {}

impl UnwindSafe for PolledGuard {}
impl RefUnwindSafe for PolledGuard {}

// The cause of a `Refusal` or an `Unreachable` is a trait object as well, and is only read.
impl UnwindSafe for Refusal {}
impl RefUnwindSafe for Refusal {}

impl UnwindSafe for LostFuture<'_> {}
impl RefUnwindSafe for LostFuture<'_> {}

impl<G, N: UnwindSafe> UnwindSafe for LockRequest<'_, G, N> {}
impl<G, N: RefUnwindSafe> RefUnwindSafe for LockRequest<'_, G, N> {}

impl<G, N: UnwindSafe> UnwindSafe for LockFuture<'_, G, N> {}
impl<G, N: RefUnwindSafe> RefUnwindSafe for LockFuture<'_, G, N> {}

impl<G> UnwindSafe for LockAllRequest<G> {}
impl<G> RefUnwindSafe for LockAllRequest<G> {}

impl<G> UnwindSafe for LockAllFuture<G> {}
impl<G> RefUnwindSafe for LockAllFuture<G> {}
