//! Locks on files: each ends with the last process that has the file open.

use std::{fs::File, io};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// Locks a file exclusively. Returns whether it could: nobody else had the file locked.
///
/// # Errors
///
/// If it cannot be locked at all.
pub fn try_exclusive(file: &File) -> io::Result<bool> {
    tried(file, FlockOperation::NonBlockingLockExclusive)
}

/// Locks a file shared. Returns whether it could: nobody had the file locked exclusively.
///
/// # Errors
///
/// If it cannot be locked at all.
pub fn try_shared(file: &File) -> io::Result<bool> {
    tried(file, FlockOperation::NonBlockingLockShared)
}

fn tried(file: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until nobody has the file locked exclusively, and locks it shared. Blocks the thread.
///
/// # Errors
///
/// `Interrupted` if a signal came, others if it cannot be locked at all.
pub fn shared(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::LockShared)?)
}

/// Unlocks the file, also for whoever else has it open by the same open file description.
///
/// # Errors
///
/// If the system refuses.
pub fn unlock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::Unlock)?)
}
