//! What is told of a connection or process of a `Readiness`.

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The key of the connection or process.
    pub key: usize,
    /// Whether the connection has ended. This is told once.
    pub has_ended: bool,
    /// Whether there was something to read, and nothing else to tell, in the moment in which the system looked.
    pub is_sure: bool,
}

impl Found {
    /// A connection or process that may have something.
    pub fn unsure(key: usize) -> Self {
        Self { key, has_ended: false, is_sure: false }
    }
}
