//! What a request says of itself besides its options.

use crate::look::LockId;

/// The locks inside which a request is made, whether it fails in a deadlock, and what its lock is for.
/// Few requests say any of these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nesting {
    pub(crate) inside: Vec<LockId>,
    pub(crate) fails_on_deadlock: bool,
    /// Empty if the request does not say it.
    pub(crate) why: String,
    /// The number that the request has already, if another process has made it.
    pub(crate) serial: Option<u64>,
}

impl Nesting {
    /// The nesting of a request; `None` if nothing was said of it.
    pub(super) fn boxed(self) -> Option<Box<Self>> {
        let Self { inside, fails_on_deadlock, why, serial } = &self;
        let says_nothing =
            !fails_on_deadlock && inside.is_empty() && why.is_empty() && serial.is_none();
        (!says_nothing).then(|| Box::new(self))
    }
}
