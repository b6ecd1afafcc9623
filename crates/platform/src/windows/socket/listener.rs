//! Sockets that others connect to: several instances of a pipe at once, each of which is told when
//! somebody has connected to it.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    os::windows::{
        fs::OpenOptionsExt,
        io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::Context,
    time::Duration,
};

use windows_sys::Win32::{Foundation::GENERIC_WRITE, System::Pipes::ConnectNamedPipe};

use super::{
    instance::instance,
    name::{MARK, new_name},
    stream::Stream,
};
use crate::{
    wait::{BorrowedSource, Source},
    windows::{
        operation::Operation,
        pipe::Side,
        system::{Awaited, Event, MOST, is_signalled, wait_for},
    },
};

/// How many can connect at once before the first of them was accepted.
pub(super) const BACKLOG: usize = 8;
const _: () = assert!(BACKLOG < MOST);

/// A socket that others connect to.
#[derive(Clone, Debug)]
pub struct Listener(Arc<Waiting>);

#[derive(Debug)]
struct Waiting {
    name: String,
    path: PathBuf,
    slots: Mutex<Vec<Slot>>,
    /// Set if somebody has connected to any of the slots. The connection may have been accepted since.
    any: Arc<Event>,
    is_nonblocking: AtomicBool,
}

/// An instance of the pipe, to which somebody may have connected.
#[derive(Debug)]
struct Slot {
    // Dropped before the event, for which it waits.
    awaited: Option<Awaited>,
    /// Set once somebody has connected.
    event: Arc<Event>,
    connecting: Box<Operation>,
    handle: Arc<OwnedHandle>,
}

impl Slot {
    fn begin(handle: Arc<OwnedHandle>, any: &Arc<Event>) -> io::Result<Self> {
        let event = Arc::new(Event::new(false)?);
        let mut connecting = Operation::new(&event);
        connecting.tell_also(any);
        // Any end of this call means that somebody has connected. They may have gone again, which
        // whoever reads is told.
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
    /// Listens at a path at which nothing exists.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if there is something at the path.
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

    /// The same listener once more.
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

    /// The path at which this listens, or did when it began.
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
    /// `WouldBlock` if there is none and this does not block; others if there is no memory.
    pub fn accept(&self) -> io::Result<(Stream, Address)> {
        loop {
            if let Some(stream) = self.0.accept()? {
                return Ok((stream, Address(None)));
            }
            if self.0.is_nonblocking.load(SeqCst) {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.0.wait(CHECK_INTERVAL)?;
        }
    }
}

/// How often to look again while somebody waits without a task: others may have accepted meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Adds as many instances as there should be, or as many as there can be.
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

impl Listener {
    /// The next connection, if somebody has connected.
    pub(super) fn accept_now(&self) -> io::Result<Option<Stream>> {
        self.0.accept()
    }

    /// Wakes the task once somebody has connected.
    pub(super) fn wake_when_somebody_comes(&self, context: &Context<'_>) -> io::Result<()> {
        for slot in &mut *self.0.slots() {
            if slot.awaited.is_none() {
                slot.awaited = Some(Awaited::new()?);
            }
            if let Some(awaited) = &slot.awaited {
                awaited.wake_when(slot.event.as_handle(), context.waker());
            }
        }
        Ok(())
    }
}

impl Waiting {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next connection, if somebody has connected.
    fn accept(&self) -> io::Result<Option<Stream>> {
        let mut slots = self.slots();
        // Whoever connects from here on sets the event again.
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
pub struct Address(pub(super) Option<PathBuf>);

impl Address {
    /// Its path, if it has one.
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}
