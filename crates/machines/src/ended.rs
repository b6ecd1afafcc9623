//! Requests and locks that have to be ended.

use navlock_core::Mode;
use navlock_engine::RequestId;

use crate::keys::{Phase, RequestKey};

/// A request or lock that has to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The request, if it is known. Its key is free when the request is ended. With `None`, no key
    /// becomes free, because nobody knows of the request, or its owner is about to end it.
    pub(crate) id: Option<RequestId>,
    pub(crate) request: RequestKey,
    pub(crate) mode: Mode,
    /// `Some` if it is known that there is only a lock, or only a request in the queue.
    pub(crate) only: Option<Phase>,
}
