//! Connections between the processes of one machine, found by a path: named pipes.
//!
//! A named pipe has no path but a name, which is everybody's. So what stands at the path is a file in which that
//! name is: it is another each time, which nobody can guess and take before us. The file is found, removed and
//! renamed as a socket is. A name that nobody has any more is that of somebody who was killed.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    fmt,
    fs::{self, File, Metadata},
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::windows::{
        fs::OpenOptionsExt,
        io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle},
    },
    path::{Path, PathBuf},
    pin::Pin,
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
    thread,
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use windows_sys::Win32::{
    Foundation::{ERROR_FILE_NOT_FOUND, ERROR_PIPE_BUSY, GENERIC_READ, GENERIC_WRITE},
    Storage::FileSystem::{
        CreateFileW, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, OPEN_EXISTING,
        PIPE_ACCESS_DUPLEX, SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT,
    },
    System::Pipes::{
        ConnectNamedPipe, CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS,
        PIPE_TYPE_BYTE, PIPE_UNLIMITED_INSTANCES, PIPE_WAIT,
    },
};

use super::{
    operation::{Operation, associate},
    pipe::{Pipe, Side, Wait},
    security::Descriptor,
    system::{Awaited, Event, MOST, is_signalled, owned, wait_for, wide},
};
use crate::wait::{BorrowedSource, Source};

/// The longest path that is used, in bytes: what stands there is a file.
pub const MAX_PATH: usize = 1 << 14;

/// So many can connect at once before the first of them was accepted.
const BACKLOG: usize = 8;
const _: () = assert!(BACKLOG < MOST);

/// How much the system keeps of what was written and not read, either way.
const BUFFERED: u32 = 64 << 10;

/// How often it is looked whether there is room for one more to connect.
const ROOM: Duration = Duration::from_millis(5);

/// With this begins what stands at the path of a socket.
const MARK: &str = "navlock listens at ";

/// All names of ours begin so.
const NAME: &str = r"\\.\pipe\navlock-";

/// Whether the system takes a path as long as this one for a socket.
pub fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_PATH
}

/// Whether what stands at this path, which has this metadata, is a socket.
pub fn is_at(path: &Path, found: &Metadata) -> bool {
    found.is_file() && name_at(path).is_ok_and(|name| name.is_some())
}

/// The name of the pipe of the socket at this path; `None` if what is there is none.
fn name_at(path: &Path) -> io::Result<Option<String>> {
    const ENOUGH: u64 = 200;
    let mut text = String::new();
    let file = super::file::careful().read(true).open(path)?;
    if !file.metadata()?.is_file() || file.take(ENOUGH).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    let name = text.strip_prefix(MARK).and_then(|rest| rest.strip_suffix('\n'));
    Ok(name.filter(|name| name.starts_with(NAME)).map(str::to_owned))
}

/// A name that nobody has, and nobody can guess.
fn new_name() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{NAME}{:016x}{:016x}", random(), random())
}

/// One more instance of a pipe, for one more who connects.
fn instance(name: &str, is_first: bool) -> io::Result<Arc<OwnedHandle>> {
    let descriptor = Descriptor::private()?;
    let attributes = descriptor.attributes(false);
    let first = if is_first { FILE_FLAG_FIRST_PIPE_INSTANCE } else { 0 };
    // SAFETY: The name ends with a zero, and it and the attributes outlive the call. The handle is new.
    let made = unsafe {
        owned(CreateNamedPipeW(
            wide(name).as_ptr(),
            PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | first,
            PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS,
            PIPE_UNLIMITED_INSTANCES,
            BUFFERED,
            BUFFERED,
            0,
            &raw const attributes,
        ))
    }?;
    associate(made.as_handle())?;
    Ok(Arc::new(made))
}

/// Connects to the pipe of this name, for overlapped calls.
fn connected(name: &str) -> io::Result<Arc<OwnedHandle>> {
    let made = open(name, FILE_FLAG_OVERLAPPED)?;
    associate(made.as_handle())?;
    Ok(Arc::new(made))
}

