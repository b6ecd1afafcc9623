//! Lock files: locking by the kernel alone.

use std::{fs::File, io, path::Path};

use rustix::fs::{FlockOperation, flock};

use super::{
    super::row::Row,
    client::{self, Turn},
};

/// One file, kept open.
pub(super) struct Client(File, FlockOperation);

impl Client {
    pub(super) fn open(directory: &Path, row: Row) -> io::Result<Self> {
        let is_shared = row == Row::Shared;
        let how =
            if is_shared { FlockOperation::LockShared } else { FlockOperation::LockExclusive };
        Ok(Self(open(directory, 0)?, how))
    }
}

impl client::Client for Client {
    fn acquire(&mut self) -> io::Result<()> {
        Ok(flock(&self.0, self.1)?)
    }

    fn release(&mut self) -> io::Result<()> {
        unlock(&self.0)
    }
}

/// A relay: takes the next of three files in turn, then releases the one before.
///
/// With one file there is no handover to measure: a process that releases the file and asks again has it
/// again before the woken process gets to run. With three files, two processes cannot overtake each other:
/// the file that one wants next is the one that the other has not released yet. So each turn of each process
/// is one handover.
pub(super) struct Relay {
    files: [File; 3],
    has: usize,
}

impl Relay {
    pub(super) fn open(directory: &Path, turn: Turn) -> io::Result<Self> {
        let files = [open(directory, 0)?, open(directory, 1)?, open(directory, 2)?];
        let has = if turn == Turn::First { 0 } else { 2 };
        lock(&files[has])?;
        Ok(Self { files, has })
    }
}

impl client::Client for Relay {
    fn acquire(&mut self) -> io::Result<()> {
        lock(&self.files[(self.has + 1) % 3])
    }

    fn release(&mut self) -> io::Result<()> {
        let had = self.has;
        self.has = (had + 1) % 3;
        unlock(&self.files[had])
    }
}

fn open(directory: &Path, number: usize) -> io::Result<File> {
    let path = directory.join(format!("lock.{number}"));
    File::options().create(true).truncate(false).write(true).open(path)
}

fn lock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::LockExclusive)?)
}

fn unlock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::Unlock)?)
}
