//! Files that others must not read: passwords and keys.

use std::{
    fs::File,
    io::{Read, Result},
    path::Path,
};

use navlock_platform::{
    file,
    user::{ROOT, UserId, ours},
};

/// The contents of the file, if only those can read it who should.
///
/// A group may be able to read root's files, because a broker of another user could not read them
/// otherwise. No group may read files of this user.
pub(super) fn read(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    // The file that is checked is the one that is read.
    let (mut file, mode, owner) = open(path).map_err(failed)?;
    let (forbidden, good) = if owner == ROOT { (0o027, "0640") } else { (0o077, "0600") };
    if owner != ROOT && owner != ours() {
        return Err(format!(
            "{} is owned by uid {owner}; give it to the user of the broker (chown) or to root",
            path.display()
        ));
    }
    if mode & forbidden != 0 {
        return Err(format!(
            "{} has mode {mode:04o}, with which others can read or write it; \
             'chmod {good}' it, and change what they may have read",
            path.display()
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn open(path: &Path) -> Result<(File, u32, UserId)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let (mode, owner) = (file::mode_of(&file, &found), file::owner_of(&file, &found));
    Ok((file, mode, owner))
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
            read(&path)
        };
        assert_eq!(with(0o600), Ok(b"secret\n".to_vec()));
        for mode in [0o644, 0o604, 0o660, 0o602] {
            let said = with(mode).unwrap_err();
            assert!(said.contains(&format!("has mode {mode:04o}")), "{said}");
            assert!(said.contains("'chmod 06"), "{said}");
        }
        assert!(read(&directory.path().join("none")).unwrap_err().contains("cannot read"));
    }
}
