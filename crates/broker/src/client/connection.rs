//! A connection: how it begins, what is said on it, and how it ends.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Buf, BytesMut};
use navlock_wire::{ClientCodec, FromDaemon, ToDaemon, VERSION};
use rustix::net::SendFlags;
use tokio_util::codec::{Decoder, Encoder};

use super::{io::Hearing, table::Table};
use crate::{
    Place,
    error::Reason,
    runtime_dir::uid,
    spawn::{ANSWER, connect_or_start},
};

/// How often a daemon may be gone before it has answered: it ends when it is idle, and may have
/// just decided to.
const TRIES: usize = 5;

/// The owners' end of a connection: it ends with the last of them.
pub(super) struct Connection {
    shared: Arc<Shared>,
}

/// What the owners share with the thread that hears.
///
/// # Invariants
///
/// - Of the two mutexes nobody holds one while taking the other.
/// - No waker is called, and none is dropped, under either.
pub(super) struct Shared {
    pub(super) socket: UnixStream,
    pub(super) path: PathBuf,
    table: Mutex<Table>,
    outgoing: Mutex<Outgoing>,
    /// A byte in here has the hearing thread look at what is left to be sent.
    nudge: UnixStream,
}

/// What is on its way to the daemon. Nobody waits for a daemon that does not listen: what it does
/// not take at once, the hearing thread sends later.
struct Outgoing {
    codec: ClientCodec,
    bytes: BytesMut,
}

impl Connection {
    /// Connects and agrees on a version. Blocks.
    pub(super) fn open(place: &Place, program: Option<&Path>) -> Result<(Self, Hearing), Reason> {
        let mut tries = 1;
        loop {
            match Self::try_open(place, program) {
                Err(Reason::Vanished) if tries < TRIES => tries += 1,
                opened => return opened,
            }
        }
    }

    fn try_open(place: &Place, program: Option<&Path>) -> Result<(Self, Hearing), Reason> {
        let mut socket = connect_or_start(place, program)?;
        check_peer(&socket)?;
        let mut codec = ClientCodec::default();
        let mut heard = BytesMut::new();
        shake_hands(&mut socket, &mut codec, &mut heard)?;
        Self::new(socket, place, codec, heard)
    }

    fn new(
        socket: UnixStream,
        place: &Place,
        codec: ClientCodec,
        heard: BytesMut,
    ) -> Result<(Self, Hearing), Reason> {
        let failed = |error: io::Error| Reason::Io("connecting", error.kind());
        let (nudge, nudged) = UnixStream::pair().map_err(failed)?;
        for stream in [&socket, &nudge, &nudged] {
            stream.set_nonblocking(true).map_err(failed)?;
        }
        let shared = Arc::new(Shared {
            socket,
            path: place.socket().to_owned(),
            table: Mutex::default(),
            outgoing: Mutex::new(Outgoing {
                codec: ClientCodec::default(),
                bytes: BytesMut::new(),
            }),
            nudge,
        });
        let hearing = Hearing::new(Arc::clone(&shared), nudged, codec, heard);
        Ok((Self { shared }, hearing))
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table()
    }

    /// Says something. Never waits.
    pub(super) fn say(&self, message: &ToDaemon) {
        self.shared.say(message);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Not merely closed: the hearing thread has it too, and so may programs that inherited it.
        let _ = self.shared.socket.shutdown(Shutdown::Both);
    }
}

impl Shared {
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        // Whole between any two statements: what could panic in there is a waker's `clone`, which
        // comes before anything is changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, message: &ToDaemon) {
        let mut outgoing = self.outgoing();
        let Outgoing { codec, bytes } = &mut *outgoing;
        let first = bytes.is_empty();
        // Names and buckets are short enough, or their backend would not have got here.
        if codec.encode(message, bytes).is_ok() && first && !send(&self.socket, bytes) {
            // A full pipe is as good: it has a byte in it.
            let _ = (&self.nudge).write(&[0]);
        }
    }

    /// Sends what was left. Whether that was all.
    pub(super) fn send_left(&self) -> bool {
        send(&self.socket, &mut self.outgoing().bytes)
    }
}

/// Sends as much as the socket takes. Whether that was all.
fn send(socket: &UnixStream, bytes: &mut BytesMut) -> bool {
    while !bytes.is_empty() {
        // The standard library keeps the signal away where there is no such flag.
        #[cfg(not(target_vendor = "apple"))]
        let flags = SendFlags::NOSIGNAL;
        #[cfg(target_vendor = "apple")]
        let flags = SendFlags::empty();
        match rustix::net::send(socket, bytes, flags) {
            Ok(sent) => bytes.advance(sent),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return false,
            // The connection has ended, which the hearing thread sees as well. Nobody is there
            // to be told anything.
            Err(_) => bytes.clear(),
        }
    }
    true
}

/// Same uid or nothing. The modes of directory and socket say so already; this asks the kernel.
fn check_peer(socket: &UnixStream) -> Result<(), Reason> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let peer = rustix::net::sockopt::socket_peercred(socket)
            .map_err(|error| Reason::Io("asking who serves it", error.kind()))?;
        if peer.uid.as_raw() != uid() {
            return Err(Reason::Foreign(peer.uid.as_raw()));
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (socket, uid);
    Ok(())
}

/// Says hello and waits to be welcomed. What has been heard beyond that stays in `heard`.
fn shake_hands(
    socket: &mut UnixStream,
    codec: &mut ClientCodec,
    heard: &mut BytesMut,
) -> Result<(), Reason> {
    let ended = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::Silent(ANSWER),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Reason::Vanished,
        kind => Reason::Io("saying hello", kind),
    };
    socket.set_read_timeout(Some(ANSWER)).map_err(ended)?;
    let mut hello = BytesMut::new();
    let message = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
    codec.encode(&message, &mut hello).map_err(|_| Reason::Nonsense)?;
    if !send(socket, &mut hello) {
        return Err(Reason::Silent(ANSWER));
    }
    let mut bytes = [0; 512];
    loop {
        match codec.decode(heard).map_err(|_| Reason::Nonsense)? {
            Some(FromDaemon::Welcome { version: VERSION }) => break,
            Some(FromDaemon::Refused { reason }) => return Err(Reason::Refused(reason)),
            Some(_) => return Err(Reason::Nonsense),
            None => match socket.read(&mut bytes) {
                Ok(0) => return Err(Reason::Vanished),
                Ok(length) => heard.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ended(error)),
            },
        }
    }
    socket.set_read_timeout(None).map_err(ended)
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("path", &self.shared.path).finish_non_exhaustive()
    }
}
