//! Overlapped calls, which come to their end later, whatever becomes of the thread that has begun
//! them.
//!
//! The system cancels the calls that a thread has under way when the thread ends, unless the end of
//! a call is told to a completion port and to nothing else. So there is such a port, and a thread
//! that takes each end from it and sets an event for the call.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    fmt, io,
    os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle},
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread,
    time::Duration,
};

use windows_sys::Win32::{
    Foundation::{ERROR_IO_PENDING, INVALID_HANDLE_VALUE},
    Storage::FileSystem::SetFileCompletionNotificationModes,
    System::{
        IO::{
            CancelIoEx, CreateIoCompletionPort, GetOverlappedResult, GetQueuedCompletionStatus,
            OVERLAPPED,
        },
        Threading::INFINITE,
    },
};

use super::system::{Event, checked, is_signalled, owned, wait_for};

/// `FILE_SKIP_COMPLETION_PORT_ON_SUCCESS`: the end of a call that ends at once is told to its caller alone.
const SKIP: u8 = 1;

/// How often to look whether a call has come to its end while its event cannot say so.
const PAUSE: Duration = Duration::from_millis(1);

/// Has the ends of calls on this handle, which was opened for overlapped calls, told to the port.
/// To be called once for a handle.
pub(crate) fn associate(handle: BorrowedHandle<'_>) -> io::Result<()> {
    let port = port()?;
    // SAFETY: Both handles are open.
    unsafe {
        let same = CreateIoCompletionPort(handle.as_raw_handle(), port.as_raw_handle(), 0, 0);
        checked(i32::from(!same.is_null()))?;
        checked(SetFileCompletionNotificationModes(handle.as_raw_handle(), SKIP))
    }
}

/// The port, which is there for as long as the process.
fn port() -> io::Result<Arc<OwnedHandle>> {
    static PORT: Mutex<Option<Arc<OwnedHandle>>> = Mutex::new(None);
    let mut made = PORT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(port) = &*made {
        return Ok(Arc::clone(port));
    }
    // SAFETY: The port is new, and is made for no handle.
    let port =
        unsafe { owned(CreateIoCompletionPort(INVALID_HANDLE_VALUE, ptr::null_mut(), 0, 1)) }?;
    let port = Arc::new(port);
    let heard = Arc::clone(&port);
    thread::Builder::new().name("navlock-pipes".to_owned()).spawn(move || hear(&heard))?;
    *made = Some(Arc::clone(&port));
    Ok(port)
}

/// Sets the event of each call that has come to its end.
fn hear(port: &OwnedHandle) {
    loop {
        let (mut length, mut key, mut ended) = (0, 0, ptr::null_mut::<OVERLAPPED>());
        // SAFETY: The handle is open, and there is room for what is written.
        unsafe {
            GetQueuedCompletionStatus(
                port.as_raw_handle(),
                &raw mut length,
                &raw mut key,
                &raw mut ended,
                INFINITE,
            );
        }
        if !ended.is_null() {
            // SAFETY: It is the first field of an `Operation` that is under way. The operation is
            // there until it is told that it has ended, and is not touched here any more from then
            // on.
            let (event, also) = unsafe {
                let operation = ended.cast::<Operation>();
                let events = (Arc::clone(&(*operation).event), (*operation).also.clone());
                (*operation).has_ended.store(true, Release);
                events
            };
            event.set();
            also.iter().for_each(|also| also.set());
        }
    }
}

/// A call that may be under way. Dropping it cancels the call.
#[repr(C)]
pub(crate) struct Operation {
    overlapped: OVERLAPPED,
    /// Set once the call has come to its end; others may set it as well.
    event: Arc<Event>,
    /// Set as well, and never reset here: the event of whoever waits for one of several calls.
    also: Option<Arc<Event>>,
    has_ended: AtomicBool,
    /// The handle that it is under way on.
    on: Option<Arc<OwnedHandle>>,
    pub(crate) buffer: Vec<u8>,
}