/// Connects to the pipe of this name. Whoever listens can see who we are, and cannot act in our name.
fn open(name: &str, flags: u32) -> io::Result<OwnedHandle> {
    let flags = flags | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION;
    // SAFETY: As of `instance`.
    unsafe {
        owned(CreateFileW(
            wide(name).as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            0,
            ptr::null(),
            OPEN_EXISTING,
            flags,
            ptr::null_mut(),
        ))
    }
}

/// One end of a connection.
pub struct Stream(Arc<Shared>);

/// What all copies of one end have together.
#[derive(Debug)]
struct Shared {
    pipe: Pipe,
    is_nonblocking: AtomicBool,
    read_timeout: Mutex<Option<Duration>>,
    write_timeout: Mutex<Option<Duration>>,
}

impl Stream {
    fn new(handle: Arc<OwnedHandle>, side: Side) -> io::Result<Self> {
        let pipe = Pipe::new(handle, side)?;
        Ok(Self(Arc::new(Shared {
            pipe,
            is_nonblocking: AtomicBool::new(false),
            read_timeout: Mutex::default(),
            write_timeout: Mutex::default(),
        })))
    }

    /// Two ends of one connection.
    ///
    /// # Errors
    ///
    /// If there is no memory for them.
    pub fn pair() -> io::Result<(Self, Self)> {
        let name = new_name();
        let server = instance(&name, true)?;
        let client = connected(&name)?;
        Ok((Self::new(server, Side::Server)?, Self::new(client, Side::Client)?))
    }

    /// Connects, and waits for the other end to have room.
    ///
    /// # Errors
    ///
    /// `NotFound` or `ConnectionRefused` if nobody listens.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        loop {
            match connect(path.as_ref()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(ROOM),
                connected => return connected,
            }
        }
    }

    pub(crate) fn pipe(&self) -> &Pipe {
        &self.0.pipe
    }

    /// The same end once more.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Arc::clone(&self.0)))
    }

    /// Whether calls wait, of all copies of this end.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(is_nonblocking, SeqCst);
        Ok(())
    }

    /// How long who reads waits, of all copies of this end.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if that is no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.read_timeout, timeout)
    }

    /// How long who writes waits for room, of all copies of this end.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if that is no time at all.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.write_timeout, timeout)
    }

    /// Ends the connection. It ends both ways, whichever is meant: a pipe has no other end.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn shutdown(&self, _: Shutdown) -> io::Result<()> {
        self.pipe().shut_down();
        Ok(())
    }

    fn wait_to_read(&self) -> Wait {
        self.wait(&self.0.read_timeout)
    }

    fn wait_to_write(&self) -> Wait {
        self.wait(&self.0.write_timeout)
    }

    fn wait(&self, timeout: &Mutex<Option<Duration>>) -> Wait {
        if self.0.is_nonblocking.load(SeqCst) {
            return Wait::Never;
        }
        let timeout = *timeout.lock().unwrap_or_else(PoisonError::into_inner);
        timeout.map_or(Wait::Forever, Wait::For)
    }
}

fn set(which: &Mutex<Option<Duration>>, timeout: Option<Duration>) -> io::Result<()> {
    if timeout == Some(Duration::ZERO) {
        return Err(ErrorKind::InvalidInput.into());
    }
    *which.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
    Ok(())
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.0.pipe.side).finish()
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.pipe().read(into, self.wait_to_read())
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe().write(bytes, self.wait_to_write())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Two ends of a connection: one to hear by, and one that a program gets as its standard output, be it
/// one that knows nothing of how we write to pipes.
///
/// # Errors
///
/// If there is no memory for them.
pub fn hearing() -> io::Result<(Stream, OwnedHandle)> {
    let name = new_name();
    let server = instance(&name, true)?;
    let client = open(&name, 0)?;
    Ok((Stream::new(server, Side::Server)?, client))
}

