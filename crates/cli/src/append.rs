//! Files that are written to at their end.

use std::{
    fs::File,
    io::{self, ErrorKind},
    path::Path,
};

use navlock_platform::file::careful;

/// Opens a file of ours to write at its end; it is made if it is not there.
///
/// # Errors
///
/// If it cannot be opened, or is none.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    // A pipe that nobody reads is not waited for.
    let file = careful().append(true).create(true).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
}
