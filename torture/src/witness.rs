//! The oracle: each name has a file, and the holder of the name's lock locks the file with flock(2). Navlock
//! knows nothing of the files.

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::Path,
    process, thread,
    time::{Duration, Instant},
};

use navlock::Mode;
use rustix::{
    fs::{FlockOperation, flock},
    io::{FdFlags, fcntl_setfd},
};

use crate::{events::Events, processes};

/// How long a process that was killed may keep its files.
const DYING: Duration = Duration::from_secs(20);

/// A process that believes that it holds a lock.
pub(crate) struct Holder<'a> {
    pub(crate) instance: &'a str,
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) token: String,
}

impl Holder<'_> {
    fn said(&self) -> String {
        let Self { instance, name, mode, token } = self;
        format!("{instance} {name} {mode} {token} {}", process::id())
    }
}

/// The oracle's side of a holder.
pub(crate) struct Witness<'a> {
    events: &'a Events,
    holder: Holder<'a>,
    file: File,
    is_locked: bool,
}

impl<'a> Witness<'a> {
    /// Takes the file's lock, which must be free, and says who holds the name.
    pub(crate) fn begin(directory: &Path, events: &'a Events, holder: Holder<'a>) -> Self {
        let path = directory.join(format!("{}.witness", holder.name));
        let file = File::options().create(true).append(true).open(path).expect("there is room");
        let mut witness = Self { events, holder, file, is_locked: false };
        let before = events.length();
        let began = Instant::now();
        let mut is_dying = false;
        while !witness.lock() {
            if let Some(other) = witness.other(before) {
                events.say(format_args!("conflict {} {other}", witness.holder.said()));
                break;
            }
            if began.elapsed() > DYING {
                events.say(format_args!("conflict {} -1", witness.holder.said()));
                break;
            }
            if !is_dying {
                is_dying = true;
                let dying = witness.lockers().first().copied().unwrap_or(-1);
                events.say(format_args!("dying {} {dying}", witness.holder.said()));
            }
            thread::yield_now();
        }
        let seen = if witness.is_locked { "seen" } else { "unseen" };
        events.say(format_args!("begins {} {seen}", witness.holder.said()));
        witness
    }

    fn lock(&mut self) -> bool {
        let how = match self.holder.mode {
            Mode::Shared => FlockOperation::NonBlockingLockShared,
            Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        self.is_locked = self.is_locked || flock(&self.file, how).is_ok();
        self.is_locked
    }

    /// The process that has locked the file and is alive, or that has said since that it begins or ends to
    /// hold.
    fn other(&self, before: u64) -> Option<i32> {
        // What a command has started may have its file, and keeps the lock after the command's end.
        let keeps = || processes::keepers(self.inode()).into_iter().any(processes::lives);
        let lockers = self.lockers();
        let found = lockers.iter().copied().find(|pid| processes::lives(*pid));
        let found = found.or_else(|| lockers.first().copied().filter(|_| keeps()));
        // A signal may arrive a moment after it was sent.
        if let Some(found) = found {
            thread::sleep(Duration::from_millis(2));
            if processes::lives(found) || keeps() {
                return Some(found);
            }
        }
        let (since, _) = self.events.since(before);
        let mine = self.holder.said();
        since.lines().find_map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let [_, "begins" | "ends", _, name, mode, _, pid, ..] = words[..] else { return None };
            let excludes = self.holder.mode == Mode::Exclusive || mode == "exclusive";
            let is_other = name == self.holder.name && excludes && !line.contains(&mine);
            is_other.then(|| pid.parse().ok())?
        })
    }

    /// The other processes that have locked the file, so that this one cannot.
    fn lockers(&self) -> Vec<i32> {
        let mut lockers = processes::lockers(self.inode(), self.holder.mode == Mode::Shared);
        lockers.retain(|pid| u32::try_from(*pid) != Ok(process::id()));
        lockers
    }

    fn inode(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.ino())
    }

    /// Lets the processes that this one starts have the file, and with it the lock.
    pub(crate) fn leave_open(&self) {
        fcntl_setfd(&self.file, FdFlags::empty()).expect("it is open");
    }

    /// Tries again to lock the file. To be called now and then while the holder holds.
    pub(crate) fn look(&mut self) {
        if !self.is_locked && self.lock() {
            self.events.say(format_args!("locks {}", self.holder.said()));
        }
    }

    /// The holder ends, having lost its lock or not.
    pub(crate) fn end(self, is_lost: bool) {
        let how = if is_lost { "lost" } else { "kept" };
        self.events.say(format_args!("ends {} {how}", self.holder.said()));
        if self.is_locked {
            // Do not unlock by closing the file: a process that is being started may have a copy of it for a
            // moment.
            flock(&self.file, FlockOperation::Unlock).expect("it is locked");
        }
    }
}