/// Connects without waiting for the other end to have room.
///
/// # Errors
///
/// `NotFound` or `ConnectionRefused` if nobody listens, `WouldBlock` if as many wait as may.
pub fn connect(path: &Path) -> io::Result<Stream> {
    let name = name_at(path)?.ok_or(ErrorKind::ConnectionRefused)?;
    let is = |error: &io::Error, code: u32| error.raw_os_error() == Some(code.cast_signed());
    match connected(&name) {
        Ok(handle) => Stream::new(handle, Side::Client),
        Err(error) if is(&error, ERROR_FILE_NOT_FOUND) => Err(ErrorKind::ConnectionRefused.into()),
        Err(error) if is(&error, ERROR_PIPE_BUSY) => Err(ErrorKind::WouldBlock.into()),
        Err(error) => Err(error),
    }
}

/// What is connected to.
#[derive(Clone, Debug)]
pub struct Listener(Arc<Waiting>);

#[derive(Debug)]
struct Waiting {
    name: String,
    path: PathBuf,
    slots: Mutex<Vec<Slot>>,
    /// Set if somebody has connected to any of the slots, and may have been accepted since.
    any: Arc<Event>,
    is_nonblocking: AtomicBool,
}

/// An instance of the pipe, to which somebody may have connected.
#[derive(Debug)]
struct Slot {
    // Before what it waits for.
    awaited: Option<Awaited>,
    /// Set once somebody has.
    event: Arc<Event>,
    connecting: Box<Operation>,
    handle: Arc<OwnedHandle>,
}

impl Slot {
    fn begin(handle: Arc<OwnedHandle>, any: &Arc<Event>) -> io::Result<Self> {
        let event = Arc::new(Event::new(false)?);
        let mut connecting = Operation::new(&event);
        connecting.tell_also(any);
        // However it comes to its end: somebody has connected, and may have gone again, of which whoever reads is told.
        //
        // SAFETY: The call touches no buffer.
        let _ = unsafe {
            connecting.begin(&handle, |_, overlapped| {
                ConnectNamedPipe(handle.as_raw_handle(), overlapped)
            })
        };
        Ok(Self { awaited: None, event, connecting, handle })
    }

    /// Whether somebody has connected.
    fn has_come(&self) -> bool {
        is_signalled(self.event.as_handle())
    }

    fn take(mut self) -> Arc<OwnedHandle> {
        let _ = self.connecting.wait();
        self.handle
    }
}

impl Listener {
    /// Listens at a path at which there is nothing.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if there is something.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let (path, name) = (path.as_ref(), new_name());
        let any = Arc::new(Event::new(false)?);
        let first = Slot::begin(instance(&name, true)?, &any)?;
        let made =
            File::options().write(true).create_new(true).access_mode(GENERIC_WRITE).open(path);
        let mut file = made.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => ErrorKind::AddrInUse.into(),
            _ => error,
        })?;
        file.write_all(format!("{MARK}{name}\n").as_bytes())?;
        let mut slots = vec![first];
        fill(&mut slots, &name, &any);
        let is_nonblocking = AtomicBool::new(false);
        let (path, slots) = (path.to_owned(), Mutex::new(slots));
        Ok(Self(Arc::new(Waiting { name, path, slots, any, is_nonblocking })))
    }

    /// The same once more.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    /// Whether [`accept`](Self::accept) waits.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(is_nonblocking, SeqCst);
        Ok(())
    }

    /// Where it listens, or did when it began.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn local_addr(&self) -> io::Result<Address> {
        Ok(Address(Some(self.0.path.clone())))
    }

    /// The next connection.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is none and it is not to be waited; others if there is no memory.
    pub fn accept(&self) -> io::Result<(Stream, Address)> {
        loop {
            if let Some(stream) = self.0.accept()? {
                return Ok((stream, Address(None)));
            }
            if self.0.is_nonblocking.load(SeqCst) {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.0.wait(LOOK)?;
        }
    }
}

/// How often it is looked again while somebody waits without a task: others may have accepted meanwhile.
const LOOK: Duration = Duration::from_millis(100);

/// Has as many instances as there should be, or as many as there can be.
fn fill(slots: &mut Vec<Slot>, name: &str, any: &Arc<Event>) {
    while slots.len() < BACKLOG {
        let begun = instance(name, false).and_then(|instance| Slot::begin(instance, any));
        let Ok(slot) = begun else { return };
        slots.push(slot);
    }
}

