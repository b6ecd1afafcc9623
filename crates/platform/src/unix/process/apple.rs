//! Processes on Apple's systems: their ends by kqueue(2), the rest by `proc_pidinfo`.

use std::{
    ffi::c_int,
    io,
    mem::{MaybeUninit, size_of},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    process::Child,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    libc::{self, proc_bsdinfo},
    sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue},
};
use rustix::process::{Pid, kill_process};

use super::signal::Signal;
use crate::wait;

/// The system's mark of a process that is ending (`PROC_FLAG_INEXIT` of `sys/proc_info.h`).
const IS_ENDING: u32 = 4;

/// A process that lived when this was opened. As a source it is readable when the process has ended.
#[derive(Debug)]
pub struct Handle {
    number: u32,
    /// A queue with one event, the end of the process. The event is never taken out, so that the queue stays
    /// readable once it has come.
    queue: OwnedFd,
}

impl Handle {
    /// The process that has this number now.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, or its end has begun; others if there are no descriptors left.
    pub fn open(number: u32) -> io::Result<Self> {
        let pid = i32::try_from(number).ok().filter(|&pid| pid > 0);
        let pid = pid.and_then(|pid| usize::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
        let queue = Kqueue::new()?;
        // A child made by fork(2) does not inherit the queue; a program that this process executes would.
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        let (filter, end) = (EventFilter::EVFILT_PROC, FilterFlag::NOTE_EXIT);
        let added = KEvent::new(pid, filter, EvFlags::EV_ADD, end, 0, 0);
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // With no room for events, errors are returned by the call itself.
        queue.kevent(&[added], &mut [], Some(at_once)).map_err(|error| match error {
            Errno::ESRCH => io::ErrorKind::NotFound.into(),
            error => io::Error::from(error),
        })?;
        Ok(Self { number, queue: queue.into() })
    }

    /// A child that was not waited for.
    ///
    /// # Errors
    ///
    /// As of [`open`](Self::open): `NotFound` also if its end has begun.
    pub fn of_child(child: &Child) -> io::Result<Self> {
        Self::open(child.id())
    }

    /// The process's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the process has ended. The number is still its own until its parent has waited for it.
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Whether the process has ended, or ends within this time. Blocks.
    pub fn ends_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match wait::wait([(self.as_fd(), wait::Interest::READ)], Some(left)) {
                Ok([ready]) => return ready.any(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Whether the end of the process has begun and is not complete.
    ///
    /// A process that ends can first no longer be found; then the system closes what it has open, and only
    /// afterwards tells of its end.
    pub fn is_ending(&self) -> bool {
        let has_begun = match known(self.number) {
            Ok(info) => info.pbi_flags & IS_ENDING != 0,
            Err(error) => error == Errno::ESRCH,
        };
        // Asked last, because the process may have ended in between.
        has_begun && !self.has_ended()
    }

    /// The process that has started this one, or that has become its parent since that has ended.
    pub fn parent(&self) -> Option<u32> {
        let parent = known(self.number).ok()?.pbi_ppid;
        // What was read is of this process only if this has not ended.
        (!self.has_ended()).then_some(parent)
    }

    /// Sends the process a signal. It may have ended, and we may not be allowed to send it signals.
    ///
    /// A signal can only be sent by number, and the number is the process's own as long as it has not ended.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.number).ok().and_then(Pid::from_raw);
        if let (Some(pid), Some(signal), false) = (pid, signal.raw(), self.has_ended()) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }
}

/// The program of a process, as far as the system keeps its name. Empty if that is not known.
pub(super) fn name(number: u32) -> String {
    let Ok(info) = known(number) else { return String::new() };
    // The short name is always there.
    let is_named = info.pbi_name[0] != 0;
    let name = if is_named { &info.pbi_name[..] } else { &info.pbi_comm[..] };
    let name: Vec<u8> =
        name.iter().map(|byte| byte.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}

/// What the system says of the process that has this number now. `ESRCH` if there is none, or its end has
/// begun; `EPERM` if it is another user's.
#[allow(unsafe_code, reason = "no safe library has this call")]
fn known(number: u32) -> Result<proc_bsdinfo, Errno> {
    let number = c_int::try_from(number).map_err(|_| Errno::ESRCH)?;
    let size = c_int::try_from(size_of::<proc_bsdinfo>()).map_err(|_| Errno::EINVAL)?;
    let mut info = MaybeUninit::<proc_bsdinfo>::zeroed();
    // SAFETY: There is room for as many bytes as the call is told, which it writes and does not keep.
    let written = unsafe {
        libc::proc_pidinfo(number, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), size)
    };
    if written != size {
        // The call returns 0 for an error, and says in `errno` which.
        return Err(Errno::last());
    }
    // SAFETY: The struct contains numbers alone, for which any bits are sound, and zeros where nothing was
    // written.
    Ok(unsafe { info.assume_init() })
}
