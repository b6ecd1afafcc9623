//! The files of settings. This module reads the part that both clients and brokers need: where the
//! user's own broker is, and where buckets live.
//!
//! One file is for the machine, and one is for the user. The paths of the files, like the broker's
//! place, depend on the uid alone, so that all processes that should meet read the same files.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

use navlock_platform::{
    file::{mode_of, owner_of, without_waiting},
    user::{self, ROOT, ours},
};
use serde::de::DeserializeOwned;

use crate::{SettingsError, buckets::Buckets, settings_file::ForClients};

/// The variable that names a file of settings.
pub const CONFIG: &str = "NAVLOCK_CONFIG";

/// The answer to what was written before there were stores: what to write now. It is no key, so that no other error
/// lists it among the keys.
const NO_ETCD: &str = "an etcd is a store, and buckets live in it; write [stores.main] in place of [etcd], etcd in \
    place of endpoints, and [buckets.\"*\"] with store = \"main\" for all buckets";

/// The name of the folder of the settings.
const NAME: &str = "navlock";

/// How much of a file of settings is read at most, in bytes. No file of settings is this long.
const ENOUGH: u64 = 1 << 20;

/// The user's home directory, from the password file. `$HOME` is not used, because a broker gets this
/// variable from whichever client happened to start the broker.
pub fn home() -> Option<PathBuf> {
    user::home()
}

/// The paths of the files, whether they exist or not: the user's file, then the machine's.
pub fn places() -> Vec<PathBuf> {
    user::settings(NAME).into_iter().chain([user::settings_of_all(NAME)]).collect()
}

/// The file that [`CONFIG`] names, if this variable is set. This file is used in place of all others.
///
/// # Errors
///
/// [`SettingsError::Relative`] if the path is relative, because a broker runs in another folder and
/// would read another file.
pub fn chosen() -> Result<Option<PathBuf>, SettingsError> {
    absolute(env::var_os(CONFIG))
}

/// The path in the variable [`CONFIG`]. An empty variable counts as unset.
fn absolute(variable: Option<OsString>) -> Result<Option<PathBuf>, SettingsError> {
    match variable.filter(|path| !path.is_empty()).map(PathBuf::from) {
        Some(path) if path.is_relative() => Err(SettingsError::Relative(path)),
        chosen => Ok(chosen),
    }
}

/// The text of the file at one of the [`places`], if there is one.
///
/// # Errors
///
/// If the file cannot be read, or if a user who is not trusted could have written the
/// file.
pub fn read(path: &Path) -> Result<Option<String>, SettingsError> {
    let unreadable = |error: io::Error| SettingsError::Unreadable(path.to_owned(), error.into());
    // The file is opened without waiting, because each of our paths must lead to a regular file.
    // Only a path that somebody has chosen may lead to something else, such as a pipe.
    let file = match without_waiting().read(true).open(path) {
        Ok(file) => file,
        // The folder may be missing too: the directory does not exist, or there is a file at its
        // path.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(SettingsError::NotAFile(path.to_owned()));
    }
    let is_of_the_machine = path == user::settings_of_all(NAME);
    let (owner, mode) = (owner_of(&file, &found), mode_of(&file, &found));
    if owner != ROOT && (is_of_the_machine || owner != ours()) {
        return Err(SettingsError::OtherUser(path.to_owned(), owner));
    }
    if mode & 0o022 != 0 {
        return Err(SettingsError::TooOpen(path.to_owned(), mode));
    }
    let mut bytes = Vec::new();
    file.take(ENOUGH).read_to_end(&mut bytes).map_err(unreadable)?;
    text(path, bytes).map(Some)
}

/// The text of the file that somebody has chosen. The file must exist.
///
/// # Errors
///
/// If the file cannot be read.
pub fn read_chosen(path: &Path) -> Result<String, SettingsError> {
    let unreadable = |error: io::Error| SettingsError::Unreadable(path.to_owned(), error.into());
    text(path, fs::read(path).map_err(unreadable)?)
}

/// The contents of a file as a text.
fn text(path: &Path, bytes: Vec<u8>) -> Result<String, SettingsError> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        SettingsError::Invalid {
            file: path.to_owned(),
            line: Some(good.split(|&byte| byte == b'\n').count()),
            key: None,
            what: "there is a character that is not in UTF-8; save the file in UTF-8".to_owned(),
        }
    })
}

/// Parses the text of a file.
///
/// # Errors
///
/// The error says what is wrong and where, but leaves out values, because they may be secret.
pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, SettingsError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let key = before.and_then(|before| {
            // Only the key of the line is shown, because the value may be a password.
            let start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let (key, _) = text[start..].lines().next()?.split_once('=')?;
            Some(key.trim().to_owned())
        });
        let what = error.message().lines().collect::<Vec<_>>().join(" ");
        let what = if what.starts_with("unknown field `etcd`") { NO_ETCD.to_owned() } else { what };
        SettingsError::Invalid {
            file: path.to_owned(),
            line: before.map(|before| before.matches('\n').count() + 1),
            key,
            what: what.replace("unknown field", "there is no setting"),
        }
    })
}

/// What the settings say for clients: the socket of the user's own broker, which the user's file chooses or else the
/// machine's, and where buckets live, by both.
pub(crate) fn for_clients() -> Result<(Option<PathBuf>, Buckets), SettingsError> {
    read_by_clients(&all(self::chosen()?.as_deref())?)
}