impl Source for Listener {
    fn source(&self) -> BorrowedSource<'_> {
        BorrowedSource::object(self.0.any.as_handle())
    }
}

impl Waiting {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever has connected, if somebody has.
    fn accept(&self) -> io::Result<Option<Stream>> {
        let mut slots = self.slots();
        // Whoever connects from here on sets it again.
        self.any.reset();
        let come = slots.iter().position(Slot::has_come);
        let handle = come.map(|come| slots.remove(come).take());
        fill(&mut slots, &self.name, &self.any);
        if slots.iter().any(Slot::has_come) {
            self.any.set();
        }
        handle.map(|handle| Stream::new(handle, Side::Server)).transpose()
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        let slots = self.slots();
        let events = slots.iter().map(|slot| slot.event.as_handle().try_clone_to_owned());
        let events: Vec<OwnedHandle> = events.collect::<io::Result<_>>()?;
        drop(slots);
        let events: Vec<BorrowedHandle<'_>> = events.iter().map(AsHandle::as_handle).collect();
        wait_for(&events, Some(time)).map(drop)
    }
}

/// Where somebody listens.
#[derive(Clone, Debug)]
pub struct Address(Option<PathBuf>);

impl Address {
    /// Its path, if it has one.
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

/// One end of a connection, for a runtime, whichever it is: the system's own threads wake its tasks.
#[derive(Debug)]
pub struct AsyncStream {
    // Before what they wait for.
    reading: Awaited,
    writing: Awaited,
    stream: Stream,
}

impl AsyncStream {
    /// That of one which need not block.
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

    /// Reads what there is.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.pipe().read(into, Wait::Never)
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is none.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe().write(bytes, Wait::Never)
    }

    /// Waits until there is something to be read, or the end.
    ///
    /// # Errors
    ///
    /// None here.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_read_ready(context)).await
    }

    /// Waits until there is room for something to be written.
    ///
    /// # Errors
    ///
    /// None here.
    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_write_ready(context)).await
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

    /// Waits until one of these has come of it, and says what has.
    ///
    /// # Errors
    ///
    /// None here.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        poll_fn(|context| {
            let mut ready = Ready::EMPTY;
            if interest.is_readable() && self.poll_read_ready(context)?.is_ready() {
                ready |= Ready::READABLE;
                if self.pipe().has_ended() {
                    ready |= Ready::READ_CLOSED;
                }
            }
            if interest.is_writable() && self.poll_write_ready(context)?.is_ready() {
                ready |= Ready::WRITABLE;
            }
            if ready.is_empty() { Poll::Pending } else { Poll::Ready(Ok(ready)) }
        })
        .await
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
        // A pipe ends both ways or not at all: it does when this is dropped.
        Poll::Ready(Ok(()))
    }
}

/// What is connected to, for a runtime.
#[derive(Debug)]
pub struct AsyncListener(Listener);

impl AsyncListener {
    /// Listens at a path at which there is nothing.
    ///
    /// # Errors
    ///
    /// As of [`Listener::bind`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Listener::bind(path).map(Self)
    }

    /// The same as one that need not block.
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
    /// If there is no memory for it.
    pub async fn accept(&self) -> io::Result<(AsyncStream, Address)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Ready when there is a connection.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(AsyncStream, Address)>> {
        let waiting = &*self.0.0;
        if let Some(stream) = waiting.accept()? {
            return Poll::Ready(
                AsyncStream::from_std(stream).map(|stream| (stream, Address(None))),
            );
        }
        for slot in &mut *waiting.slots() {
            if slot.awaited.is_none() {
                slot.awaited = Some(Awaited::new()?);
            }
            if let Some(awaited) = &slot.awaited {
                awaited.wake_when(slot.event.as_handle(), context.waker());
            }
        }
        Poll::Pending
    }
}

/// Listens at `path`, where nothing but this user's processes find it. Who may connect is said to the system when the
/// pipe is made; it gets its path last.
///
/// # Errors
///
/// If it cannot be made.
pub fn listen(unborn: &Path, path: &Path) -> io::Result<AsyncListener> {
    match fs::remove_file(unborn) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = AsyncListener::bind(unborn)?;
    fs::rename(unborn, path)?;
    Ok(listener)
}

