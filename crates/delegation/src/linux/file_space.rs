//! Room in files, and random numbers.

#![forbid(unsafe_code)]

use std::{fs::File, io, os::unix::fs::FileExt};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::{Errno, retry_on_intr},
    process::{Resource, getrlimit},
    rand::{GetRandomFlags, getrandom},
};

/// Makes the file longer, and reserves room on the disk for the new part, which has zeros.
///
/// # Errors
///
/// If there is no room.
pub(crate) fn make_room(file: &File, from: u64, to: u64) -> io::Result<()> {
    // A write beyond this limit does not only fail: the system also kills the process.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < to) {
        return Err(Errno::FBIG.into());
    }
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, to - from)) {
        // The file system cannot reserve room. Written zeros have room, though not for ever.
        Err(Errno::NOSYS | Errno::OPNOTSUPP) => {
            let zeros = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
            file.write_all_at(&zeros, from)
        }
        done => Ok(done?),
    }
}

/// A random number that nobody can guess or hit by accident. It is never 0.
///
/// # Errors
///
/// If the system gives no random bytes.
pub(crate) fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // For so few bytes, the system never returns only a part.
    retry_on_intr(|| getrandom(&mut bytes[..], GetRandomFlags::empty()))?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}