/// Checks what these files say to clients.
///
/// # Errors
///
/// What clients find wrong with them.
pub fn check(files: &[(PathBuf, String)]) -> Result<(), SettingsError> {
    read_by_clients(files).map(|_| ())
}

fn read_by_clients(
    files: &[(PathBuf, String)],
) -> Result<(Option<PathBuf>, Buckets), SettingsError> {
    let mut socket = None;
    let mut all = Vec::new();
    for (path, text) in files {
        let said: ForClients = parse(path, text)?;
        if let Some(chosen) = said.socket.as_ref().filter(|_| socket.is_none()) {
            socket = Some(socket_in(path, chosen)?);
        }
        all.push((path, &**text, said));
    }
    Ok((socket, Buckets::of(all)?))
}

/// The files, each with its text: the one that was chosen, or else those of the [`places`] that exist.
///
/// # Errors
///
/// Those of [`read_chosen`] and [`read`].
pub fn all(chosen: Option<&Path>) -> Result<Vec<(PathBuf, String)>, SettingsError> {
    if let Some(path) = chosen {
        return Ok(vec![(path.to_owned(), read_chosen(path)?)]);
    }
    let found = places().into_iter().map(|path| Ok(read(&path)?.map(|text| (path, text))));
    found.filter_map(Result::transpose).collect()
}

/// A directory of the user that outlives `/tmp`, for the files that brokers keep. It is the directory
/// in `NAVLOCK_STATE`, for containers and tests, or else one that follows from the uid, like the
/// settings. `None` for a user without a home.
pub fn state_directory() -> Option<PathBuf> {
    match env::var_os("NAVLOCK_STATE").filter(|path| !path.is_empty()) {
        Some(chosen) => Some(PathBuf::from(chosen)).filter(|path| path.is_absolute()),
        None => user::state_directory(NAME),
    }
}

fn socket_in(path: &Path, socket: &Path) -> Result<PathBuf, SettingsError> {
    // The machine's file is for all users of the machine, and each user needs their own socket.
    let meant = socket.to_str().map(|text| text.replace("{uid}", &ours().to_string()));
    let why = match meant.map(PathBuf::from) {
        Some(meant) if meant.is_absolute() => return Ok(meant),
        Some(_) => "write an absolute path; {uid} in it is the user's number",
        None => "it is no text in UTF-8",
    };
    Err(SettingsError::Invalid {
        file: path.to_owned(),
        line: None,
        key: Some("socket".to_owned()),
        what: format!("{:?}: {why}", socket.display().to_string()),
    })
}

#[cfg(all(test, unix))]
pub(crate) fn buckets_in(text: &str) -> Result<Buckets, SettingsError> {
    read_by_clients(&[("/c.toml".into(), text.to_owned())]).map(|(_, buckets)| buckets)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn socket_of(text: &str) -> Result<Option<PathBuf>, SettingsError> {
        let path = Path::new("/c.toml");
        let socket = parse::<ForClients>(path, text)?.socket;
        socket.map(|socket| socket_in(path, &socket)).transpose()
    }

    fn wrong(text: &str) -> String {
        socket_of(text).unwrap_err().to_string()
    }

    #[test]
    fn the_settings_choose_a_socket_for_each_user() {
        assert_eq!(socket_of(""), Ok(None));
        assert_eq!(socket_of("[stores.main]\netcd = []\n"), Ok(None));
        let chosen = socket_of("socket = \"/run/navlock-users/{uid}/sock\"");
        assert_eq!(chosen, Ok(Some(format!("/run/navlock-users/{}/sock", ours()).into())));
        assert!(
            wrong("socket = \"sock\"")
                .starts_with("/c.toml (socket): \"sock\": write an absolute path")
        );
        assert!(wrong("socket = 7").starts_with("/c.toml, line 1 (socket): "));
        assert!(wrong("socket = \"/a\"\nsocket").starts_with("/c.toml, line 2"));
    }

    #[test]
    fn the_variable_names_an_absolute_path_or_nothing() {
        let named = |path: &str| absolute(Some(path.into()));
        assert_eq!((absolute(None), named("")), (Ok(None), Ok(None)));
        assert_eq!(named("/c.toml"), Ok(Some("/c.toml".into())));
        assert_eq!(named("c.toml"), Err(SettingsError::Relative("c.toml".into())));
    }

    #[test]
    fn a_file_that_is_no_text_is_told_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        fs::write(&path, b"log = \"warn\"\nsocket = \"/\xff\"\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        for said in [read(&path).unwrap_err(), read_chosen(&path).unwrap_err()] {
            let said = said.to_string();
            assert!(said.contains("config.toml, line 2: ") && said.contains("UTF-8"), "{said}");
        }
    }

    #[test]
    fn a_file_that_others_can_write_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        assert_eq!(read(&path), Ok(None));
        fs::write(&path, "x").unwrap();
        for (mode, counts) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).is_ok(), counts, "{mode:o}");
        }
        let folder = directory.path();
        assert_eq!(read(folder), Err(SettingsError::NotAFile(folder.to_owned())));
        if ours() == ROOT {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(read(&path), Err(SettingsError::OtherUser(_, 65534))));
        }
    }
}