/// Listens at a path, for this user alone.
///
/// # Errors
///
/// `AddrInUse` if there is something.
#[cfg(feature = "command")]
pub fn bind_private(path: &Path) -> io::Result<Listener> {
    Listener::bind(path)
}

/// Sends as much as there is room for; whoever does not block is told `WouldBlock` where there is none.
///
/// # Errors
///
/// `BrokenPipe` if the other end has gone.
pub fn send(mut socket: &Stream, bytes: &[u8]) -> io::Result<usize> {
    socket.write(bytes)
}

/// Reads what there is into memory of `into` that was not written to yet; 0 at the end.
///
/// # Errors
///
/// `WouldBlock` if there is nothing and it is not to be waited.
pub fn read_into_spare(mut socket: &Stream, into: &mut Vec<u8>) -> io::Result<usize> {
    let (before, room) = (into.len(), into.capacity() - into.len());
    into.resize(before + room, 0);
    let read = socket.read(&mut into[before..]);
    into.truncate(before + read.as_ref().map_or(0, |read| *read));
    read
}

/// Ends a connection, at both ends.
pub fn shut_down(socket: &AsyncStream) {
    socket.pipe().shut_down();
}

/// The same end of a connection, for another runtime or none. It does not block, as little as the other.
///
/// # Errors
///
/// None here.
pub fn another(socket: &AsyncStream) -> io::Result<Stream> {
    socket.stream.set_nonblocking(true)?;
    socket.stream.try_clone()
}

/// Two ends of a connection: one to talk by, and one that a program of ours gets as its standard output, which
/// takes it by [`of_output`].
///
/// # Errors
///
/// If there is no memory for them.
#[cfg(feature = "command")]
pub fn talking() -> io::Result<(Stream, OwnedHandle)> {
    let name = new_name();
    let server = instance(&name, true)?;
    // Whoever takes it is told of the ends of its calls in its own way, which can be said once.
    let client = open(&name, FILE_FLAG_OVERLAPPED)?;
    Ok((Stream::new(server, Side::Server)?, client))
}

/// The end of a connection that this process has as its standard output.
///
/// # Errors
///
/// If that is no connection: `InvalidInput`.
#[cfg(feature = "command")]
pub fn of_output() -> io::Result<Stream> {
    let output = io::stdout().as_handle().try_clone_to_owned()?;
    if !super::wait::is_pipe(output.as_handle()) {
        return Err(ErrorKind::InvalidInput.into());
    }
    super::descriptor::leave(&[super::descriptor::Stream::Output])?;
    associate(output.as_handle())?;
    Stream::new(Arc::new(output), Side::Client)
}

