//! A waker for a thread that waits for descriptors: it writes a byte into a stream.

use std::{io::Write, sync::Arc, task::Wake};

use navlock_platform::socket::Stream;

/// Wakes the thread that waits for the other end of this stream, so that it looks at its locks
/// again.
pub(super) struct StreamWaker(Stream);

impl StreamWaker {
    /// `end` must be non-blocking.
    pub(super) fn new(end: Stream) -> Self {
        Self(end)
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        // If the stream is full, the other end is readable already.
        let _ = (&self.0).write(&[0]);
    }
}
