//! Files that the settings name: certificates, and the files that others must not read, which contain
//! passwords and keys.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use navlock::Refusal;
use navlock_platform::{
    file,
    user::{ROOT, ours},
};

/// The contents of a file that everybody may read.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    std::fs::read(path).map_err(|error| unreadable(path, error))
}

/// The contents of the file, if only those can read it who should.
///
/// A group may be able to read root's files, because a broker of another user could not read them
/// otherwise. No group may read files of this user.
pub(super) fn read_secret(path: &Path) -> Result<Vec<u8>, Refusal> {
    let unreadable = |error| unreadable(path, error);
    // The file that is checked is the one that is read.
    let mut file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    let (mode, owner) = (file::mode_of(&file, &found), file::owner_of(&file, &found));
    let (forbidden, good_mode) = if owner == ROOT { (0o027, 0o640) } else { (0o077, 0o600) };
    if owner != ROOT && owner != ours() {
        return Err(Refusal::new(format!(
            "{} is owned by uid {owner}; give it to the user of the broker (chown) or to root",
            path.display()
        )));
    }
    if mode & forbidden != 0 {
        return Err(Refusal::new(format!(
            "{} has mode {mode:04o}, with which others can read or write it; \
             'chmod {good_mode:04o}' it, and change what they may have read",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The password in such a file, whose last line may end with a line break or without.
pub(super) fn password(path: &Path) -> Result<String, Refusal> {
    let text = String::from_utf8(read_secret(path)?)
        .map_err(|_| Refusal::new("the password is no text in UTF-8"))?;
    match text.strip_suffix('\n').unwrap_or(&text) {
        "" => Err(Refusal::new("the password-file is empty; write the password into it")),
        password => Ok(password.to_owned()),
    }
}

fn unreadable(path: &Path, error: io::Error) -> Refusal {
    Refusal::new(format!("cannot read {}: {error}", path.display())).caused_by(error)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{error::Error as _, fs, os::unix::fs::PermissionsExt};

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
        let source = none.source().expect("the system said something").to_string();
        assert!(none.to_string().contains(&source), "{none}");
    }
}
