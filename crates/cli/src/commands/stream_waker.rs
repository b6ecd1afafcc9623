//! A waker for a thread that waits for descriptors: it writes a byte into a stream.

use std::{
    io::{self, Read, Write},
    sync::Arc,
    task::{Wake, Waker},
};

use navlock_platform::{
    socket::Stream,
    wait::{BorrowedSource, Source},
};

/// The end of a stream that can be read when the thread that waits for it was woken.
pub(super) struct WakeEnd(Stream);

impl WakeEnd {
    /// The end, and what wakes the thread that waits for it.
    pub(super) fn new() -> io::Result<(Self, Waker)> {
        let (ours, theirs) = Stream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok((Self(ours), stream_waker(theirs)))
    }

    pub(super) fn source(&self) -> BorrowedSource<'_> {
        self.0.source()
    }

    /// From now on, the end can be read only when the thread was woken again.
    pub(super) fn quiet(&self) {
        let mut bytes = [0; 1024];
        while (&self.0).read(&mut bytes).is_ok_and(|length| length > 0) {}
    }
}

/// Wakes the thread that waits for the other end of this stream, which must be non-blocking.
pub(super) fn stream_waker(end: Stream) -> Waker {
    Waker::from(Arc::new(StreamWaker(end)))
}

struct StreamWaker(Stream);

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        // If the stream is full, the other end is readable already.
        let _ = (&self.0).write(&[0]);
    }
}