/// Does this from within a directory, and leaves it for the root.
///
/// # Errors
///
/// If there is no way there.
#[cfg(feature = "command")]
pub fn within<T>(directory: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    std::env::set_current_dir(directory)?;
    let done = act();
    let _ = std::env::set_current_dir(r"\");
    done
}

/// The same, and comes back. What the process does meanwhile is done from there, too.
///
/// # Errors
///
/// If there is no way there or back.
#[cfg(feature = "command")]
pub fn within_and_back<T>(directory: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let here = std::env::current_dir()?;
    std::env::set_current_dir(directory)?;
    let done = act();
    std::env::set_current_dir(here)?;
    done
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn what_was_written_is_read_also_after_its_end_is_dropped() {
        let (mut one, other) = Stream::pair().unwrap();
        other.set_nonblocking(true).unwrap();
        // More than the system keeps, and more than there is room for in one call.
        let mut sent = 0;
        let bytes = vec![7; 300_000];
        while let Ok(length) = send(&other, &bytes[sent..]) {
            sent += length;
        }
        assert!(sent > 0 && sent < bytes.len());
        drop(other);
        let mut read = Vec::new();
        one.read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes[..sent]);
        assert_eq!(one.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_the_other_end_wrote_is_read_also_after_this_one_is_shut_down() {
        for (is_looked_at, is_read) in [(false, 0), (true, 0), (true, 4)] {
            let (mut one, mut other) = Stream::pair().unwrap();
            if is_looked_at {
                // From then on a read is under way.
                assert!(!one.pipe().is_readable());
            }
            other.write_all(b"last words").unwrap();
            one.read_exact(&mut vec![0; is_read]).unwrap();
            one.shutdown(Shutdown::Both).unwrap();
            let mut read = Vec::new();
            one.read_to_end(&mut read).unwrap();
            assert_eq!(read, b"last words"[is_read..]);
            assert_eq!(one.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            assert_eq!(other.read(&mut [0]).unwrap(), 0);
            assert_eq!(other.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
    }

    #[test]
    fn who_reads_waits_as_long_as_is_said_and_no_longer() {
        let (mut one, other) = Stream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        one.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.set_nonblocking(false).unwrap();
        one.set_read_timeout(None).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| (&other).write_all(b"at last").unwrap());
            let mut bytes = [0; 7];
            one.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"at last");
        });
        other.shutdown(Shutdown::Both).unwrap();
        assert_eq!(one.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_socket_is_what_its_file_says_and_is_refused_once_nobody_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sock");
        assert_eq!(connect(&path).unwrap_err().kind(), ErrorKind::NotFound);
        let listener = Listener::bind(&path).unwrap();
        let has_come = |listener: &Listener| {
            let asked = [(listener.source(), crate::wait::Interest::READ)];
            crate::wait::wait(asked, Some(Duration::ZERO)).unwrap()[0].any()
        };
        assert!(!has_come(&listener));
        assert!(is_at(&path, &fs::symlink_metadata(&path).unwrap()));
        assert_eq!(Listener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        // More than can wait to be accepted.
        let mut connected = Vec::new();
        let full = loop {
            match connect(&path) {
                Ok(stream) => connected.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!((full.kind(), connected.len()), (ErrorKind::WouldBlock, BACKLOG));
        let accepted: Vec<_> = (0..BACKLOG).map(|_| listener.accept().unwrap().0).collect();
        for (mut client, mut server) in connected.into_iter().zip(accepted) {
            // In the order in which they have connected.
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
        }
        listener.set_nonblocking(true).unwrap();
        let asked = [(listener.source(), crate::wait::Interest::READ)];
        let (one, _) = thread::scope(|scope| {
            let one = scope.spawn(|| connect(&path).unwrap());
            assert!(crate::wait::wait(asked, Some(Duration::from_secs(20))).unwrap()[0].any());
            (one.join().unwrap(), listener.accept().unwrap())
        });
        drop(one);
        assert!(!has_come(&listener));
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(listener);
        assert_eq!(connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        fs::write(&path, "precious").unwrap();
        assert!(!is_at(&path, &fs::symlink_metadata(&path).unwrap()));
    }

    #[tokio::test]
    async fn tasks_are_woken_for_what_comes_to_whom_they_listen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sock");
        let listener = listen(&directory.path().join("new"), &path).unwrap();
        let talker = tokio::spawn(async move {
            let mut stream = AsyncStream::connect(&path).await.unwrap();
            stream.write_all(&[9; 200_000]).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            answer
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(super::super::peer::is_ours(&stream));
        let mut bytes = vec![0; 200_000];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(b"heard").await.unwrap();
        drop(stream);
        assert_eq!(talker.await.unwrap(), b"heard");
    }

    #[test]
    fn many_can_be_waited_for_at_once() {
        let ends: Vec<_> = (0..200).map(|_| Stream::pair().unwrap()).collect();
        let asked: Vec<_> = ends
            .iter()
            .map(|(one, _)| (crate::wait::Source::source(one), crate::wait::Interest::READ))
            .collect();
        let before = Instant::now();
        let none = crate::wait::wait_many(&asked, Some(Duration::from_millis(30))).unwrap();
        assert!(none.iter().all(|ready| !ready.any()));
        assert!(before.elapsed() >= Duration::from_millis(30));
        (&ends[170].1).write_all(b"x").unwrap();
        let one = crate::wait::wait_many(&asked, Some(Duration::from_secs(20))).unwrap();
        let found: Vec<_> = (0..200).filter(|at| one[*at].readable).collect();
        assert_eq!(found, [170]);
    }
}
