//! The clocks of the machine, which all its processes share.

/// Nanoseconds on a clock that never goes back. It may stand still while the machine is suspended.
pub fn monotonic() -> u64 {
    read(MONOTONIC)
}

/// [`monotonic`] at less cost: the result may be some milliseconds old.
pub fn recent() -> u64 {
    read(RECENT)
}

/// Nanoseconds since the start of the machine, with the time in which it was suspended.
pub fn uptime() -> u64 {
    read(UPTIME)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use self::namespace::ahead;

/// How many nanoseconds the [`monotonic`] clock of a process is ahead of ours. `None` if that is not known.
/// Here all processes have the same clock.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn ahead(_: u32) -> Option<i64> {
    Some(0)
}

#[cfg(target_vendor = "apple")]
use self::apple::{MONOTONIC, RECENT, UPTIME, read};
#[cfg(not(target_vendor = "apple"))]
use self::elsewhere::{MONOTONIC, RECENT, UPTIME, read};

#[cfg(not(target_vendor = "apple"))]
mod elsewhere {
    use rustix::time::{ClockId, clock_gettime};

    pub(super) const MONOTONIC: ClockId = ClockId::Monotonic;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) const RECENT: ClockId = ClockId::MonotonicCoarse;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) const UPTIME: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) const RECENT: ClockId = MONOTONIC;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) const UPTIME: ClockId = MONOTONIC;

    pub(super) fn read(clock: ClockId) -> u64 {
        let time = clock_gettime(clock);
        super::nanoseconds(time.tv_sec, time.tv_nsec)
    }
}

#[cfg(target_vendor = "apple")]
mod apple {
    use nix::{libc, time::ClockId};

    /// `mach_continuous_time`, which goes on while the machine is suspended. `CLOCK_MONOTONIC` is
    /// no such clock here: it is the time of day minus that of the start, in microseconds.
    pub(super) const MONOTONIC: ClockId = ClockId::from_raw(libc::CLOCK_MONOTONIC_RAW);
    pub(super) const RECENT: ClockId = MONOTONIC;
    pub(super) const UPTIME: ClockId = MONOTONIC;

    pub(super) fn read(clock: ClockId) -> u64 {
        // Reading fails for clocks that do not exist, and for no other reason.
        clock.now().map_or(0, |time| super::nanoseconds(time.tv_sec(), time.tv_nsec()))
    }
}

/// Time namespaces, as of `time_namespaces(7)`.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod namespace {
    use std::{
        fs::{self, read_link},
        path::{Path, PathBuf},
    };

    /// How many nanoseconds the [`monotonic`](super::monotonic) clock of a process is ahead of ours. `None` if
    /// that is not known. The processes of one time namespace have the same clock.
    pub fn ahead(process: u32) -> Option<i64> {
        let (ours, theirs) = (Path::new("/proc/self"), PathBuf::from(format!("/proc/{process}")));
        if ours.join("ns").exists() && !ours.join("ns/time").exists() {
            // The kernel has no such namespaces.
            return Some(0);
        }
        if read_link(ours.join("ns/time")).ok()? == read_link(theirs.join("ns/time")).ok()? {
            return Some(0);
        }
        offset(&theirs)?.checked_sub(offset(ours)?)
    }

    /// How many nanoseconds the clock of this process is ahead of the machine's.
    fn offset(process: &Path) -> Option<i64> {
        // The offsets are those of the process's children. A process that has unshared its time namespace
        // is not in theirs.
        let namespace = |name: &str| read_link(process.join("ns").join(name)).ok();
        if namespace("time")? != namespace("time_for_children")? {
            return None;
        }
        let offsets = fs::read_to_string(process.join("timens_offsets")).ok()?;
        let offset = offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?;
        let mut numbers = offset.split_whitespace().map_while(|number| number.parse().ok());
        let (seconds, nanoseconds): (i64, i64) = (numbers.next()?, numbers.next()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
    }

    #[cfg(test)]
    mod tests {
        use std::{
            io::{BufRead, BufReader},
            process::{Command, Stdio},
        };

        use super::ahead;

        #[test]
        fn a_process_that_is_not_there_has_no_clock_that_is_known() {
            assert_eq!(ahead(std::process::id()), Some(0));
            assert_eq!(ahead(u32::MAX), None);
        }

        #[test]
        fn a_process_in_another_time_namespace_is_ahead_by_its_offset() {
            for (seconds, expected) in [("1000", 1_000_000_000_000), ("-3", -3_000_000_000)] {
                let mut command = Command::new("unshare");
                command.args(["-r", "--time", "--monotonic", seconds, "--fork", "sh", "-c"]);
                command.arg("echo $$; read _").stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut unshare = command.spawn().unwrap();
                let mut said = String::new();
                BufReader::new(unshare.stdout.take().unwrap()).read_line(&mut said).unwrap();
                if said.is_empty() {
                    println!("skipped: no time namespace is to be had");
                } else {
                    assert_eq!(ahead(said.trim().parse().unwrap()), Some(expected));
                    // This one has only unshared the time of its children.
                    assert_eq!(ahead(unshare.id()), Some(0));
                }
                drop(unshare.stdin.take());
                unshare.wait().unwrap();
            }
        }
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    // The clock counts from the start of the machine, so it is not negative, and lasts for
    // centuries.
    let seconds = u64::try_from(seconds).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.unsigned_abs())
}

#[cfg(feature = "command")]
pub use self::alarm::Alarm;

#[cfg(feature = "command")]
mod alarm {
    use std::{io, os::fd::OwnedFd, time::Duration};

    use crate::wait::BorrowedSource;

    /// A source that becomes readable at a time on the clock of [`uptime`](super::uptime). Other
    /// waits are measured by a clock that stands still while the machine is suspended.
    #[derive(Debug)]
    pub struct Alarm(Option<OwnedFd>);

    impl Alarm {
        /// An alarm that has not been set.
        ///
        /// # Errors
        ///
        /// If there are no descriptors left.
        pub fn new() -> io::Result<Self> {
            #[cfg(target_os = "linux")]
            {
                use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
                Ok(Self(Some(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?)))
            }
            #[cfg(not(target_os = "linux"))]
            Ok(Self(None))
        }

        /// Sets the alarm to this time since the start of the machine.
        ///
        /// # Errors
        ///
        /// If the system does not count as far.
        #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is none"))]
        pub fn set(&self, uptime: Duration) -> io::Result<()> {
            #[cfg(target_os = "linux")]
            {
                use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
                let it_value =
                    Timespec::try_from(uptime).map_err(|_| io::ErrorKind::InvalidInput)?;
                let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
                let once = Itimerspec { it_interval, it_value };
                if let Some(timer) = &self.0 {
                    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
                }
            }
            Ok(())
        }

        /// What becomes readable; `None` where the system has no such thing, and the caller has to
        /// look at the clock now and then.
        pub fn source(&self) -> Option<BorrowedSource<'_>> {
            self.0.as_ref().map(crate::wait::Source::source)
        }
    }
}
