//! What a request says of the locks that its agent holds already.

use crate::look::LockId;

/// The locks inside which a request is made, and whether it fails in a deadlock. Few requests say
/// either.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nesting {
    pub(crate) inside: Vec<LockId>,
    pub(crate) fails_on_deadlock: bool,
}

impl Nesting {
    /// The nesting of a request; `None` if nothing was said of it.
    pub(super) fn boxed(self) -> Option<Box<Self>> {
        let says_anything = self.fails_on_deadlock || !self.inside.is_empty();
        says_anything.then(|| Box::new(self))
    }
}
