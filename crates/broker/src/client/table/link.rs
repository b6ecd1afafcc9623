//! Whether there is a connection.

/// Whether there is a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    /// There will be one, or word of why not.
    Coming,
    /// There is none, until somebody needs one.
    Down,
    /// There is none, and will be none: its maintainer has gone.
    Gone,
    /// It is that of the process that this one was forked from.
    Forked,
}
