//! What may be used after a panic was caught, which is all that users have.
//!
//! The compiler cannot tell, because a reach stands behind a trait object. But the state behind our
//! mutexes is whole whatever panics: what can panic in there is foreign, a waker's functions, and is
//! called before or after a change, never within one. And a lock does not guard data, so none is left
//! half changed by us; what a program protects by it is the program's own to look after.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{
    Bucket, LockAllFuture, LockAllRequest, LockFuture, LockGuard, LockManager, LockRequest,
    LostFuture, UserAgent, host::PolledGuard,
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
