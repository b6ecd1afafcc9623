//! Which resource has run out.

use std::io;

use rustix::io::Errno;

/// Which resource has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Open files of this process.
    OpenFiles,
    /// Open files of the whole system.
    OpenFilesOfAll,
    /// Room on the disk, or what this user may have of it.
    Room,
}

/// Which resource has run out, if that is why the system has refused something.
pub fn of(error: &io::Error) -> Option<Shortage> {
    Some(match Errno::from_io_error(error)? {
        Errno::MFILE => Shortage::OpenFiles,
        Errno::NFILE => Shortage::OpenFilesOfAll,
        Errno::NOSPC | Errno::DQUOT => Shortage::Room,
        _ => return None,
    })
}
