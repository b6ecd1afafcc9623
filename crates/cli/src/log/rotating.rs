//! A file that is rotated when it is full: it is renamed and becomes the predecessor of a new file.
//! The contents of the earlier predecessor are lost.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use navlock_platform::file::{identity_at, identity_of};

use crate::append::open_to_append;

/// The file has at most this many bytes, and so has its predecessor. In `/tmp` these bytes may be
/// memory.
pub(crate) const LIMIT: u64 = 512 << 10;

/// The file at this path. Several processes may write to it. Each line goes to the end that the file
/// has at that moment.
pub(super) struct RotatingFile {
    path: PathBuf,
    limit: u64,
    file: Option<File>,
}

impl RotatingFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, limit: LIMIT, file: None }
    }

    /// The file, with room for `length` bytes. If the file is too full for them, it is rotated
    /// first.
    fn rotated_for(&mut self, length: u64) -> io::Result<&mut File> {
        let known = self.file.take().filter(|file| is_at(file, &self.path));
        let mut file = match known {
            Some(file) => file,
            // Somebody has removed the file, or another process has put a new one in its place.
            None => open_to_append(&self.path)?,
        };
        let found = file.metadata()?.len();
        if found > 0 && found.saturating_add(length) > self.limit {
            // There is one try, because a line of a log must not wait for a program that has the
            // file open.
            fs::rename(&self.path, predecessor(&self.path))?;
            file = open_to_append(&self.path)?;
        }
        Ok(self.file.insert(file))
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.rotated_for(length)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The path of the predecessor, which has the lines from before the file was full.
pub(crate) fn predecessor(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

/// Whether this file is the one at the path.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    match (identity_of(file), identity_at(path)) {
        (Ok(file), Ok(found)) => file == found,
        (_, Err(error)) => error.kind() != ErrorKind::NotFound,
        (Err(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_becomes_the_predecessor_and_what_was_before_that_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut file = RotatingFile { path: path.clone(), limit: 10, file: None };
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n", "six\n"] {
            file.write_all(line.as_bytes()).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 10);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "six\n");
        assert_eq!(fs::read_to_string(predecessor(&path)).unwrap(), "four\nfive\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_was_removed_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut file = RotatingFile::new(path.clone());
        file.write_all(b"one\n").unwrap();
        fs::remove_file(&path).unwrap();
        file.write_all(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    #[cfg(unix)]
    fn nothing_is_written_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let other = directory.path().join("other");
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let mut file = RotatingFile::new(path);
        file.write_all(b"three\n").unwrap_err();
        assert_eq!(fs::read(&other).unwrap(), b"");
    }
}
