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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_keeps_others_out_until_its_file_is_dropped() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let [one, other] = [(); 2].map(|()| File::open(&path).unwrap());
        assert!(try_exclusive(&one).unwrap());
        assert!(!try_exclusive(&other).unwrap() && !try_shared(&other).unwrap());
        drop(one);
        // Another test may be starting a process, which has a copy of the file for a moment.
        shared(&other).unwrap();
    }

    #[test]
    fn readers_share_a_lock_and_keep_a_writer_out() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let [reader, another, writer] = [(); 3].map(|()| File::open(&path).unwrap());
        assert!(try_shared(&reader).unwrap() && try_shared(&another).unwrap());
        assert!(!try_exclusive(&writer).unwrap());
        unlock(&reader).unwrap();
        assert!(!try_exclusive(&writer).unwrap());
        unlock(&another).unwrap();
        assert!(try_exclusive(&writer).unwrap());
    }
}
