//! Streams and listeners for a runtime, whichever it is: the system's own threads wake its tasks.

use std::{
    future::poll_fn,
    io::{self, ErrorKind},
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    listener::{Address, Listener},
    stream::{Stream, connect},
};
use crate::windows::{
    pipe::{Pipe, Wait},
    system::Awaited,
};

/// One end of a connection, for a runtime, whichever it is: the system's own threads wake its tasks.
#[derive(Debug)]
pub struct AsyncStream {
    // Dropped before the stream, for which they wait.
    reading: Awaited,
    writing: Awaited,
    stream: Stream,
}

impl AsyncStream {
    /// The end of a connection that this is, which need not be set not to block.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn from_std(stream: Stream) -> io::Result<Self> {
        Ok(Self { reading: Awaited::new()?, writing: Awaited::new()?, stream })
    }

    /// Two ends of one connection.
    ///
    /// # Errors
    ///
    /// As of [`Stream::pair`].
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = Stream::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// As of [`connect`].
    #[allow(clippy::unused_async, reason = "as on Unix")]
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(connect(path.as_ref())?)
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    fn pipe(&self) -> &Pipe {
        self.stream.pipe()
    }

    /// Whether there is something to be read, or the end.
    pub(crate) fn is_readable(&self) -> bool {
        self.pipe().is_readable()
    }

    /// Whether there is room for something to be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.pipe().is_writable()
    }

    /// Whether the other end has gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.pipe().has_ended()
    }

    /// Ends the connection, at both ends.
    pub(crate) fn shut_down(&self) {
        self.pipe().shut_down();
    }

    /// Reads what is there.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.pipe().read(into, Wait::Never)
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe().write(bytes, Wait::Never)
    }

    /// Ready when there is something to be read, or the end.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pipe().is_readable() {
            return Poll::Ready(Ok(()));
        }
        self.reading.wake_when(self.pipe().readable(), context.waker());
        Poll::Pending
    }

    /// Ready when there is room for something to be written.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pipe().is_writable() {
            return Poll::Ready(Ok(()));
        }
        self.writing.wake_when(self.pipe().writable(), context.waker());
        Poll::Pending
    }
}

impl AsyncRead for AsyncStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.try_read(into.initialize_unfilled()) {
            Ok(length) => {
                into.advance(length);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.reading.wake_when(self.pipe().readable(), context.waker());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for AsyncStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.try_write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.writing.wake_when(self.pipe().writable(), context.waker());
                Poll::Pending
            }
            written => Poll::Ready(written),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A pipe ends both ways or not at all, and ends when this is dropped.
        Poll::Ready(Ok(()))
    }
}

/// A socket that others connect to, for a runtime.
#[derive(Debug)]
pub struct AsyncListener(Listener);

impl AsyncListener {
    /// Listens at a path at which nothing exists.
    ///
    /// # Errors
    ///
    /// As of [`Listener::bind`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Listener::bind(path).map(Self)
    }

    /// The listener that this is, which need not be set not to block.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn from_std(listener: Listener) -> io::Result<Self> {
        Ok(Self(listener))
    }

    /// The next connection.
    ///
    /// # Errors
    ///
    /// If there is no memory for the connection.
    pub async fn accept(&self) -> io::Result<(AsyncStream, Address)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Ready when there is a connection.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(AsyncStream, Address)>> {
        if let Some(stream) = self.0.accept_now()? {
            return Poll::Ready(
                AsyncStream::from_std(stream).map(|stream| (stream, Address(None))),
            );
        }
        self.0.wake_when_somebody_comes(context)?;
        Poll::Pending
    }
}
