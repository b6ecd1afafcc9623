//! Files and directories that others must not read or write, and that others may have put in our way.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    ffi::OsStr,
    fs::{self, File, FileTimes, Metadata, OpenOptions},
    io,
    os::windows::{
        fs::{FileExt, OpenOptionsExt},
        io::{AsHandle, AsRawHandle},
    },
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime},
};

use windows_sys::Win32::{
    Foundation::{ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION},
    Storage::FileSystem::{
        BY_HANDLE_FILE_INFORMATION, CreateDirectoryW, FILE_FLAG_BACKUP_SEMANTICS,
        FILE_FLAG_OPEN_REPARSE_POINT, FILE_READ_ATTRIBUTES, FILE_WRITE_ATTRIBUTES,
        GetFileInformationByHandle, READ_CONTROL, SECURITY_IDENTIFICATION, WRITE_DAC,
    },
};

use super::{
    security::{self, Access, Descriptor, NOBODY},
    system::{checked, wide_path},
};
use crate::user::{GroupId, UserId};

/// How long a file that others have open may be in the way of another, and how often to try again meanwhile.
const IN_THE_WAY: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// What tells a file from all others that exist.
pub type Identity = (u64, u64);

/// What tells this file from all others.
///
/// # Errors
///
/// If the system does not say.
pub fn identity_of(file: &File) -> io::Result<Identity> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: The handle is open, and there is room for what is written.
    checked(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) })?;
    let number = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    Ok((u64::from(found.dwVolumeSerialNumber), number))
}

/// The identity of what is at this path; if that is a link, the identity of the link.
///
/// # Errors
///
/// `NotFound` if there is nothing, others if it cannot be looked at.
pub fn identity_at(path: &Path) -> io::Result<Identity> {
    identity_of(&look_at(path, FILE_READ_ATTRIBUTES, FILE_FLAG_OPEN_REPARSE_POINT)?)
}

/// The identity of what this path leads to.
///
/// # Errors
///
/// As of [`identity_at`].
pub fn identity_behind(path: &Path) -> io::Result<Identity> {
    identity_of(&look_at(path, FILE_READ_ATTRIBUTES, 0)?)
}