// SAFETY: The pointers in it are null, or the system's.
unsafe impl Send for Operation {}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("on", &self.on).finish_non_exhaustive()
    }
}

impl Operation {
    /// In a box, because the system must find it where it was.
    pub(crate) fn new(event: &Arc<Event>) -> Box<Self> {
        let overlapped = OVERLAPPED::default();
        let has_ended = AtomicBool::new(true);
        Box::new(Self {
            overlapped,
            event: Arc::clone(event),
            also: None,
            has_ended,
            on: None,
            buffer: Vec::new(),
        })
    }

    /// Has this event set as well when a call has come to its end.
    pub(crate) fn tell_also(&mut self, also: &Arc<Event>) {
        self.also = Some(Arc::clone(also));
    }

    fn tell(&self) {
        self.event.set();
        self.also.iter().for_each(|also| also.set());
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.on.is_some()
    }

    /// Begins a call with this and its buffer. Returns the call's result if it has come to its end.
    ///
    /// # Safety
    ///
    /// The call is one on this handle whose end is told by this operation, and touches nothing but
    /// the buffer, which the caller leaves alone while the call is under way.
    pub(crate) unsafe fn begin(
        self: &mut Box<Self>,
        on: &Arc<OwnedHandle>,
        call: impl FnOnce(&mut Vec<u8>, *mut OVERLAPPED) -> i32,
    ) -> Option<io::Result<usize>> {
        self.overlapped = OVERLAPPED::default();
        self.event.reset();
        self.has_ended.store(false, Relaxed);
        let this = &mut **self;
        match checked(call(&mut this.buffer, &raw mut this.overlapped)) {
            Ok(()) => {
                self.on = Some(Arc::clone(on));
                self.has_ended.store(true, Relaxed);
                self.tell();
                self.result()
            }
            Err(error) if error.raw_os_error() == Some(ERROR_IO_PENDING.cast_signed()) => {
                self.on = Some(Arc::clone(on));
                self.result()
            }
            Err(error) => {
                self.has_ended.store(true, Relaxed);
                self.tell();
                Some(Err(error))
            }
        }
    }

    /// Whether nothing is under way, or what was has come to its end.
    pub(crate) fn has_ended(&self) -> bool {
        if self.has_ended.load(Acquire) {
            return true;
        }
        // The event may be set by the end of the call before, of which we knew already. If this
        // call ends meanwhile, we see that, or the event is set again.
        self.event.reset();
        self.has_ended.load(Acquire)
    }

    /// The result of the call that is under way; `None` if it has not ended yet, or nothing is
    /// under way.
    pub(crate) fn result(&mut self) -> Option<io::Result<usize>> {
        if !self.has_ended() {
            return None;
        }
        let on = self.on.take()?;
        let mut length = 0;
        // SAFETY: The call has come to its end, and this is still the memory that the system has
        // written to.
        let done = unsafe {
            GetOverlappedResult(on.as_raw_handle(), &raw const self.overlapped, &raw mut length, 0)
        };
        Some(checked(done).map(|()| length as usize))
    }

    /// Waits until the call that is under way has come to its end. Returns its result; `None` if
    /// nothing is under way.
    pub(crate) fn wait(&mut self) -> Option<io::Result<usize>> {
        while self.is_under_way() {
            if let Some(result) = self.result() {
                return Some(result);
            }
            if is_signalled(self.event.as_handle()) {
                // Set by somebody else, or just now.
                thread::sleep(PAUSE);
            } else {
                let _ = wait_for(&[self.event.as_handle()], None);
            }
        }
        None
    }

    /// Cancels the call that is under way. Returns what came of it, an error if it was cut short;
    /// `None` if nothing is under way.
    pub(crate) fn cancel(&mut self) -> Option<io::Result<usize>> {
        if let Some(on) = &self.on {
            // SAFETY: It is under way on this handle, or has come to its end.
            unsafe { CancelIoEx(on.as_raw_handle(), &raw const self.overlapped) };
        }
        // The system may write to this until the call has ended.
        self.wait()
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.cancel();
    }
}
