//! Limits how many connections are served, because each costs a descriptor and memory, and any program
//! of this machine can open connections.

use std::{
    collections::VecDeque,
    future::Future,
    io::{self, ErrorKind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep, timeout},
};

/// At most this many connections are served at a time. A page has one all the time, and now and
/// then a few more.
const MOST: usize = 128;

/// At most this many more connections get an answer at a time, which says that there is no room.
const MOST_REFUSED: usize = 16;

/// How long a connection that is refused may take to ask and to read the answer.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a stranger is served. A stranger is a connection that has not shown the token so far. When
/// there is no room, the oldest stranger is closed for a new connection. So a program that only connects
/// keeps nobody out for long.
const STRANGE: Duration = Duration::from_secs(3);

/// A connection that was let in is closed if nothing was sent on it for this long. A page is sent
/// something more often than that, even if only that it is still connected.
const QUIET: Duration = Duration::from_secs(30);

const WHY: &str = "navlock web serves 128 connections at a time, and has as many: close pages that nobody needs\n";

/// A listener that serves only as many connections as there is room for.
pub(super) struct LimitedListener<L> {
    listener: L,
    room: Arc<Semaphore>,
    refused: Arc<Semaphore>,
    /// The connections that may still be strangers, the oldest first.
    strangers: VecDeque<Weak<Mutex<SlotState>>>,
}

/// A connection that is served, with its place.
pub(super) struct Served<C> {
    connection: C,
    /// By when something has to be sent. For a stranger, by when it has to show the token.
    quiet: Pin<Box<Sleep>>,
    /// Whether `quiet` is the deadline of a stranger.
    is_stranger: bool,
    slot: ConnectionSlot,
}

/// The place of a connection. Each request of the connection has this in its extensions.
#[derive(Clone)]
pub(super) struct ConnectionSlot(Arc<Mutex<SlotState>>);

struct SlotState {
    /// The place; `None` when it was given to another connection.
    place: Option<OwnedSemaphorePermit>,
    is_stranger: bool,
    /// The task that reads from a stranger, which has to be woken when the place is taken away.
    reads: Option<Waker>,
}

impl SlotState {
    /// Takes the place from this connection, if it is a stranger.
    fn release(&mut self) -> Option<OwnedSemaphorePermit> {
        let place = if self.is_stranger { self.place.take() } else { None };
        if place.is_some() {
            self.reads.take().into_iter().for_each(Waker::wake);
        }
        place
    }
}

impl ConnectionSlot {
    fn new(place: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Mutex::new(SlotState { place: Some(place), is_stranger: true, reads: None })))
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the connection has shown the token.
    pub(super) fn admit(&self) {
        self.state().is_stranger = false;
    }
}

impl<L: Listener> Connected<IncomingStream<'_, LimitedListener<L>>> for ConnectionSlot {
    fn connect_info(stream: IncomingStream<'_, LimitedListener<L>>) -> Self {
        stream.io().slot.clone()
    }
}

impl<L> LimitedListener<L> {
    pub(super) fn new(listener: L) -> Self {
        let [room, refused] = [MOST, MOST_REFUSED].map(|most| Arc::new(Semaphore::new(most)));
        Self { listener, room, refused, strangers: VecDeque::new() }
    }

    /// A place for one more connection: a free place, or the place of the oldest stranger.
    fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(place);
        }
        while let Some(first) = self.strangers.pop_front() {
            let first = first.upgrade();
            if let Some(place) = first.and_then(|first| ConnectionSlot(first).state().release()) {
                return Some(place);
            }
        }
        None
    }

    fn slot(&mut self, place: OwnedSemaphorePermit) -> ConnectionSlot {
        // FAST: connections that were let in or have gone are removed from the list only when there
        // may be many of them.
        if self.strangers.len() >= 2 * MOST {
            let is_stranger = |slot: Arc<_>| ConnectionSlot(slot).state().is_stranger;
            self.strangers.retain(|slot| slot.upgrade().is_some_and(is_stranger));
        }
        let slot = ConnectionSlot::new(place);
        self.strangers.push_back(Arc::downgrade(&slot.0));
        slot
    }
}

