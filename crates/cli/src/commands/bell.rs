//! Being woken where descriptors are waited for.

use std::{io::Write, sync::Arc, task::Wake};

use navlock_platform::socket::Stream;

/// Has whoever waits for the other end of this look at the locks.
pub(super) struct Bell(Stream);

impl Bell {
    /// By this end, which does not block.
    pub(super) fn new(end: Stream) -> Self {
        Self(end)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // If it is full there is something in it.
        let _ = (&self.0).write(&[0]);
    }
}
