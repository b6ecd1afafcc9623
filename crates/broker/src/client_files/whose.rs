//! Whose a client's own file is.
//!
//! A process that was forked from the client, and has not become another program, keeps the client's file locked
//! when the client has ended. The lock alone does not tell the two apart, so the file says which process the client
//! is.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use navlock_platform::{file::write_all_at, process};

/// Where this stands in the file: in a part of a map's header that the map leaves alone.
const AT: u64 = 40;

/// Writes into a file that is new which process this is.
pub(super) fn note(file: &File) -> io::Result<()> {
    note_of(file, Some(std::process::id()))
}

/// Writes into a file that is new that it is of the process with this number, if that is known.
pub(super) fn note_of(file: &File, number: Option<u32>) -> io::Result<()> {
    let Some(namespace) = process::namespace() else { return Ok(()) };
    let number = u64::from(number.unwrap_or(0));
    write_all_at(file, &[namespace.to_ne_bytes(), number.to_ne_bytes()].concat(), AT)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_of_our_namespace_that_nobody_has_is_of_a_process_that_has_ended() {
        let ended = |namespace: u64, number: u64| {
            let file = tempfile::tempfile().unwrap();
            let said = [namespace.to_ne_bytes(), number.to_ne_bytes()].concat();
            write_all_at(&file, &said, AT).unwrap();
            has_ended(&file)
        };
        let nobody = 1 << 30;
        let Some(ours) = process::namespace() else {
            return assert!(!ended(1, nobody), "the system has no such namespaces");
        };
        assert!(ended(ours, nobody));
        assert!(!ended(ours + 1, nobody) && !ended(0, nobody));
        assert!(
            !ended(ours, 0) && !ended(ours, u64::MAX) && !ended(ours, std::process::id().into())
        );
        let file = tempfile::tempfile().unwrap();
        assert!(!has_ended(&file));
        note(&file).unwrap();
        assert!(!has_ended(&file));
    }
}
