//! Limits how many connections are served, because each costs a descriptor and memory, and any program
//! of this machine can open connections.

use std::{
    io::{self, ErrorKind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// At most this many connections are served at a time; others wait in the listener's queue. A page
/// has one all the time, and now and then a few more.
const MOST: usize = 128;

/// By when a connection has to have shown the token. So a program that only connects keeps nobody out
/// for long.
const STRANGE: Duration = Duration::from_secs(3);

/// A connection that has shown the token is closed if nothing was sent on it for this long. A page is
/// sent something more often than that, even if only that it is still connected.
const QUIET: Duration = Duration::from_secs(30);

/// A listener that serves only as many connections as there is room for.
pub(super) struct LimitedListener<L> {
    listener: L,
    room: Arc<Semaphore>,
}

impl<L> LimitedListener<L> {
    pub(super) fn new(listener: L) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(MOST)) }
    }
}

impl<L: Listener> Listener for LimitedListener<L> {
    type Io = Served<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let place = room.expect("nobody closes the semaphore");
        let (connection, address) = self.listener.accept().await;
        (Served::new(connection, place), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Whether a connection has shown the token. Each request of the connection has this in its extensions.
#[derive(Clone, Default)]
pub(super) struct Admission(Arc<AtomicBool>);

impl Admission {
    /// Notes that the connection has shown the token.
    pub(super) fn admit(&self) {
        self.0.store(true, Relaxed);
    }
}

impl<L: Listener> Connected<IncomingStream<'_, LimitedListener<L>>> for Admission {
    fn connect_info(stream: IncomingStream<'_, LimitedListener<L>>) -> Self {
        stream.io().admission.clone()
    }
}

/// A connection that is served, with its place.
pub(super) struct Served<C> {
    connection: C,
    admission: Admission,
    /// When the connection was made or, if it has shown the token, when something was last sent on it.
    last: Instant,
    /// Ends when the connection is to be closed.
    close: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl<C> Served<C> {
    fn new(connection: C, place: OwnedSemaphorePermit) -> Self {
        let close = Box::pin(sleep(STRANGE));
        let admission = Admission::default();
        Self { connection, admission, last: Instant::now(), close, _place: place }
    }

    fn is_admitted(&self) -> bool {
        self.admission.0.load(Relaxed)
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Served<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.connection).poll_read(context, buffer);
        if read.is_pending() {
            let due = self.last + if self.is_admitted() { QUIET } else { STRANGE };
            self.close.as_mut().reset(due);
            if self.close.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Served<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.connection).poll_write(context, bytes);
        if matches!(wrote, Poll::Ready(Ok(_))) && self.is_admitted() {
            self.last = Instant::now();
        }
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::timeout,
    };

    use super::*;

    /// A listener to which somebody connects whenever it accepts.
    struct Flood;

    impl Listener for Flood {
        type Io = DuplexStream;
        type Addr = ();

        async fn accept(&mut self) -> (DuplexStream, ()) {
            (duplex(64).0, ())
        }

        fn local_addr(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A connection that is to be closed in a moment, unless it is sent something.
    fn served(is_admitted: bool) -> (Served<DuplexStream>, DuplexStream) {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (ours, theirs) = duplex(64);
        let mut served = Served::new(ours, place);
        served.last += Duration::from_millis(50);
        served.last -= if is_admitted { QUIET } else { STRANGE };
        if is_admitted {
            served.admission.admit();
        }
        (served, theirs)
    }

    #[tokio::test]
    async fn strangers_and_silent_connections_are_closed_and_a_page_that_is_told_something_is_not()
    {
        let (mut stranger, _strange) = served(false);
        let [(mut silent, _quiet), (mut told, _page)] = [served(true), served(true)];
        told.write_all(b"data").await.unwrap();
        // To be told that it may not come in does not count.
        stranger.write_all(b"no").await.unwrap();
        let [mut one, mut two, mut three] = [[0; 8]; 3];
        tokio::select! {
            biased;
            _ = told.read(&mut one) => panic!("it was told something"),
            read = async { (silent.read(&mut two).await, stranger.read(&mut three).await) } => {
                assert_eq!(read.0.unwrap_err().kind(), ErrorKind::TimedOut);
                assert_eq!(read.1.unwrap_err().kind(), ErrorKind::TimedOut);
            }
        }
    }

    #[tokio::test]
    async fn a_newcomer_waits_until_there_is_room() {
        let mut listener = LimitedListener::new(Flood);
        let mut all = Vec::new();
        for _ in 0..MOST {
            all.push(listener.accept().await);
        }
        let short = Duration::from_millis(20);
        assert!(timeout(short, listener.accept()).await.is_err());
        all.pop();
        assert!(timeout(Duration::from_secs(30), listener.accept()).await.is_ok());
    }
}
