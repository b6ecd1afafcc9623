//! Of what there is no more.

use std::io;

use rustix::io::Errno;

/// Of what there is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Open files of this process.
    OpenFiles,
    /// Open files of the whole system.
    OpenFilesOfAll,
    /// Room on the disk, or what this user may have of it.
    Room,
}

/// Of what there is no more, if that is what the system has refused something for.
pub fn of(error: &io::Error) -> Option<Shortage> {
    Some(match Errno::from_io_error(error)? {
        Errno::MFILE => Shortage::OpenFiles,
        Errno::NFILE => Shortage::OpenFilesOfAll,
        Errno::NOSPC | Errno::DQUOT => Shortage::Room,
        _ => return None,
    })
}
