//! The witness of a name, which shows who holds.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    process, thread,
    time::Instant,
};

use navlock::Mode;
use rustix::fs::{FlockOperation, flock};

use super::{NAMES, VIOLATIONS};
use crate::worker::{TIMEOUT, note};

/// The witness of a name: a file that the holder locks, and a file that it writes to.
pub(super) struct Witness {
    pub(super) name: &'static str,
    file: File,
    log: File,
}

impl Witness {
    pub(super) fn open(name: &str) -> Self {
        let name = NAMES.into_iter().find(|known| *known == name).unwrap();
        let open = |what| {
            let path = format!("{name}.{what}");
            OpenOptions::new().create(true).read(true).append(true).open(path).unwrap()
        };
        Self { name, file: open("witness"), log: open("log") }
    }

    /// Works under the lock.
    pub(super) fn see(&mut self, mode: Mode, token: &str, work: impl FnOnce()) {
        let before = self.log.metadata().unwrap().len();
        let lock = match mode {
            Mode::Shared => FlockOperation::NonBlockingLockShared,
            Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        let deadline = Instant::now() + TIMEOUT;
        while let Err(error) = flock(&self.file, lock) {
            // A killed process has stopped, but the kernel closes its files in an order of its own. A killed
            // process writes nothing more, which tells it from a living one.
            let mut since = vec![0; 1 << 16];
            let length = self.log.read_at(&mut since, before).unwrap();
            let since = String::from_utf8_lossy(&since[..length]);
            let is_other = |line: &&str| mode == Mode::Exclusive || line.contains("exclusive");
            let other = since.lines().find(is_other);
            if other.is_some() || Instant::now() > deadline {
                let (name, pid) = (self.name, process::id());
                let what = format!("{pid} holds {name} {mode} {token}, and {other:?}: {error}");
                note(VIOLATIONS, &what);
                return;
            }
            thread::yield_now();
        }
        self.say("begins", mode, token);
        work();
        self.say("ends", mode, token);
        // Do not unlock by closing the file: a process that is being started may have a copy of it for a
        // moment.
        flock(&self.file, FlockOperation::Unlock).unwrap();
    }

    fn say(&mut self, what: &str, mode: Mode, token: &str) {
        let line = format!("{what} {mode} {token} {}\n", process::id());
        // One write, so that the line is whole whoever is killed.
        self.log.write_all(line.as_bytes()).unwrap();
    }
}
