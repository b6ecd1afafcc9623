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
}

impl Nesting {
    /// The nesting of a request; `None` if nothing was said of it.
    pub(super) fn boxed(self) -> Option<Box<Self>> {
        let says_anything =
            self.fails_on_deadlock || !self.inside.is_empty() || !self.why.is_empty();
        says_anything.then(|| Box::new(self))
    }
}
