//! Maps of files that others may truncate.
//!
//! A thread gets SIGBUS if it accesses a page of a mapped file that the file does not have, or for
//! which the disk has no room. The handler puts zeros there, and the access then goes on with these
//! zeros. Every other SIGBUS goes to the handler that was there before.
//!
//! In a broker, the zeros replace the whole map, which then counts as broken. In the owner, they
//! replace what the file has lost: the page of the access and all that follow. So owner and broker
//! still share the pages that are left, and both see that nothing is held in the others.

use std::{
    ffi::{c_int, c_void},
    io, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    },
};

use nix::{
    errno::Errno,
    libc::siginfo_t,
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction},
};
use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous},
    process::getpid,
};

use super::mapping::{self, Mapping};

/// A mapping that survives whatever happens to its file.
#[derive(Debug)]
pub(crate) struct Watched {
    mapping: Mapping,
    place: &'static Place,
}

/// The place of a watched map.
#[derive(Debug)]
struct Place {
    /// The address of its first byte; 0 if the place is free.
    ///
    /// Invariant: the pages from this address on, as many as a map has, belong to a [`Mapping`]
    /// that is alive.
    start: AtomicUsize,
    /// Whether the map was replaced by zeros.
    is_broken: AtomicBool,
    /// For an owner's map: the process that has its pages. A fork of that process may have other
    /// memory there. For a broker's map: 0.
    owner: AtomicI32,
}

/// All places. The handler reads them, so there is no lock around them. Places are added and never
/// removed, so nothing is freed while the handler reads it.
struct Places {
    some: [Place; 64],
    more: OnceLock<Box<Places>>,
}

static PLACES: Places = Places::new();

/// What a SIGBUS did before.
static PREVIOUS: OnceLock<io::Result<SigAction>> = OnceLock::new();

impl Watched {
    /// The map of a broker.
    pub(crate) fn of_broker(mapping: Mapping) -> io::Result<Self> {
        Self::new(mapping, 0)
    }

    /// The map of the owner, which is this process.
    pub(crate) fn of_owner(mapping: Mapping) -> io::Result<Self> {
        Self::new(mapping, getpid().as_raw_nonzero().get())
    }

    fn new(mapping: Mapping, owner: i32) -> io::Result<Self> {
        let start = mapping.start().map_or(0, |start| start.as_ptr().expose_provenance());
        if let Err(error) = PREVIOUS.get_or_init(install) {
            return Err(error.kind().into());
        }
        let place = PLACES.put(start);
        // Nobody accesses the map before this function has returned.
        place.owner.store(owner, Ordering::Relaxed);
        Ok(Self { mapping, place })
    }

    /// The map, if it is whole.
    #[inline]
    pub(crate) fn mapping(&self) -> Option<&Mapping> {
        (!self.place.is_broken.load(Ordering::Relaxed)).then_some(&self.mapping)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The order matters. The mapping lives until after this function, and the next user of the
        // place must find `is_broken` false.
        self.place.is_broken.store(false, Ordering::Relaxed);
        self.place.start.store(0, Ordering::Release);
    }
}

impl Place {
    const fn nobodys() -> Self {
        Self {
            start: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
            owner: AtomicI32::new(0),
        }
    }
}

impl Places {
    const fn new() -> Self {
        Self { some: [const { Place::nobodys() }; 64], more: OnceLock::new() }
    }

    /// All places up to the last one that was ever used, in some order.
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
    // The handler runs on the alternate signal stack, if the thread has one. An earlier handler, to
    // which this one passes signals on, may need that stack.
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
    let ours = SigAction::new(SigHandler::SigAction(on_sigbus), flags, SigSet::empty());
    // SAFETY: the handler does only what a signal handler may.
    Ok(unsafe { sigaction(Signal::SIGBUS, &ours) }?)
}

/// Does only what a signal handler may do: loads, stores and system calls.
extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = Errno::last_raw();
    // SAFETY: the system gives this pointer to a handler that was installed with SA_SIGINFO.
    let about = unsafe { &*info };
    // If this is not a fault, somebody has sent the signal, and there is no address.
    let is_fault = about.si_code > 0;
    // SAFETY: a fault has an address. Otherwise, the value is not used.
    let address = unsafe { about.si_addr() }.addr();
    if !is_fault || !put_zeros(address) {
        pass_on(is_fault, signal, info, context);
    }
    Errno::set_raw(errno);
}

/// If a map contains this address, replaces what is missing of that map by zeros.
fn put_zeros(address: usize) -> bool {
    let bytes = usize::try_from(mapping::BYTES).unwrap_or(usize::MAX);
    let process = getpid().as_raw_nonzero().get();
    let is_there = |place: &&Place| {
        let start = place.start.load(Ordering::Acquire);
        let owner = place.owner.load(Ordering::Relaxed);
        start != 0 && address.wrapping_sub(start) < bytes && (owner == 0 || owner == process)
    };
    let Some(place) = PLACES.iter().find(is_there) else { return false };
    let start = place.start.load(Ordering::Acquire);
    let end = start + bytes;
    if place.owner.load(Ordering::Relaxed) == 0 {
        let done = replace(start, end);
        place.is_broken.store(true, Ordering::Relaxed);
        return done;
    }
    // The kernel refuses what does not begin with a page. Pages have 4 to 64 KiB.
    (12..=16).any(|bits| replace((address >> bits << bits).max(start), end))
}

/// Replaces these pages of a map by zeros.
fn replace(from: usize, to: usize) -> bool {
    let (zeros, there) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    let from_there = ptr::with_exposed_provenance_mut(from);
    // SAFETY: these pages belong to a mapping that is alive, because this thread is just accessing
    // it. All accesses to the mapping are by atomics, which accept any contents.
    unsafe { mmap_anonymous(from_there, to - from, zeros, there) }.is_ok()
}

/// Does what a SIGBUS would do without this crate's handler.
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
            // A fault occurs again by itself, and ends the process.
            if !is_fault && done.is_ok() {
                let _ = raise(Signal::SIGBUS);
            }
        }
    }
}