/// Opens a file or a directory for what is known of it, not for its content.
fn look_at(path: &Path, access: u32, flags: u32) -> io::Result<File> {
    File::options().access_mode(access).custom_flags(flags | FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

fn access_at(path: &Path) -> Option<Access> {
    let file = look_at(path, READ_CONTROL, FILE_FLAG_OPEN_REPARSE_POINT).ok()?;
    security::access(file.as_handle()).ok()
}

/// Who owns what is at this path, which has this metadata: nobody, if that cannot be told.
pub fn owner_at(path: &Path, _: &Metadata) -> UserId {
    access_at(path).map_or(NOBODY, |access| access.owner)
}

/// Whether an open file has a name still.
pub fn has_name(_: &File) -> bool {
    true
}

/// The group of what has this metadata: here there are none.
pub fn group_at(_: &Metadata) -> GroupId {
    0
}

/// Gives what is at this path to this group: here that is not possible.
///
/// # Errors
///
/// Always.
pub fn share_with(_: &Path, _: GroupId, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Who owns a file that has this metadata: nobody, if that cannot be told.
pub fn owner_of(file: &File, _: &Metadata) -> UserId {
    security::access(file.as_handle()).map_or(NOBODY, |access| access.owner)
}

/// What its owner and others may do with what is at this path, as bits of chmod(1) would say it.
pub fn mode_at(path: &Path, found: &Metadata) -> u32 {
    mode(access_at(path), found)
}

/// What its owner and others may do with a file, as bits of chmod(1) would say it.
pub fn mode_of(file: &File, found: &Metadata) -> u32 {
    mode(security::access(file.as_handle()).ok(), found)
}

/// A file whose access cannot be told counts as open to all.
fn mode(access: Option<Access>, found: &Metadata) -> u32 {
    let (read, write) =
        access.map_or((true, true), |access| (access.others_read, access.others_write));
    let look = if found.is_dir() { 0o055 } else { 0o044 };
    let own = if found.is_dir() { 0o700 } else { 0o600 };
    own | if read { look } else { 0 } | if write { 0o022 } else { 0 }
}

/// Whether the file at this path is a program.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}

/// For opening a file that may be another's: a link at its path is opened itself, and is no file.
/// The directory of a file that is made says who can read it. Opening does not wait: what stands at
/// the path may be a pipe, whose owner gets to know who we are and can do nothing in our name.
pub fn careful() -> OpenOptions {
    let mut options = without_waiting();
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    options
}

/// For opening a file at a path that a user has chosen. As [`careful`], but the path may be a link.
pub fn without_waiting() -> OpenOptions {
    let mut options = File::options();
    options.security_qos_flags(SECURITY_IDENTIFICATION);
    options
}

/// Opens a directory.
///
/// # Errors
///
/// If it is no directory, or cannot be opened.
pub fn open_directory(path: &Path) -> io::Result<File> {
    directory(look_at(path, FILE_READ_ATTRIBUTES, FILE_FLAG_OPEN_REPARSE_POINT)?)
}

/// Opens the directory that a path leads to, be it by a link.
///
/// # Errors
///
/// If it is no directory, or cannot be opened.
pub fn open_directory_behind(path: &Path) -> io::Result<File> {
    directory(look_at(path, FILE_READ_ATTRIBUTES, 0)?)
}

fn directory(file: File) -> io::Result<File> {
    if file.metadata()?.is_dir() { Ok(file) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Makes a directory that is ours alone.
///
/// # Errors
///
/// As of [`fs::create_dir`].
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let descriptor = Descriptor::of_file(true)?;
    let attributes = descriptor.attributes(false);
    let path = wide_path(path)?;
    // SAFETY: The path ends with a zero, and it and the attributes outlive the call.
    checked(unsafe { CreateDirectoryW(path.as_ptr(), &raw const attributes) })
}

/// Makes a directory that is ours alone, and those above it that are not there; or does nothing if it
/// is there.
///
/// # Errors
///
/// As of [`fs::create_dir_all`].
pub fn create_private_directories(path: &Path) -> io::Result<()> {
    match create_private_directory(path) {
        Err(_) if path.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            create_private_directories(above.ok_or(error)?)?;
            create_private_directory(path)
        }
        made => made,
    }
}

/// Makes sure that nobody else can read or write what is at this path.
///
/// # Errors
///
/// If it is not ours.
pub fn make_private(path: &Path) -> io::Result<()> {
    let access = READ_CONTROL | WRITE_DAC;
    security::make_private(look_at(path, access, FILE_FLAG_OPEN_REPARSE_POINT)?.as_handle())
}

/// Makes sure that nobody else can read or write a file that is open.
///
/// # Errors
///
/// If it is not ours.
pub fn make_file_private(file: &File) -> io::Result<()> {
    // It need not have been opened with the rights for this.
    security::make_private(reopened(file)?.as_handle())
}

fn reopened(file: &File) -> io::Result<File> {
    use windows_sys::Win32::Storage::FileSystem::{
        FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, ReOpenFile,
    };
    let share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    // SAFETY: The handle is open, and the one that comes of it is new.
    unsafe {
        super::system::owned(ReOpenFile(file.as_raw_handle(), READ_CONTROL | WRITE_DAC, share, 0))
    }
    .map(File::from)
}

/// Renews the times of what is at this path.
///
/// # Errors
///
/// If it is not there, or not ours.
pub fn touch(path: &Path) -> io::Result<()> {
    let now = SystemTime::now();
    let times = FileTimes::new().set_accessed(now).set_modified(now);
    look_at(path, FILE_WRITE_ATTRIBUTES, FILE_FLAG_OPEN_REPARSE_POINT)?.set_times(times)
}

/// Gives the file at `from` the path `to`, in place of what is there. A program that has either
/// file open and so prevents this, as a virus scanner does with new files, is waited for, up to two
/// seconds.
///
/// # Errors
///
/// If the file cannot be put there.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let deadline = Instant::now() + IN_THE_WAY;
    let is_in_use = |error: &io::Error| {
        let code = error.raw_os_error().and_then(|code| u32::try_from(code).ok());
        matches!(code, Some(ERROR_ACCESS_DENIED | ERROR_SHARING_VIOLATION))
    };
    loop {
        match fs::rename(from, to) {
            Err(error) if is_in_use(&error) && Instant::now() < deadline => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// Writes all these bytes at this place in a file.
///
/// # Errors
///
/// If there is no room.
pub fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, at)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        (bytes, at) = (&bytes[written..], at + written as u64);
    }
    Ok(())
}

/// Whether something is mounted at this path, so that nobody who sees it there can remove it. Here
/// this is not asked.
pub fn is_mounted(_: &Path) -> bool {
    false
}

/// The bytes of a path, in the encoding that Rust has for what the system has in UTF-16.
pub fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// The bytes of a text, such as an argument, in the same encoding.
pub fn bytes(text: &OsStr) -> &[u8] {
    text.as_encoded_bytes()
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::Storage::FileSystem::FILE_SHARE_READ;

    use super::*;

    #[test]
    fn a_directory_of_ours_is_ours_alone_and_what_is_made_in_it_as_well() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("a").join("b");
        create_private_directories(&path).unwrap();
        create_private_directories(&path).unwrap();
        let again = create_private_directory(&path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!(owner_at(&path, &found), crate::user::ours());
        assert_eq!(mode_at(&path, &found), 0o700);
        let file = careful().write(true).create(true).open(path.join("file")).unwrap();
        make_file_private(&file).unwrap();
        make_private(&path.join("file")).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!((owner_of(&file, &found), mode_of(&file, &found)), (crate::user::ours(), 0o600));
    }

    #[test]
    fn a_file_takes_the_place_of_one_that_somebody_has_open_for_a_moment() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        fs::write(&one, "new").unwrap();
        fs::write(&other, "old").unwrap();
        // It lets nobody remove or rename the file.
        let reader = File::options().read(true).share_mode(FILE_SHARE_READ).open(&other).unwrap();
        fs::rename(&one, &other).unwrap_err();
        thread::scope(|scope| {
            scope.spawn(|| {
                // Time itself is the subject: for some of it the file is in the way.
                thread::sleep(IN_THE_WAY / 10);
                drop(reader);
            });
            replace(&one, &other).unwrap();
        });
        assert_eq!(fs::read(&other).unwrap(), b"new");
    }

    #[test]
    fn a_file_is_the_same_by_whichever_way_it_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        let file = File::create(&one).unwrap();
        write_all_at(&file, b"xyz", 2).unwrap();
        assert_eq!(fs::read(&one).unwrap(), b"\0\0xyz");
        fs::write(&other, "").unwrap();
        let identity = identity_of(&file).unwrap();
        assert_eq!(identity_at(&one).unwrap(), identity);
        assert_eq!(identity_behind(&one).unwrap(), identity);
        assert_ne!(identity_at(&other).unwrap(), identity);
        fs::rename(&one, &other).unwrap();
        assert_eq!(identity_at(&other).unwrap(), identity);
        assert_eq!(identity_at(&one).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(open_directory(&other).is_err() && open_directory(directory.path()).is_ok());
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        file.set_modified(old).unwrap();
        touch(&other).unwrap();
        assert!(file.metadata().unwrap().modified().unwrap() > old);
    }
}
