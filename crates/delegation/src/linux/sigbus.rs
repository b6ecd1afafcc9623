//! Maps of files that others may truncate.
//!
//! Who accesses a page of a mapped file that the file does not have, or for which there is no room on
//! the disk, gets SIGBUS. The handler puts zeros in the place of the whole map, and what was about to
//! be done is done with those. All other SIGBUS go to whom they went before.

use std::{
    ffi::{c_int, c_void},
    io, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use nix::{
    errno::Errno,
    libc::siginfo_t,
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction},
};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::mapping::{self, Mapping};

/// A mapping of which nothing that becomes of the file does harm.
#[derive(Debug)]
pub(crate) struct Watched {
    mapping: Mapping,
    place: &'static Place,
}

/// Where a map is that is watched.
#[derive(Debug)]
struct Place {
    /// The address of its first byte; 0 if this is nobody's.
    ///
    /// Invariant: the pages there, so many as a map has, are a [`Mapping`]'s that is alive.
    start: AtomicUsize,
    /// Zeros were put there.
    is_broken: AtomicBool,
}

/// All places. Read by the handler, so it has no lock; it grows and never shrinks, so that nothing of
/// it is freed while the handler reads it.
struct Places {
    some: [Place; 64],
    more: OnceLock<Box<Places>>,
}

static PLACES: Places = Places::new();

/// What was done with SIGBUS before.
static PREVIOUS: OnceLock<io::Result<SigAction>> = OnceLock::new();

impl Watched {
    pub(crate) fn new(mapping: Mapping) -> io::Result<Self> {
        let start = mapping.start().map_or(0, |start| start.as_ptr().expose_provenance());
        if let Err(error) = PREVIOUS.get_or_init(install) {
            return Err(error.kind().into());
        }
        Ok(Self { mapping, place: PLACES.put(start) })
    }

    /// The map, if it is whole.
    #[inline]
    pub(crate) fn mapping(&self) -> Option<&Mapping> {
        (!self.place.is_broken.load(Ordering::Relaxed)).then_some(&self.mapping)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // In this order: the mapping lives until after that, and who comes next finds it whole.
        self.place.is_broken.store(false, Ordering::Relaxed);
        self.place.start.store(0, Ordering::Release);
    }
}

impl Place {
    const fn nobodys() -> Self {
        Self { start: AtomicUsize::new(0), is_broken: AtomicBool::new(false) }
    }
}

impl Places {
    const fn new() -> Self {
        Self { some: [const { Place::nobodys() }; 64], more: OnceLock::new() }
    }

    /// All, in some order, up to the last that was ever used.
    fn iter(&self) -> impl Iterator<Item = &Place> {
        let chain =
            std::iter::successors(Some(self), |places| places.more.get().map(|more| &**more));
        chain.flat_map(|places| &places.some)
    }

    fn put(&'static self, start: usize) -> &'static Place {
        let mut places = self;
        loop {
            for place in &places.some {
                let taken =
                    place.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed);
                if taken.is_ok() {
                    return place;
                }
            }
            places = places.more.get_or_init(|| Box::new(Self::new()));
        }
    }
}

fn install() -> io::Result<SigAction> {
    // On the stack that is for such, if the thread has one: a handler before us may need it.
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
    let ours = SigAction::new(SigHandler::SigAction(on_sigbus), flags, SigSet::empty());
    // SAFETY: the handler does only what a signal handler may.
    Ok(unsafe { sigaction(Signal::SIGBUS, &ours) }?)
}

/// Does only what a handler may do anywhere: loads, stores and system calls.
extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = Errno::last_raw();
    // SAFETY: the system gives this to a handler that was installed with SA_SIGINFO.
    let about = unsafe { &*info };
    // Else somebody has sent it, and there is no address.
    let is_fault = about.si_code > 0;
    // SAFETY: there is one if it is a fault, and otherwise it is not used.
    let address = unsafe { about.si_addr() }.addr();
    if !is_fault || !put_zeros(address) {
        pass_on(is_fault, signal, info, context);
    }
    Errno::set_raw(errno);
}

/// Puts zeros in the place of the map in which this address is, if it is in one.
fn put_zeros(address: usize) -> bool {
    let bytes = usize::try_from(mapping::BYTES).unwrap_or(usize::MAX);
    let is_there = |place: &&Place| {
        let start = place.start.load(Ordering::Acquire);
        start != 0 && address.wrapping_sub(start) < bytes
    };
    let Some(place) = PLACES.iter().find(is_there) else { return false };
    let start = ptr::with_exposed_provenance_mut(place.start.load(Ordering::Acquire));
    let (zeros, there) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: these pages are a mapping's, which lives, as this thread is just accessing it; it is
    // accessed by atomics only, to which it does not matter what stands there.
    let done = unsafe { mmap_anonymous(start, bytes, zeros, there) };
    place.is_broken.store(true, Ordering::Relaxed);
    done.is_ok()
}

/// Does what would have been done without us.
fn pass_on(is_fault: bool, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get().and_then(|previous| previous.as_ref().ok());
    match previous.map(SigAction::handler) {
        Some(SigHandler::SigAction(handler)) => handler(signal, info, context),
        Some(SigHandler::Handler(handler)) => handler(signal),
        Some(SigHandler::SigIgn) if !is_fault => {}
        _ => {
            let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
            // SAFETY: this installs no handler.
            let done = unsafe { sigaction(Signal::SIGBUS, &default) };
            // A fault comes again by itself, and ends the process.
            if !is_fault && done.is_ok() {
                let _ = raise(Signal::SIGBUS);
            }
        }
    }
}