impl<L: Listener> Listener for LimitedListener<L> {
    type Io = Served<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (connection, address) = self.listener.accept().await;
            if let Some(place) = self.place() {
                let (quiet, slot) = (Box::pin(sleep(STRANGE)), self.slot(place));
                return (Served { connection, quiet, is_stranger: true, slot }, address);
            }
            // If too many connections are being refused already, this one just ends.
            if let Ok(place) = Arc::clone(&self.refused).try_acquire_owned() {
                tokio::spawn(async move {
                    // An error means that the other end has gone, or says nothing.
                    let _ = timeout(REFUSAL_TIMEOUT, refuse(connection)).await;
                    drop(place);
                });
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Reads the request, and answers that there is no room.
async fn refuse(mut connection: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    // The request is read first: if a part of it were unread when the connection is closed, the
    // answer would be lost.
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
        {
            let mut state = self.slot.state();
            if state.place.is_none() {
                return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
            }
            if state.is_stranger {
                state.reads = Some(context.waker().clone());
            }
        }
        let read = Pin::new(&mut self.connection).poll_read(context, buffer);
        if read.is_pending() {
            if self.is_stranger && !self.slot.state().is_stranger {
                self.is_let_in();
            }
            if self.quiet.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl<C> Served<C> {
    /// Sets a new deadline by which something has to be sent. To be called when the connection has
    /// just shown the token, or when something was sent.
    fn is_let_in(&mut self) {
        self.is_stranger = false;
        self.quiet.as_mut().reset(Instant::now() + QUIET);
    }

    /// Notes the result of a write: whether something was sent.
    fn told<T>(&mut self, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(wrote, Poll::Ready(Ok(_))) && !self.slot.state().is_stranger {
            self.is_let_in();
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
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    fn served<C>(connection: C, quiet: Duration, is_stranger: bool) -> Served<C> {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let slot = ConnectionSlot::new(place);
        slot.state().is_stranger = is_stranger;
        Served { connection, quiet: Box::pin(sleep(quiet)), is_stranger, slot }
    }

    #[tokio::test]
    async fn silent_connections_and_strangers_are_closed_and_a_page_that_is_told_something_is_not()
    {
        let [(_silent, theirs), (_page, told), (_stranger, strange)] = [(); 3].map(|()| duplex(64));
        let quiet = Duration::from_millis(50);
        let mut silent = served(theirs, quiet, false);
        let mut told = served(told, quiet, false);
        let mut strange = served(strange, quiet, true);
        told.write_all(b"data").await.unwrap();
        // To be told that it may not come in does not count.
        strange.write_all(b"no").await.unwrap();
        let [mut one, mut two, mut three] = [[0; 8]; 3];
        tokio::select! {
            biased;
            _ = told.read(&mut two) => panic!("it was told something"),
            read = async { (silent.read(&mut one).await, strange.read(&mut three).await) } => {
                assert_eq!(read.0.unwrap_err().kind(), ErrorKind::TimedOut);
                assert_eq!(read.1.unwrap_err().kind(), ErrorKind::TimedOut);
            }
        }
    }

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

    #[tokio::test]
    async fn a_newcomer_takes_the_place_of_the_first_stranger_and_of_no_admitted_connection() {
        let mut listener = LimitedListener::new(Flood);
        let mut all = Vec::new();
        for number in 0..MOST {
            let (served, ()) = listener.accept().await;
            if number % 2 == 0 {
                served.slot.admit();
            }
            all.push(served);
        }
        // Whoever is let in meanwhile stays.
        all[1].slot.admit();
        let (newcomer, ()) = listener.accept().await;
        let has_place = |served: &Served<_>| served.slot.state().place.is_some();
        assert!(has_place(&newcomer));
        let without: Vec<_> = (0..MOST).filter(|number| !has_place(&all[*number])).collect();
        assert_eq!(without, [3]);
        let mut byte = [0];
        let read = timeout(Duration::from_secs(30), all[3].read(&mut byte)).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionAborted);
        newcomer.slot.admit();
        for served in &all {
            served.slot.admit();
        }
        assert!(listener.place().is_none());
        drop(newcomer);
        assert!(listener.place().is_some());
    }
}
