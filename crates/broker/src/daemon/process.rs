//! The processes of clients: whether they have ended, and not only closed what tells so.
//!
//! A process that was killed closes what it has open one after the other. So the end of its connection
//! or of its lock on a file may be seen while it still has something else, a port or another file's
//! lock, that the next holder of its locks needs; and then it is waited for until it has ended. The
//! other way round, a process that has ended may have left copies of its descriptors to children that
//! it forked, which hold nothing for that.
//!
//! Both by a pidfd, opened while the process provably is the one that is meant: a number alone may be
//! anybody's by now. Where the system has none, or there are few descriptors left, the ends of
//! connections and of locks on files are all that is seen.

use std::time::Duration;

#[cfg(target_os = "linux")]
pub(super) use self::linux::Process;
#[cfg(not(target_os = "linux"))]
pub(super) use self::other::Process;

/// How long the end of a process may take that has begun. There may be much to write.
pub(super) const END: Duration = Duration::from_secs(5);

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs, io::Read, os::fd::OwnedFd, path::PathBuf, str, sync::Arc};

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{Pid, PidfdFlags, pidfd_open},
    };
    use tokio::{
        io::{Interest, unix::AsyncFd},
        net::UnixStream,
        time::timeout,
    };

    use super::END;
    use crate::{
        client_files::LOCKS,
        descriptors::Counted,
        lock_file::{Identity, is_open_in},
    };

    /// The kernel's mark of a task that is ending.
    const PF_EXITING: u64 = 4;

    /// A process that lived when it was looked at.
    #[derive(Clone, Debug)]
    pub(in super::super) struct Process {
        pid: Pid,
        descriptor: Arc<Counted<OwnedFd>>,
    }

    impl Process {
        /// The one that has made this connection.
        pub(in super::super) fn peer(stream: &UnixStream) -> Option<Self> {
            Self::open(stream.peer_cred().ok()?.pid()?)
        }

        /// The one of this number, if it is a child of this one.
        pub(in super::super) fn child(&self, pid: u32) -> Option<Self> {
            let child = Self::open(pid.try_into().ok()?)?;
            // From here on the number is its own, until it has ended.
            let is_child = child.stat()?.parent == self.number() && !child.has_ended();
            is_child.then_some(child)
        }

        /// The one of this number, if it has this file of inherited locks open.
        pub(in super::super) fn with_open(pid: u32, file: Identity) -> Option<Self> {
            let process = Self::open(pid.try_into().ok()?)?;
            let has = is_open_in(pid, file, LOCKS);
            (has && !process.has_ended()).then_some(process)
        }

        fn open(pid: i32) -> Option<Self> {
            let pid = Pid::from_raw(pid)?;
            let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            Some(Self { pid, descriptor: Arc::new(Counted::if_few(descriptor)?) })
        }

        pub(in super::super) fn number(&self) -> u32 {
            self.pid.as_raw_nonzero().get().unsigned_abs()
        }

        /// Whether its end has begun and is not complete.
        pub(in super::super) fn is_ending(&self) -> bool {
            let is_marked = || self.stat().is_some_and(|stat| stat.flags & PF_EXITING != 0);
            !self.has_ended() && is_marked()
        }

        /// Whether it has.
        pub(in super::super) fn has_ended(&self) -> bool {
            let mut polled = [PollFd::new(&*self.descriptor, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
                .is_ok_and(|ready| ready > 0)
        }

        /// Waits for its end, if that has begun. Blocks.
        pub(in super::super) fn wait_if_ending(&self) {
            if self.is_ending() {
                let mut polled = [PollFd::new(&*self.descriptor, PollFlags::IN)];
                let _ = poll(&mut polled, Timespec::try_from(END).ok().as_ref());
            }
        }

        /// Waits for its end, which has begun.
        pub(in super::super) async fn until_ended(self) {
            let _ = timeout(END, self.end()).await;
        }

        /// Waits for its end.
        #[allow(
            deprecated,
            reason = "the new way is unsafe because a type may change its descriptor; this one does not"
        )]
        pub(in super::super) async fn end(self) {
            match AsyncFd::with_interest(self.descriptor, Interest::READABLE) {
                Ok(descriptor) => _ = descriptor.readable().await,
                // It cannot be waited for.
                Err(_) => std::future::pending().await,
            }
        }

        fn proc(&self, file: &str) -> PathBuf {
            format!("/proc/{}/{file}", self.number()).into()
        }

        fn stat(&self) -> Option<Stat> {
            // FAST: what is wanted stands near its beginning, and it comes whole.
            let mut text = [0; 512];
            let length = fs::File::open(self.proc("stat")).ok()?.read(&mut text).ok()?;
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

    #[cfg(test)]
    mod tests {
        use std::{
            fs::File,
            process::{Command, Stdio},
        };

        use super::*;
        use crate::lock_file::identity_of;

        #[test]
        fn a_process_is_known_by_its_parent_or_by_what_it_has_open() {
            let us = Process::open(std::process::id().try_into().unwrap()).unwrap();
            let directory = tempfile::tempdir().unwrap();
            let file = File::create(directory.path().join("0.locks")).unwrap();
            // Of another name: it is nothing of ours, and may be where nothing answers.
            let other = File::create(directory.path().join("log")).unwrap();
            let [identity, of_other] = [&file, &other].map(|file| identity_of(file).unwrap());
            let mut command = Command::new("cat");
            let mut child =
                command.stdin(Stdio::piped()).stdout(file).stderr(other).spawn().unwrap();
            assert!(us.child(child.id()).is_some());
            assert!(us.child(std::process::id()).is_none());
            let process = Process::with_open(child.id(), identity).unwrap();
            assert!(Process::with_open(child.id(), (0, 0)).is_none());
            assert!(Process::with_open(child.id(), of_other).is_none());
            std::fs::remove_file(directory.path().join("0.locks")).unwrap();
            assert!(Process::with_open(child.id(), identity).is_some());
            assert!(!process.has_ended() && !process.is_ending());
            drop(child.stdin.take());
            child.wait().unwrap();
            assert!(process.has_ended() && !process.is_ending());
            assert!(us.child(child.id()).is_none());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use tokio::net::UnixStream;

    use crate::lock_file::Identity;

    /// None is known here.
    #[derive(Clone, Debug)]
    pub(in super::super) enum Process {}

    impl Process {
        pub(in super::super) fn peer(_: &UnixStream) -> Option<Self> {
            let _ = super::END;
            None
        }

        pub(in super::super) fn child(&self, _: u32) -> Option<Self> {
            match *self {}
        }

        pub(in super::super) fn with_open(_: u32, _: Identity) -> Option<Self> {
            None
        }

        pub(in super::super) fn number(&self) -> u32 {
            match *self {}
        }

        pub(in super::super) fn is_ending(&self) -> bool {
            match *self {}
        }

        pub(in super::super) fn has_ended(&self) -> bool {
            match *self {}
        }

        pub(in super::super) fn wait_if_ending(&self) {
            match *self {}
        }

        pub(in super::super) async fn until_ended(self) {
            match self {}
        }

        pub(in super::super) async fn end(self) {
            match self {}
        }
    }
}
