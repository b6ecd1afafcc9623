//! A request or lock that is to be ended.

use navlock_core::Mode;
use navlock_engine::RequestId;

use crate::keys::{Phase, RequestKey};

/// A request or lock to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The request, if it is known: its key is free once it is ended. `None` frees no key: nobody
    /// knows of the request, or its owner is about to end it.
    pub(crate) id: Option<RequestId>,
    pub(crate) request: RequestKey,
    pub(crate) mode: Mode,
    /// Whether it stands as a lock or in the queue, if it is known that it does not stand as the
    /// other.
    pub(crate) only: Option<Phase>,
}
