//! Processes: whether they live, who has started whom, and signals to them.
//!
//! A number alone may be anybody's by now. A [`Handle`] is opened while the process provably is the one
//! that is meant, and means it from then on: on Linux it is a pidfd, on Apple's systems an event of
//! kqueue(2), elsewhere there is none.

#[cfg(target_vendor = "apple")]
mod apple;

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::fd::AsRawFd,
    process::{Child, ExitStatus},
};

use rustix::process::Pid;
use tokio::io::{Interest, unix::AsyncFd};

use crate::file::Identity;

#[cfg(target_vendor = "apple")]
pub use self::apple::Handle;
#[cfg(not(target_vendor = "apple"))]
pub use self::handle::Handle;

/// What a process can be told by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(i32);

macro_rules! signals {
    ($($(#[$doc:meta])* $name:ident = $of:ident;)*) => {
        impl Signal {
            $($(#[$doc])* pub const $name: Self = Self(rustix::process::Signal::$of.as_raw());)*
        }
    };
}

signals! {
    /// The terminal has gone.
    HANG_UP = HUP;
    /// ^C.
    INTERRUPT = INT;
    /// ^\.
    QUIT = QUIT;
    /// It is to end.
    TERMINATE = TERM;
    /// It is ended.
    KILL = KILL;
    /// It stands still.
    STOP = STOP;
    /// It goes on.
    CONTINUE = CONT;
    /// It stands still, if it has nothing against it.
    SUSPEND = TSTP;
    /// The terminal has another size.
    RESIZED = WINCH;
    /// A child has ended.
    CHILD = CHILD;
}

impl Signal {
    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }

    #[cfg(feature = "command")]
    pub(crate) fn of_number(number: i32) -> Self {
        Self(number)
    }

    /// `None` if no program is sent it by its number.
    pub(crate) fn raw(self) -> Option<rustix::process::Signal> {
        rustix::process::Signal::from_named_raw(self.0)
    }
}

/// Sends a signal to a child that was not waited for, so that the number is still its own. It may have
/// ended on its own.
pub fn signal_child(child: &Child, signal: Signal) {
    if let Some(signal) = signal.raw() {
        let _ = rustix::process::kill_process(Pid::from_child(child), signal);
    }
}

/// Whether a child has ended that was not waited for. It is not reaped by that.
pub fn child_has_ended(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), how), Ok(Some(_)))
}

/// The number of the signal that has ended it, if one has.
pub fn ended_by(status: ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    status.signal()
}

/// Whether this process must not send signals to the one of this number.
pub fn is_beyond_signals(number: u32) -> bool {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let test = |pid| rustix::process::test_kill_process(pid);
    pid.is_some_and(|pid| test(pid) == Err(rustix::io::Errno::PERM))
}

/// The process that has started this one, or 0 if that cannot be seen.
pub fn parent() -> u32 {
    rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs())
}

/// What the system says of a process of this machine.
#[cfg(feature = "command")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether it stands still until it is told to go on.
    pub is_stopped: bool,
    /// Who has started it.
    pub parent: u32,
}

/// What the system says of the process of this number; `None` if it does not, or there is none.
#[cfg(feature = "command")]
pub fn seen(number: u32) -> Option<Seen> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The program's name is in brackets, and may have any in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let is_stopped = matches!(fields.next()?, "T" | "t");
    Some(Seen { is_stopped, parent: fields.next()?.parse().ok()? })
}

/// Whether a process that was not started by this one can be told to end, and not only be ended.
#[cfg(feature = "command")]
pub const TELLS_OTHERS: bool = true;

/// The program of a process, or its script if that says by which program it is run. Empty if that is
/// not known.
#[cfg(target_vendor = "apple")]
pub fn name(number: u32) -> String {
    apple::name(number)
}

/// The program of a process, or its script if that says by which program it is run. Empty if that is
/// not known.
#[cfg(not(target_vendor = "apple"))]
pub fn name(number: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
    name.trim_end_matches('\n').to_owned()
}

/// Leaves the terminal and the process group of whoever has started this process. Nothing happens if it
/// leads a group already.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// Has this process become a command. Returns why it cannot.
pub fn execute(command: &mut std::process::Command) -> io::Error {
    use std::os::unix::process::CommandExt;
    command.exec()
}

