//! Whether there is a connection.

/// Whether there is a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    /// A connection is being made.
    Coming,
    /// There is no connection until somebody needs one.
    Down,
    /// There is no connection, and never will be: the maintainer has gone.
    Gone,
    /// This process is a fork: the connection is its parent's.
    Forked,
}
