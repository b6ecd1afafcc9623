//! Files and directories that others must not read or write, and that others may have put in our way.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown},
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, utimensat},
    io::Errno,
    process::{Resource, getrlimit},
};

use crate::user::{GroupId, UserId};

/// What tells a file from all others that exist.
pub type Identity = (u64, u64);

/// The identity of the file with this metadata.
fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// What tells this file from all others.
///
/// # Errors
///
/// If the system does not say.
pub fn identity_of(file: &File) -> io::Result<Identity> {
    file.metadata().map(|found| identity(&found))
}

/// The identity of what is at this path; if that is a link, the identity of the link.
///
/// # Errors
///
/// `NotFound` if there is nothing, others if it cannot be looked at.
pub fn identity_at(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|found| identity(&found))
}

/// The identity of what this path leads to.
///
/// # Errors
///
/// As of [`identity_at`].
pub fn identity_behind(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| identity(&found))
}

/// Who owns what is at this path, which has this metadata.
pub fn owner_at(_: &Path, found: &Metadata) -> UserId {
    found.uid()
}

/// Whether an open file has a name still.
pub fn has_name(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.nlink() > 0)
}

/// The group of what has this metadata.
pub fn group_at(found: &Metadata) -> GroupId {
    found.gid()
}

/// Gives what is at this path to this group, whose members may do with it what `mode` says, in the bits of
/// chmod(1).
///
/// # Errors
///
/// If this process may not.
pub fn share_with(path: &Path, group: GroupId, mode: u32) -> io::Result<()> {
    lchown(path, None, Some(group))?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Who owns a file that has this metadata.
pub fn owner_of(_: &File, found: &Metadata) -> UserId {
    found.uid()
}

/// What its owner, a group and others may do with what is at this path, in the bits of chmod(1).
pub fn mode_at(_: &Path, found: &Metadata) -> u32 {
    found.mode() & 0o7777
}

/// What the owner of an open file, a group and others may do with it, in the bits of chmod(1).
pub fn mode_of(_: &File, found: &Metadata) -> u32 {
    found.mode() & 0o7777
}

/// Whether the file at this path is a program.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// For opening a file that may be another's: if it is made, nobody else may read or write it, and a
/// link at its path is an error. Opening does not wait: what stands at the path may be a pipe.
pub fn careful() -> OpenOptions {
    with_flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)
}

/// For opening a file at a path that a user has chosen. As [`careful`], but the path may be a link.
pub fn without_waiting() -> OpenOptions {
    with_flags(OFlags::NONBLOCK)
}

fn with_flags(flags: OFlags) -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

/// Opens a directory, and waits for nothing else at its path, such as the writer of a pipe.
///
/// # Errors
///
/// If it is no directory, or cannot be opened.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens the directory that a path leads to, be it by a link.
///
/// # Errors
///
/// If it is no directory, or cannot be opened.
pub fn open_directory_behind(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Makes a directory that is ours alone.
///
/// # Errors
///
/// As of [`fs::create_dir`].
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a directory that is ours alone, and those above it that are not there; or does nothing if it
/// is there.
///
/// # Errors
///
/// As of [`fs::create_dir_all`].
pub fn create_private_directories(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes sure that nobody else can read or write what is at this path.
///
/// # Errors
///
/// If it is not ours.
pub fn make_private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

/// Makes sure that nobody else can read or write a file that is open.
///
/// # Errors
///
/// If it is not ours.
pub fn make_file_private(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Renews the times of what is at this path.
///
/// # Errors
///
/// If it is not there, or not ours.
pub fn touch(path: &Path) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let now = Timestamps { last_access: now, last_modification: now };
    Ok(utimensat(CWD, path, &now, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Gives the file at `from` the path `to`, in place of what is there.
///
/// # Errors
///
/// If the file cannot be put there.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Writes all these bytes at this place in a file.
///
/// # Errors
///
/// If there is no room, or the file would be longer than the process may write (`ulimit -f`).
pub fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    // A write beyond this limit does not only fail: the system also kills the process.
    let end = at.saturating_add(bytes.len() as u64);
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < end) {
        return Err(Errno::FBIG.into());
    }
    file.write_all_at(bytes, at)
}

/// Whether something is mounted at this path, so that nobody who sees it there can remove it.
#[cfg(target_os = "linux")]
pub fn is_mounted(directory: &Path) -> bool {
    use rustix::fs::{StatxAttributes, StatxFlags, statx};
    // Before Linux 5.8 it cannot be told.
    statx(CWD, directory, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether something is mounted at this path. Here it cannot be told.
#[cfg(not(target_os = "linux"))]
pub fn is_mounted(_: &Path) -> bool {
    false
}

/// The bytes of a path as the system has it.
pub fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The bytes of a text, such as an argument, as the system has it.
pub fn bytes(text: &OsStr) -> &[u8] {
    text.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_in_the_place_of_a_directory_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("clients");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open_directory(&pipe).is_err());
        assert!(open_directory(directory.path()).is_ok());
    }
}