/// Has a command be in a process group of its own: what interrupts us is not meant for it.
pub fn set_apart(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Has a program that is everybody's, a broker, not end with whoever happens to start it. Here it sees to that itself.
pub fn let_go(_: &mut std::process::Command) {}

/// Whether a program needs this variable to be started at all. Here it needs none.
pub fn is_needed(_: &OsStr) -> bool {
    false
}

/// What opens a file with the program that its user likes best: commands, to be tried in this order.
pub const OPENERS: &[&str] = if cfg!(target_vendor = "apple") {
    &["open"]
} else {
    // The last on a Linux within Windows.
    &["xdg-open", "gio open", "wslview"]
};

/// The PID namespace of this process, by the number of its inode: numbers of processes mean something only in
/// the namespace in which they were seen. `None` where there are none, or that cannot be told.
pub fn namespace() -> Option<u64> {
    crate::file::identity_behind("/proc/self/ns/pid".as_ref()).ok().map(|(_, inode)| inode)
}

/// How nice it is to other processes (nice(2)).
pub fn niceness() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

/// Whether the process of this number has this file open, whose name ends so.
#[cfg(target_os = "linux")]
pub fn has_open(number: u32, file: Identity, extension: &str) -> bool {
    use crate::file::identity_behind;
    let is_such = |name: &std::path::Path| name.extension().is_some_and(|is| is == extension);
    let mut open = open_in(number, is_such);
    open.any(|path| identity_behind(&path).is_ok_and(|found| found == file))
}

/// Whether the process of this number has this file open. Here it cannot be told.
#[cfg(not(target_os = "linux"))]
pub fn has_open(_: u32, _: Identity, _: &str) -> bool {
    false
}

/// Opens the file of this name that the process of this number has open and that is it, for reading. Somebody
/// may have removed it.
///
/// # Errors
///
/// `NotFound` if it has none.
#[cfg(target_os = "linux")]
pub fn open_of(number: u32, name: &OsStr, is_it: impl Fn(&File) -> bool) -> io::Result<File> {
    let mut open = open_in(number, |path| path.file_name() == Some(name));
    // What is there is a link to it.
    let how = || {
        let mut how = crate::file::without_waiting();
        how.read(true);
        how
    };
    let found = open.find_map(|path| how().open(path).ok().filter(&is_it));
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens a file that a process has open. Here it cannot be told.
///
/// # Errors
///
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn open_of(_: u32, _: &OsStr, _: impl Fn(&File) -> bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What a process has open that has, or had, such a name.
///
/// Only what has such a name is to be looked at: its other files may be on a file system that does
/// not answer, and to ask for their names alone does not touch that.
#[cfg(target_os = "linux")]
fn open_in(
    number: u32,
    is_such: impl Fn(&std::path::Path) -> bool,
) -> impl Iterator<Item = std::path::PathBuf> {
    use std::{fs, os::unix::ffi::OsStrExt, path::Path};
    let open = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
    open.map(|entry| entry.path()).filter(move |path| {
        fs::read_link(path).is_ok_and(|name| {
            let name = name.as_os_str().as_bytes();
            // The kernel's mark of what was removed.
            let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
            is_such(Path::new(OsStr::from_bytes(name)))
        })
    })
}

/// Waits for the end of a process, by whatever keeps a [`Handle`]. Must be called in a runtime of
/// tokio. Never ends if it cannot be waited for.
#[allow(
    deprecated,
    reason = "the new way is unsafe because a type may change its descriptor; this one does not"
)]
pub async fn end_of<T: AsRawFd>(handle: T) {
    match AsyncFd::with_interest(handle, Interest::READABLE) {
        Ok(descriptor) => _ = descriptor.readable().await,
        Err(_) => std::future::pending().await,
    }
}

#[cfg(target_os = "linux")]
mod handle {
    use std::{
        fs::File,
        io::{self, Read},
        os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        process::Child,
        str,
        time::{Duration, Instant},
    };

    use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

    use super::Signal;
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
                // Of a thread, systems say one or the other.
                Errno::INVAL | Errno::NOENT => io::ErrorKind::InvalidInput.into(),
                error => io::Error::from(error),
            })?;
            Ok(Self { number, descriptor })
        }

        /// A child, which was not waited for.
        ///
        /// # Errors
        ///
        /// If there are no descriptors left.
        pub fn of_child(child: &Child) -> io::Result<Self> {
            Self::open(child.id())
        }

        /// The one of this number, by a pidfd of it.
        pub(crate) fn known(number: u32, descriptor: OwnedFd) -> Self {
            Self { number, descriptor }
        }

        /// Its number.
        pub fn number(&self) -> u32 {
            self.number
        }

        /// Whether it has ended. Its number is its own until its parent has taken notice of that.
        pub fn has_ended(&self) -> bool {
            self.ends_within(Duration::ZERO)
        }

        /// Whether it has ended, or does within this time. Blocks.
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

        /// Whether its end has begun and is not complete.
        pub fn is_ending(&self) -> bool {
            let is_marked = || self.stat().is_some_and(|stat| stat.flags & PF_EXITING != 0);
            !self.has_ended() && is_marked()
        }

        /// Who has started it, or has it since whoever did has ended.
        pub fn parent(&self) -> Option<u32> {
            let parent = self.stat()?.parent;
            // What was read is of this process only if it has not ended.
            (!self.has_ended()).then_some(parent)
        }

        /// Sends it a signal. It may have ended, and may be one that we must not send signals to.
        pub fn signal(&self, signal: Signal) {
            if let Some(signal) = signal.raw() {
                let _ = pidfd_send_signal(&self.descriptor, signal);
            }
        }

        fn stat(&self) -> Option<Stat> {
            // FAST: what is wanted stands near its beginning, and it comes whole.
            let mut text = [0; 512];
            let path = format!("/proc/{}/stat", self.number);
            let length = File::open(path).ok()?.read(&mut text).ok()?;
            let text = text.get(..length)?;
            // The name may have anything in it.
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
            // Of another name: it is nothing of ours, and may be where nothing answers.
            let other = File::create(directory.path().join("log")).unwrap();
            let [identity, of_other] = [&file, &other].map(|file| identity_of(file).unwrap());
            let mut command = Command::new("cat");
            let mut child =
                command.stdin(Stdio::piped()).stdout(file).stderr(other).spawn().unwrap();
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
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod handle {
    use std::{
        convert::Infallible,
        io,
        os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
        process::Child,
        time::Duration,
    };

    use super::Signal;

    /// A process. Here there is none to be had.
    #[derive(Debug)]
    pub struct Handle(Infallible);

    #[allow(missing_docs, clippy::missing_errors_doc, reason = "as on Linux, where there are such")]
    impl Handle {
        pub fn open(_: u32) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn of_child(_: &Child) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn number(&self) -> u32 {
            match self.0 {}
        }

        pub fn has_ended(&self) -> bool {
            match self.0 {}
        }

        pub fn ends_within(&self, _: Duration) -> bool {
            match self.0 {}
        }

        pub fn is_ending(&self) -> bool {
            match self.0 {}
        }

        pub fn parent(&self) -> Option<u32> {
            match self.0 {}
        }

        pub fn signal(&self, _: Signal) {
            match self.0 {}
        }
    }

    impl AsFd for Handle {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }
    }

    impl AsRawFd for Handle {
        fn as_raw_fd(&self) -> RawFd {
            match self.0 {}
        }
    }
}

#[cfg(all(test, any(target_os = "linux", target_vendor = "apple")))]
mod tests {
    use std::{
        process::{Command, Stdio},
        time::Duration,
    };

    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen_whoever_waits_for_it() {
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let process = Handle::of_child(&child).unwrap();
        assert_eq!((process.number(), process.parent()), (child.id(), Some(std::process::id())));
        assert_eq!(name(child.id()), "cat");
        assert!(!process.has_ended());
        process.signal(Signal::KILL);
        // It is not waited for yet, by anybody.
        assert!(process.ends_within(Duration::from_secs(20)) && process.has_ended());
        assert_eq!(ended_by(child.wait().unwrap()), Some(Signal::KILL.number()));
        assert!(process.has_ended());
        assert_eq!(process.parent(), None);
        assert_eq!(Handle::open(child.id()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn the_end_of_a_process_wakes_a_task() {
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let process = Handle::of_child(&child).unwrap();
        drop(child.stdin.take());
        tokio::time::timeout(Duration::from_secs(20), end_of(process)).await.unwrap();
        child.wait().unwrap();
    }
}
