//! A request or lock that is to be ended.

use navlock_core::Mode;
use navlock_engine::RequestId;

use crate::keys::{Phase, RequestKey};

/// A request or lock to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Whose it is, if that is known: its key is free after this. What nobody knows of, or is about
    /// to be ended by its owner, frees no key.
    pub(crate) id: Option<RequestId>,
    pub(crate) request: RequestKey,
    pub(crate) mode: Mode,
    /// Where it is, if it is known that it is nowhere else.
    pub(crate) only: Option<Phase>,
}
