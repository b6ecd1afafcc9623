//! Where a listener can be found: the file at the path of a socket, and the name of the pipe in
//! this file.

use std::{
    fs::Metadata,
    hash::{BuildHasher, RandomState},
    io::{self, Read},
    path::Path,
};

/// The longest path that is used, in bytes. It is the path of a file here.
pub const MAX_PATH: usize = 1 << 14;

/// The file at the path of a socket begins like this.
pub(super) const MARK: &str = "navlock listens at ";

/// All names of our pipes begin like this.
const NAME: &str = r"\\.\pipe\navlock-";

/// Whether the system takes a path as long as this one for a socket.
pub fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_PATH
}

/// Whether what stands at this path, which has this metadata, is a socket.
pub fn is_at(path: &Path, found: &Metadata) -> bool {
    found.is_file() && name_at(path).is_ok_and(|name| name.is_some())
}

/// The name of the pipe of the socket at this path; `None` if the path is not a socket's.
pub(super) fn name_at(path: &Path) -> io::Result<Option<String>> {
    const ENOUGH: u64 = 200;
    let mut text = String::new();
    let file = crate::file::careful().read(true).open(path)?;
    if !file.metadata()?.is_file() || file.take(ENOUGH).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    let name = text.strip_prefix(MARK).and_then(|rest| rest.strip_suffix('\n'));
    Ok(name.filter(|name| name.starts_with(NAME)).map(str::to_owned))
}

/// A name that nobody has, and nobody can guess.
pub(super) fn new_name() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{NAME}{:016x}{:016x}", random(), random())
}
