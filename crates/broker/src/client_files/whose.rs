//! Whose a client's own file is.
//!
//! A process that was forked from the client, and has not become another program, keeps the client's file locked
//! when the client has ended. The lock alone does not tell the two apart, so the file says which process the client
//! is.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
};

use navlock_platform::process;

/// Where this stands in the file: in a part of a map's header that the map leaves alone.
const AT: u64 = 40;

/// Writes into a file that is new which process this is.
pub(super) fn note(mut file: &File) -> io::Result<()> {
    let Some(namespace) = process::namespace() else { return Ok(()) };
    file.seek(SeekFrom::Start(AT))?;
    file.write_all(&namespace.to_ne_bytes())?;
    file.write_all(&u64::from(std::process::id()).to_ne_bytes())
}

/// Whether the process whose file this is has ended. If that is not known, it has not: the file may be of a client
/// that sees processes under other numbers.
pub(super) fn has_ended(file: &File) -> bool {
    read(file).is_ok_and(|[namespace, number]| {
        Some(namespace) == process::namespace()
            && u32::try_from(number).is_ok_and(|number| number > 0 && !process::exists(number))
    })
}

fn read(mut file: &File) -> io::Result<[u64; 2]> {
    file.seek(SeekFrom::Start(AT))?;
    let (mut namespace, mut number) = ([0; 8], [0; 8]);
    file.read_exact(&mut namespace)?;
    file.read_exact(&mut number)?;
    Ok([namespace, number].map(u64::from_ne_bytes))
}
