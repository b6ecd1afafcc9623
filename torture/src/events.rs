//! The events of a run: one file of lines, to which all processes of the run append in the order of the
//! events.

use std::{
    env,
    fmt::Arguments,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::time::{ClockId, clock_gettime};

/// The variable that says where the logs of the run are.
pub(crate) const DIRECTORY: &str = "TORTURE_DIRECTORY";

/// Microseconds of a clock that all processes share, and that no disturbance sets.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}

/// The folder with the logs of this run, as its workers are told.
pub(crate) fn directory() -> PathBuf {
    env::var_os(DIRECTORY).expect("who starts a worker says where the logs are").into()
}

/// The file of events.
pub(crate) struct Events {
    file: File,
}

impl Events {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join("events");
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        Ok(Self { file })
    }

    /// Adds a line in one write, so that it is whole whoever is killed.
    pub(crate) fn say(&self, what: Arguments<'_>) {
        let line = format!("{} {what}\n", now());
        (&self.file).write_all(line.as_bytes()).expect("the disk of the logs has room");
    }

    pub(crate) fn length(&self) -> u64 {
        self.file.metadata().expect("it is open").len()
    }

    /// The whole lines from this byte on, and the byte after them.
    pub(crate) fn since(&self, from: u64) -> (String, u64) {
        let mut bytes = vec![0; usize::try_from(self.length() - from).expect("it fits in memory")];
        let length = self.file.read_at(&mut bytes, from).expect("it can be read");
        bytes.truncate(length);
        bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1));
        let end = from + bytes.len() as u64;
        (String::from_utf8_lossy(&bytes).into_owned(), end)
    }
}
