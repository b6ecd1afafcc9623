//! Locks on files: each ends with the last process that has the file open.
//!
//! Windows' own lock on a file belongs to one process, whoever else has inherited the handle. So
//! what a process leaves to the processes that it starts is an object that is named after the file
//! ([`inherited`]): whoever has this object has the file locked as well.
//!
//! Windows keeps others from reading the bytes that are locked. So the byte that is locked is far
//! behind the end of any file.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    fs::File,
    io,
    os::windows::io::{AsHandle, AsRawHandle, OwnedHandle},
    thread,
    time::Duration,
};

use windows_sys::Win32::{
    Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION},
    Storage::FileSystem::{
        LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, UnlockFileEx,
    },
    System::{
        IO::OVERLAPPED,
        Threading::{CreateEventW, OpenEventW, SYNCHRONIZATION_SYNCHRONIZE},
    },
};

use super::{
    file::identity_of,
    security::Descriptor,
    system::{owned, set_inherited, wide},
};

/// How often to look whether the processes that have inherited a lock have ended: the system cannot
/// wait for that.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Locks a file exclusively. Returns whether it could: nobody else had the file locked.
///
/// # Errors
///
/// If it cannot be locked at all.
pub fn try_exclusive(file: &File) -> io::Result<bool> {
    tried(file, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY)
}

/// Locks a file shared. Returns whether it could: nobody had the file locked exclusively.
///
/// # Errors
///
/// If it cannot be locked at all.
pub fn try_shared(file: &File) -> io::Result<bool> {
    tried(file, LOCKFILE_FAIL_IMMEDIATELY)
}

fn tried(file: &File, how: u32) -> io::Result<bool> {
    // Whoever has a lock already takes it anew: two locks of one process would be in each other's
    // way.
    let _ = unlock(file);
    if !lock(file, how)? {
        return Ok(false);
    }
    let is_free = !is_inherited(file)?;
    if !is_free {
        unlock(file)?;
    }
    Ok(is_free)
}

/// Waits until nobody has the file locked exclusively, and locks it shared. Blocks the thread.
///
/// # Errors
///
/// If it cannot be locked at all.
pub fn shared(file: &File) -> io::Result<()> {
    let _ = unlock(file);
    loop {
        if lock(file, 0)? {
            if !is_inherited(file)? {
                return Ok(());
            }
            unlock(file)?;
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

/// Unlocks it, whoever else has it open by the same.
///
/// # Errors
///
/// If it was not locked.
pub fn unlock(file: &File) -> io::Result<()> {
    let mut place = place();
    // SAFETY: The handle is open, and nothing is waited for.
    let done = unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut place) };
    super::system::checked(done)
}

/// Locks the file. Returns whether it could.
fn lock(file: &File, how: u32) -> io::Result<bool> {
    let mut place = place();
    // SAFETY: The handle is open, and was not opened for overlapped calls.
    let done = unsafe { LockFileEx(file.as_raw_handle(), how, 0, 1, 0, &raw mut place) };
    match super::system::checked(done) {
        Ok(()) => Ok(true),
        Err(error)
            if [ERROR_LOCK_VIOLATION, ERROR_IO_PENDING]
                .map(|code| Some(code.cast_signed()))
                .contains(&error.raw_os_error()) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// What is locked: a byte behind all that a file can have.
fn place() -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = 0x4000_0000;
    place
}

/// An object that keeps a file locked for as long as somebody has the object, and that programs
/// which are started inherit.
///
/// # Errors
///
/// If there is no memory for it.
pub(crate) fn inherited(file: &File) -> io::Result<OwnedHandle> {
    let (volume, number) = identity_of(file)?;
    let name = wide(name(volume, number));
    let descriptor = Descriptor::private()?;
    let attributes = descriptor.attributes(true);
    // SAFETY: The name ends with a zero, and it and the attributes outlive the call. The handle is new.
    let event = unsafe { owned(CreateEventW(&raw const attributes, 1, 0, name.as_ptr())) }?;
    // An event that was there already is as it was.
    set_inherited(event.as_handle(), true)?;
    Ok(event)
}

fn is_inherited(file: &File) -> io::Result<bool> {
    let (volume, number) = identity_of(file)?;
    // Of a file that was renamed while it was open, Wine says that its volume is 0.
    Ok(is_there(&name(volume, number))? || is_there(&name(0, number))?)
}

/// Whether there is an object of this name.
fn is_there(name: &str) -> io::Result<bool> {
    let name = wide(name);
    // SAFETY: The name ends with a zero and outlives the call. The handle is new, and closed at once.
    let found = unsafe { owned(OpenEventW(SYNCHRONIZATION_SYNCHRONIZE, 0, name.as_ptr())) };
    match found {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A name that is the same in all sessions of the user.
fn name(volume: u64, number: u64) -> String {
    format!(r"Global\navlock-inherited-{volume:x}-{number:x}")
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        process::{Command, Stdio},
    };

    use super::*;

    fn opened(path: &std::path::Path) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    #[test]
    fn a_lock_is_one_opening_s_and_keeps_nobody_from_reading() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let (mut one, other) = (opened(&path), opened(&path));
        assert!(try_exclusive(&one).unwrap() && try_exclusive(&one).unwrap());
        assert!(!try_exclusive(&other).unwrap() && !try_shared(&other).unwrap());
        one.write_all(b"text").unwrap();
        let mut text = String::new();
        opened(&path).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        let copy = one.try_clone().unwrap();
        drop(one);
        assert!(!try_exclusive(&other).unwrap());
        drop(copy);
        assert!(try_shared(&other).unwrap() && try_shared(&opened(&path)).unwrap());
        assert!(!try_exclusive(&opened(&path)).unwrap());
    }

    #[test]
    fn a_file_that_a_program_has_inherited_is_locked_until_the_program_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks");
        let new = directory.path().join("new");
        let file = opened(&new);
        assert!(try_exclusive(&file).unwrap());
        std::fs::rename(new, &path).unwrap();
        let held = inherited(&file).unwrap();
        // Waits for what is written to it.
        let mut child = Command::new("cmd")
            .args(["/d", "/c", "set /p x="])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        drop((held, file));
        let other = opened(&path);
        assert!(!try_exclusive(&other).unwrap() && !try_shared(&other).unwrap());
        drop(child.stdin.take());
        shared(&other).unwrap();
        child.wait().unwrap();
        assert!(try_exclusive(&other).unwrap());
    }
}
