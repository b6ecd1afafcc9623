//! Processes by their pidfds, and by what `/proc` says of them.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    process::Child,
    str,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::signal::Signal;
use crate::wait;

/// The kernel's mark of a task that is ending.
const PF_EXITING: u64 = 4;

/// A process that lived when this was opened. As a source it is readable when the process has ended.
#[derive(Debug)]
pub struct Handle {
    number: u32,
    descriptor: OwnedFd,
}

impl Handle {
    /// The process that has this number now.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, `InvalidInput` if it is the number of a thread; others if there
    /// are no descriptors left, or the system is older than Linux 5.3.
    pub fn open(number: u32) -> io::Result<Self> {
        use rustix::io::Errno;
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        let opened = pidfd_open(pid, PidfdFlags::empty());
        let descriptor = opened.map_err(|error| match error {
            Errno::SRCH => io::ErrorKind::NotFound.into(),
            // For the number of a thread, systems return one or the other.
            Errno::INVAL | Errno::NOENT => io::ErrorKind::InvalidInput.into(),
            error => io::Error::from(error),
        })?;
        Ok(Self { number, descriptor })
    }

    /// A child that was not waited for.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn of_child(child: &Child) -> io::Result<Self> {
        Self::open(child.id())
    }

    /// The process of this number, by its pidfd.
    pub(crate) fn known(number: u32, descriptor: OwnedFd) -> Self {
        Self { number, descriptor }
    }

    /// The process's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the process has ended. The number is still its own until its parent has waited for
    /// it.
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
    pub fn is_ending(&self) -> bool {
        let is_marked = || self.stat().is_some_and(|stat| stat.flags & PF_EXITING != 0);
        !self.has_ended() && is_marked()
    }

    /// The process that has started this one, or that has become its parent since that has ended.
    pub fn parent(&self) -> Option<u32> {
        let parent = self.stat()?.parent;
        // What was read is of this process only if this has not ended.
        (!self.has_ended()).then_some(parent)
    }

    /// Sends the process a signal. It may have ended, and we may not be allowed to send it signals.
    pub fn signal(&self, signal: Signal) {
        if let Some(signal) = signal.raw() {
            let _ = pidfd_send_signal(&self.descriptor, signal);
        }
    }

    fn stat(&self) -> Option<Stat> {
        // FAST: one read returns the whole text, and the fields that are needed are near its
        // beginning.
        let mut text = [0; 512];
        let path = format!("/proc/{}/stat", self.number);
        let length = File::open(path).ok()?.read(&mut text).ok()?;
        let text = text.get(..length)?;
        // The name may contain anything.
        let end = text.iter().rposition(|&byte| byte == b')')?;
        let fields = str::from_utf8(text.get(end + 1..)?).ok()?;
        let mut fields = fields.split_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let flags = fields.nth(4)?.parse().ok()?;
        Some(Stat { parent, flags })
    }
}

/// What the kernel says of a process.
struct Stat {
    parent: u32,
    flags: u64,
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::{
        file::identity_of,
        process::{has_open, open_of},
    };

    #[test]
    fn a_process_is_known_by_its_parent_or_by_what_it_has_open() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("0.locks")).unwrap();
        // A file of another name: it is not one of ours, and may be on a file system that does not
        // answer.
        let other = File::create(directory.path().join("log")).unwrap();
        let [identity, of_other] = [&file, &other].map(|file| identity_of(file).unwrap());
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).stdout(file).stderr(other).spawn().unwrap();
        let process = Handle::of_child(&child).unwrap();
        assert_eq!(process.parent(), Some(std::process::id()));
        assert!(has_open(child.id(), identity, "locks"));
        assert!(!has_open(child.id(), (0, 0), "locks"));
        assert!(!has_open(child.id(), of_other, "locks"));
        std::fs::remove_file(directory.path().join("0.locks")).unwrap();
        assert!(has_open(child.id(), identity, "locks"));
        assert!(!process.has_ended() && !process.is_ending());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(process.has_ended() && !process.is_ending());
        assert_eq!(process.parent(), None);
    }

    #[test]
    fn of_files_of_one_name_that_is_opened_which_is_meant() {
        let both = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let name = "of one name".as_ref();
        let files = both.each_ref().map(|of| File::create(of.path().join(name)).unwrap());
        for file in &files {
            let meant = identity_of(file).unwrap();
            let is_it = |found: &File| identity_of(found).unwrap() == meant;
            let found = open_of(std::process::id(), name, is_it).unwrap();
            assert_eq!(identity_of(&found).unwrap(), meant);
        }
        let none = open_of(std::process::id(), name, |_| false).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}
