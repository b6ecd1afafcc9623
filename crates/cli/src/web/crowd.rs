//! How many connections are served: each costs a descriptor and memory, and any program of this machine
//! can make one.

use std::{
    future::Future,
    io::{self, ErrorKind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep, timeout},
};

/// So many are served at a time. A page has one all the time, and now and then some more.
const MOST: usize = 128;

/// So many more are told at a time that there is no room for them.
const MOST_REFUSED: usize = 16;

/// How long one is listened to that is not served.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long one is served that is told nothing meanwhile. A page is told more often that it is still connected;
/// who has no token is told that, and hung up on: so nobody takes the room of others by being there.
const QUIET: Duration = Duration::from_secs(30);

const WHY: &str = "navlock web serves 128 connections at a time, and has as many: close pages that nobody needs\n";

/// A listener that lets no more in than there is room for.
pub(super) struct Bounded<L> {
    listener: L,
    room: Arc<Semaphore>,
    refused: Arc<Semaphore>,
}

/// A connection that is served, with its place.
pub(super) struct Served<C> {
    connection: C,
    /// Until when something has to be told.
    quiet: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl<L> Bounded<L> {
    pub(super) fn new(listener: L) -> Self {
        let (room, refused) = (Semaphore::new(MOST), Semaphore::new(MOST_REFUSED));
        Self { listener, room: Arc::new(room), refused: Arc::new(refused) }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Served<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (connection, address) = self.listener.accept().await;
            if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
                let quiet = Box::pin(sleep(QUIET));
                return (Served { connection, quiet, _place: place }, address);
            }
            // Who is not even told so sees the connection end.
            if let Ok(place) = Arc::clone(&self.refused).try_acquire_owned() {
                tokio::spawn(async move {
                    // It has gone, or says nothing.
                    let _ = timeout(PATIENCE, refuse(connection)).await;
                    drop(place);
                });
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Hears what is asked for, and says why it is not answered.
async fn refuse(mut connection: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    // What is left unread when it is closed would take the answer along.
    let mut asked = Vec::new();
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") && asked.len() < 16 << 10 {
        if connection.read_buf(&mut asked).await? == 0 {
            break;
        }
    }
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {}\r\nretry-after: 10\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{WHY}",
        WHY.len()
    );
    connection.write_all(answer.as_bytes()).await?;
    connection.shutdown().await
}

impl<C: AsyncRead + Unpin> AsyncRead for Served<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.connection).poll_read(context, buffer);
        if read.is_pending() && self.quiet.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<C> Served<C> {
    /// Something was told, if it was.
    fn told<T>(&mut self, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(wrote, Poll::Ready(Ok(_))) {
            self.quiet.as_mut().reset(Instant::now() + QUIET);
        }
        wrote
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Served<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.told(wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.connection).poll_write_vectored(context, slices);
        self.told(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn served<C>(connection: C, quiet: Duration) -> Served<C> {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Served { connection, quiet: Box::pin(sleep(quiet)), _place: place }
    }

    #[tokio::test]
    async fn who_is_told_nothing_for_long_is_hung_up_on_and_who_is_told_something_is_not() {
        let (_silent, theirs) = duplex(64);
        let (_page, told) = duplex(64);
        let (mut silent, mut told) =
            [theirs, told].map(|end| served(end, Duration::from_millis(50))).into();
        told.write_all(b"data").await.unwrap();
        let (mut one, mut other) = ([0; 8], [0; 8]);
        tokio::select! {
            read = silent.read(&mut one) => assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut),
            _ = told.read(&mut other) => panic!("it was told something"),
        }
    }
}
