//! Files to which lines are appended.

use std::{
    fs::File,
    io::{self, ErrorKind},
    path::Path,
};

use navlock_platform::file::careful;

/// Opens a file of this user for writing at its end. Makes the file if it is not there.
///
/// # Errors
///
/// If the file cannot be opened, or is no regular file.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    // This does not wait for a reader if the path is a pipe.
    let file = careful().append(true).create(true).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
}
