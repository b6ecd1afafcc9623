//! Priorities of threads.

/// By how much a thread that looks is nicer than others (see nice(2)). Where both want a CPU, a
/// thread that locks has it some ten times as long, if both are of the same session or container:
/// the kernel shares a CPU among these first.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NICER: i32 = 10;

/// Lowers the priority of this thread: for threads that look, for which nobody who locks should have
/// to wait. Threads that this one starts afterwards have the lower priority as well.
///
/// Only on Linux, where threads have priorities of their own; elsewhere it does nothing.
///
/// ```
/// use std::thread;
///
/// # use navlock_platform::thread::lower_thread_priority;
/// # let show_what_happens = || {};
/// let looker = thread::spawn(move || {
///     lower_thread_priority();
///     show_what_happens();
/// });
/// # looker.join().unwrap();
/// ```
pub fn lower_thread_priority() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // Every thread may make itself nicer; where that fails, it is as before.
        let _ = rustix::process::nice(NICER);
        slice::lengthen();
    }
}

/// For how long a thread runs at a time where others want its CPU.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "there is no other word for these two calls than syscall(2)")]
mod slice {
    use std::{mem::size_of, ptr::from_mut};

    use nix::libc::{
        SCHED_BATCH, SCHED_OTHER, SYS_sched_getattr, SYS_sched_setattr, c_uint, syscall,
    };

    /// In nanoseconds. Threads that ask for no slice have three milliseconds at most. A thread that
    /// looks is through with its turn in a hundredth of this.
    pub(super) const SLICE: u64 = 10_000_000;

    /// `struct sched_attr` in its first version (see `sched_setattr(2)`), which all kernels take.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: i32,
        flags: u64,
        nice: i32,
        priority: u32,
        /// In nanoseconds; of an ordinary thread its slice, from Linux 6.12 on.
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    const SIZE: c_uint = 48;
    const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

    /// Asks for a longer slice than others have, so that this thread is taken off its CPU as soon
    /// as one of them has something to do. Being nicer does not do that: it decides how much of a
    /// CPU a thread has, and a thread that has just begun stays for most of a millisecond.
    pub(super) fn lengthen() {
        // An older kernel does not look at the slice; where these calls are forbidden, all is as
        // before.
        let Some(mut attributes) = attributes() else { return };
        if [SCHED_OTHER, SCHED_BATCH].contains(&attributes.policy) {
            attributes.runtime = SLICE;
            // SAFETY: it is a `struct sched_attr` of the size it says, which the kernel reads.
            unsafe { syscall(SYS_sched_setattr, 0, from_mut(&mut attributes), 0 as c_uint) };
        }
    }

    fn attributes() -> Option<Attributes> {
        let mut attributes = Attributes::default();
        // SAFETY: the kernel writes a `struct sched_attr` of no more than this size.
        let got =
            unsafe { syscall(SYS_sched_getattr, 0, from_mut(&mut attributes), SIZE, 0 as c_uint) };
        (got == 0).then_some(attributes)
    }

    /// The slice of this thread, in nanoseconds; 0 where the kernel has none.
    #[cfg(test)]
    pub(super) fn of_this_thread() -> u64 {
        attributes().map_or(0, |attributes| attributes.runtime)
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use std::thread;

    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn only_the_priority_of_this_thread_is_lowered() {
        let now = || (getpriority_process(None).unwrap(), slice::of_this_thread());
        let (nice, slice) = now();
        let inside = thread::spawn(move || {
            lower_thread_priority();
            now()
        });
        // As far as there is any further. Linux before 6.12 has no slices that one can ask for.
        let longer = if slice == 0 { 0 } else { slice::SLICE };
        assert_eq!(inside.join().unwrap(), ((nice + NICER).min(19), longer));
        assert_eq!(now(), (nice, slice));
    }
}
