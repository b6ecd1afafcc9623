//! JSON objects, one a line, with their members in the order in which they were added.

pub(crate) use navlock::host::Object;

/// Members that an object has only if something is known.
pub(crate) trait IfKnown: Sized {
    /// Adds what `add` makes of the value, if there is one.
    fn if_known<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }
}

impl IfKnown for Object {}
