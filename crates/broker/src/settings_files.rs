//! The files of settings. This module reads the part that both clients and brokers need: where the
//! broker is.
//!
//! One file is for the machine, and one is for the user. The paths of the files, like the broker's
//! place, depend on the uid alone, so that all processes that should meet read the same files.

use std::{
    env, fs,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use navlock_platform::{
    file::{mode_of, owner_of, without_waiting},
    user::{self, ROOT, ours},
};
use serde::{Deserialize, de::DeserializeOwned};

/// The name of the folder of the settings.
const NAME: &str = "navlock";

/// How much of a file of settings is read at most, in bytes. No file of settings is this long.
const ENOUGH: u64 = 1 << 20;

/// The keys of a file that clients read. All other keys are for brokers.
#[derive(Deserialize)]
struct OfClients {
    socket: Option<PathBuf>,
}

/// The user's home directory, from the password file. `$HOME` is not used, because a broker gets this
/// variable from whichever client happened to start the broker.
pub fn home() -> Option<PathBuf> {
    user::home()
}

/// The paths of the files, whether they exist or not: the user's file, then the machine's.
pub fn places() -> Vec<PathBuf> {
    user::settings(NAME).into_iter().chain([user::settings_of_all(NAME)]).collect()
}

/// The text of the file at one of the [`places`], if there is one.
///
/// # Errors
///
/// If the file cannot be read, or if a user who is not trusted could have written the
/// file.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    // The file is opened without waiting, because each of our paths must lead to a regular file.
    // Only a path that somebody has chosen may lead to something else, such as a pipe.
    let file = match without_waiting().read(true).open(path) {
        Ok(file) => file,
        // The folder may be missing too: the directory does not exist, or there is a file at its
        // path.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(path, &error)),
    };
    let found = file.metadata().map_err(|error| unreadable(path, &error))?;
    let shown = path.display();
    if !found.is_file() {
        return Err(format!("{shown} is no file; remove it"));
    }
    let is_of_the_machine = path == user::settings_of_all(NAME);
    let (owner, mode) = (owner_of(&file, &found), mode_of(&file, &found));
    if owner != ROOT && (is_of_the_machine || owner != ours()) {
        return Err(format!("{shown} is owned by uid {owner}; give it to root (chown)"));
    }
    if mode & 0o022 != 0 {
        return Err(format!(
            "{shown} has mode {mode:04o}, with which others can write it; 'chmod go-w' it"
        ));
    }
    let mut text = String::new();
    file.take(ENOUGH).read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
    Ok(Some(text))
}

/// The text of the file that somebody has chosen. The file must exist.
///
/// # Errors
///
/// If the file cannot be read.
pub fn read_chosen(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot read the settings in {}: {error}; correct the file, or remove it",
        path.display()
    )
}

/// The file that `NAVLOCK_CONFIG` names, if this variable is set. This file is used in place of all
/// others.
///
/// # Errors
///
/// If the path is relative, because a broker runs in another folder and would read another
/// file.
pub fn chosen() -> Result<Option<PathBuf>, String> {
    let chosen = env::var_os("NAVLOCK_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    match chosen {
        Some(path) if path.is_relative() => Err(format!(
            "NAVLOCK_CONFIG is {}, and brokers are started in another folder; \
             set it to an absolute path",
            path.display()
        )),
        chosen => Ok(chosen),
    }
}

/// Parses the text of a file.
///
/// # Errors
///
/// The error says what is wrong and where, but leaves out values, because they may be secret.
pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let place = before.map_or_else(String::new, |before| {
            // Only the key of the line is shown, because the value may be a password.
            let start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let line = text[start..].lines().next().unwrap_or_default();
            let key = line.split_once('=').map(|(key, _)| format!(" ({})", key.trim()));
            format!(", line {}{}", before.matches('\n').count() + 1, key.unwrap_or_default())
        });
        let what = error.message().lines().collect::<Vec<_>>().join(" ");
        let what = what.replace("unknown field", "there is no setting");
        format!("{}{place}: {what}", path.display())
    })
}

/// The socket that the settings choose: the one in the user's file, or else the one in the machine's
/// file.
pub(crate) fn socket() -> Result<Option<PathBuf>, String> {
    if let Some(path) = chosen()? {
        return socket_in(&path, &read_chosen(&path)?);
    }
    for path in places() {
        if let Some(text) = read(&path)? {
            if let Some(socket) = socket_in(&path, &text)? {
                return Ok(Some(socket));
            }
        }
    }
    Ok(None)
}

fn socket_in(path: &Path, text: &str) -> Result<Option<PathBuf>, String> {
    let Some(socket) = parse::<OfClients>(path, text)?.socket else {
        return Ok(None);
    };
    let wrong = |what: &str| {
        Err(format!("{}: socket = {:?}: {what}", path.display(), socket.display().to_string()))
    };
    // The machine's file is for all users of the machine, and each user needs their own socket.
    let meant = socket.to_str().map(|text| text.replace("{uid}", &ours().to_string()));
    match meant.map(PathBuf::from) {
        None => wrong("it is no text in UTF-8"),
        Some(meant) if meant.is_absolute() => Ok(Some(meant)),
        Some(_) => wrong("write an absolute path; {uid} in it is the user's number"),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn socket_of(text: &str) -> Result<Option<PathBuf>, String> {
        socket_in(Path::new("/c.toml"), text)
    }

    #[test]
    fn the_settings_choose_a_socket_for_each_user() {
        assert_eq!(socket_of(""), Ok(None));
        assert_eq!(socket_of("[etcd]\nendpoints = []\n"), Ok(None));
        let chosen = socket_of("socket = \"/run/navlock-users/{uid}/sock\"");
        assert_eq!(chosen, Ok(Some(format!("/run/navlock-users/{}/sock", ours()).into())));
        assert!(socket_of("socket = \"sock\"").unwrap_err().contains("an absolute path"));
        assert!(socket_of("socket = 7").unwrap_err().starts_with("/c.toml, line 1 (socket): "));
        assert!(socket_of("socket = \"/a\"\nsocket").unwrap_err().starts_with("/c.toml, line 2"));
    }

    #[test]
    fn what_others_can_write_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        assert_eq!(read(&path), Ok(None));
        fs::write(&path, "x").unwrap();
        for (mode, counts) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).is_ok(), counts, "{mode:o}");
        }
        assert!(read(directory.path()).unwrap_err().contains("is no file"));
        if ours() == ROOT {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(read(&path).unwrap_err().contains("is owned by uid 65534"));
        }
    }
}
