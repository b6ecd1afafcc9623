//! Which files a process has open, by `/proc`, which alone tells that.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::Path,
};

use crate::file::Identity;

/// Whether the process of this number has this file open, under a name with this extension.
#[cfg(target_os = "linux")]
pub fn has_open(number: u32, file: Identity, extension: &str) -> bool {
    use crate::file::identity_behind;
    let is_such = |name: &Path| name.extension().is_some_and(|is| is == extension);
    let mut open = open_in(number, is_such);
    open.any(|(path, _)| identity_behind(&path).is_ok_and(|found| found == file))
}

/// Whether the process of this number has this file open. This cannot be told here.
#[cfg(not(target_os = "linux"))]
pub fn has_open(_: u32, _: Identity, _: &str) -> bool {
    false
}

/// Of the files that the process of this number has open, opens the one of this name that `is_it` accepts,
/// for reading. The file may have been removed.
///
/// # Errors
///
/// `NotFound` if the process has no such file.
#[cfg(target_os = "linux")]
pub fn open_of(number: u32, name: &OsStr, is_it: impl Fn(&File) -> bool) -> io::Result<File> {
    let mut open = open_in(number, |path| path.file_name() == Some(name));
    // The path is a link to the file.
    let how = crate::file::without_waiting().read(true).clone();
    let found = open.find_map(|(path, _)| how.open(path).ok().filter(&is_it));
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens a file that a process has open. This cannot be done here.
///
/// # Errors
///
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn open_of(_: u32, _: &OsStr, _: impl Fn(&File) -> bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The files of this directory with this extension that any process has open, with their names, opened for
/// reading. They may have been removed, and the directory too. A file that several processes have open comes
/// several times. Processes that this one may not look into are left out.
#[cfg(target_os = "linux")]
pub fn open_from(directory: &Path, extension: &str) -> impl Iterator<Item = (OsString, File)> {
    let is_such = move |name: &Path| {
        name.parent() == Some(directory) && name.extension().is_some_and(|is| is == extension)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let how = crate::file::without_waiting().read(true).clone();
    numbers
        .flat_map(move |number| open_in(number, is_such))
        .filter_map(move |(path, name)| Some((name.file_name()?.to_owned(), how.open(path).ok()?)))
}

/// The files of a directory that processes have open. This cannot be told here.
#[cfg(not(target_os = "linux"))]
pub fn open_from(_: &Path, _: &str) -> impl Iterator<Item = (OsString, File)> {
    std::iter::empty()
}

/// The paths in `/proc` of files that a process has open and whose name is, or was, such a name; and that
/// name.
///
/// Other files of the process are not to be opened: they may be on a file system that does not answer, and to
/// read their names alone does not touch that.
#[cfg(target_os = "linux")]
fn open_in(
    number: u32,
    is_such: impl Fn(&Path) -> bool,
) -> impl Iterator<Item = (std::path::PathBuf, std::path::PathBuf)> {
    use std::{fs, os::unix::ffi::OsStrExt};
    let open = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
    open.filter_map(move |entry| {
        let path = entry.path();
        let name = fs::read_link(&path).ok()?;
        let name = name.as_os_str().as_bytes();
        // The kernel's mark of a file that was removed.
        let name = Path::new(OsStr::from_bytes(name.strip_suffix(b" (deleted)").unwrap_or(name)));
        is_such(name).then(|| (path, name.to_owned()))
    })
}
