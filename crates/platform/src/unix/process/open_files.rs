//! Which files a process has open, by `/proc`: nothing else tells it.

use std::{ffi::OsStr, fs::File, io};

use crate::file::Identity;

/// Whether the process of this number has this file open, whose name ends so.
#[cfg(target_os = "linux")]
pub fn has_open(number: u32, file: Identity, extension: &str) -> bool {
    use crate::file::identity_behind;
    let is_such = |name: &std::path::Path| name.extension().is_some_and(|is| is == extension);
    let mut open = open_in(number, is_such);
    open.any(|path| identity_behind(&path).is_ok_and(|found| found == file))
}

/// Whether the process of this number has this file open. Here it cannot be told.
#[cfg(not(target_os = "linux"))]
pub fn has_open(_: u32, _: Identity, _: &str) -> bool {
    false
}

/// Opens the file of this name that the process of this number has open and that is it, for reading. Somebody
/// may have removed it.
///
/// # Errors
///
/// `NotFound` if it has none.
#[cfg(target_os = "linux")]
pub fn open_of(number: u32, name: &OsStr, is_it: impl Fn(&File) -> bool) -> io::Result<File> {
    let mut open = open_in(number, |path| path.file_name() == Some(name));
    // What is there is a link to it.
    let how = || {
        let mut how = crate::file::without_waiting();
        how.read(true);
        how
    };
    let found = open.find_map(|path| how().open(path).ok().filter(&is_it));
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens a file that a process has open. Here it cannot be told.
///
/// # Errors
///
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn open_of(_: u32, _: &OsStr, _: impl Fn(&File) -> bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What a process has open that has, or had, such a name.
///
/// Only what has such a name is to be looked at: its other files may be on a file system that does
/// not answer, and to ask for their names alone does not touch that.
#[cfg(target_os = "linux")]
fn open_in(
    number: u32,
    is_such: impl Fn(&std::path::Path) -> bool,
) -> impl Iterator<Item = std::path::PathBuf> {
    use std::{fs, os::unix::ffi::OsStrExt, path::Path};
    let open = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
    open.map(|entry| entry.path()).filter(move |path| {
        fs::read_link(path).is_ok_and(|name| {
            let name = name.as_os_str().as_bytes();
            // The kernel's mark of what was removed.
            let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
            is_such(Path::new(OsStr::from_bytes(name)))
        })
    })
}
