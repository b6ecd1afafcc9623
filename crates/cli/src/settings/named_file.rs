//! Files that the settings name: certificates, and the files that others must not read, which contain
//! passwords and keys.

use std::{
    error, fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use navlock_platform::{
    file,
    user::{ROOT, UserId, ours},
};

/// Why a file that the settings name cannot be used.
#[derive(Debug)]
pub(crate) enum Error {
    /// The system does not let the file be read.
    Unreadable(PathBuf, io::Error),
    /// The file belongs to this other user.
    OtherUser(PathBuf, UserId),
    /// The file has this mode, which is open to others.
    TooOpen { file: PathBuf, mode: u32, good_mode: u32 },
}

/// The contents of a file that everybody may read.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| Error::Unreadable(path.to_owned(), error))
}

/// The contents of the file, if only those can read it who should.
///
/// A group may be able to read root's files, because a broker of another user could not read them
/// otherwise. No group may read files of this user.
pub(super) fn read_secret(path: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |error| Error::Unreadable(path.to_owned(), error);
    // The file that is checked is the one that is read.
    let (mut file, mode, owner) = open(path).map_err(unreadable)?;
    let (forbidden, good_mode) = if owner == ROOT { (0o027, 0o640) } else { (0o077, 0o600) };
    if owner != ROOT && owner != ours() {
        return Err(Error::OtherUser(path.to_owned(), owner));
    }
    if mode & forbidden != 0 {
        return Err(Error::TooOpen { file: path.to_owned(), mode, good_mode });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<(File, u32, UserId)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let (mode, owner) = (file::mode_of(&file, &found), file::owner_of(&file, &found));
    Ok((file, mode, owner))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(file, error) => write!(f, "cannot read {}: {error}", file.display()),
            Self::OtherUser(file, owner) => write!(
                f,
                "{} is owned by uid {owner}; give it to the user of the broker (chown) or to root",
                file.display()
            ),
            Self::TooOpen { file, mode, good_mode } => write!(
                f,
                "{} has mode {mode:04o}, with which others can read or write it; \
                 'chmod {good_mode:04o}' it, and change what they may have read",
                file.display()
            ),
        }
    }
}

impl error::Error for Error {
    /// What the system said.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Unreadable(_, error) => Some(error),
            Self::OtherUser(..) | Self::TooOpen { .. } => None,
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_file_that_others_may_read_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        fs::write(&path, "secret\n").unwrap();
        let with = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_secret(&path)
        };
        assert_eq!(with(0o600).unwrap(), b"secret\n");
        for mode in [0o644, 0o604, 0o660, 0o602] {
            let said = with(mode).unwrap_err().to_string();
            assert!(said.contains(&format!("has mode {mode:04o}")), "{said}");
            assert!(said.contains("'chmod 06"), "{said}");
        }
        let none = read_secret(&directory.path().join("none")).unwrap_err();
        assert!(matches!(none, Error::Unreadable(..)), "{none}");
    }
}
