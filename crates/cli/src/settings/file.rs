//! The file of settings: where it is, and what may stand in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nix::unistd::{Uid, User};
use serde::Deserialize;

/// That of all users of the machine.
const OF_THE_MACHINE: &str = "/etc/navlock.toml";

/// That of one user, in the user's own directory.
const OF_THE_USER: &str = ".config/navlock/config.toml";

/// All that may stand in it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) etcd: Option<EtcdTable>,
}

/// On which etcd a broker is.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct EtcdTable {
    pub(super) endpoints: Option<Vec<String>>,
    pub(super) namespace: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    /// In seconds.
    pub(super) time_to_live: Option<f64>,
    pub(super) certificate_authority: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) server_name: Option<String>,
}

/// Where files are looked for; the first that is there is the one.
///
/// The user's own directory is that of the password file and not `$HOME`, which a broker has from
/// whoever happened to start it.
pub(super) fn places() -> Vec<PathBuf> {
    home().map(|home| home.join(OF_THE_USER)).into_iter().chain([OF_THE_MACHINE.into()]).collect()
}

/// The user's own directory.
pub(super) fn home() -> Option<PathBuf> {
    let user = User::from_uid(Uid::effective()).ok().flatten();
    user.map(|user| user.dir).filter(|home| home.is_absolute())
}

/// The file that was chosen, or else the first that is there, with what is in it.
pub(super) fn find(chosen: Option<&Path>) -> Result<Option<(PathBuf, String)>, String> {
    let places = chosen.map_or_else(places, |path| vec![path.to_owned()]);
    for path in places {
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((path, text))),
            // Not even the folder: the user has no such directory, or a file in the place of one.
            Err(error)
                if chosen.is_none()
                    && matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) => {}
            Err(error) => {
                return Err(format!(
                    "cannot read the settings in {}: {}; mend that, or remove it",
                    path.display(),
                    error
                ));
            }
        }
    }
    Ok(None)
}

/// What stands in the file.
pub(super) fn parse(path: &Path, text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let place = before.map_or_else(String::new, |before| {
            // Of the line only the key: a password that stands there by mistake is nobody's.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        parse(Path::new("/c.toml"), text).unwrap_err()
    }

    #[test]
    fn what_is_wrong_is_said_with_file_line_and_key() {
        let said = wrong("[etcd]\nendpoint = [\"a:1\"]\n");
        assert!(
            said.starts_with("/c.toml, line 2 (endpoint): there is no setting `endpoint`"),
            "{said}"
        );
        assert!(said.contains("`endpoints`"), "{said}");
        let said = wrong("\n[etcd]\nendpoints = []\nuser = 7\n");
        assert!(said.starts_with("/c.toml, line 4 (user): invalid type"), "{said}");
        let said = wrong("[etcd\n");
        assert!(said.starts_with("/c.toml, line 1: "), "{said}");
        assert!(!said.contains('\n'), "{said}");
        assert!(wrong("etc = 1\n").contains("no setting `etc`"));
    }

    #[test]
    fn what_stands_in_a_wrong_place_is_not_repeated() {
        let said = wrong("[etcd]\npassword = \"secret\"\n");
        assert!(said.contains("password") && !said.contains("secret"), "{said}");
    }

    #[test]
    fn seconds_may_have_a_point() {
        for (text, seconds) in [("10", 10.0), ("7.5", 7.5)] {
            let file = parse(Path::new("c"), &format!("[etcd]\ntime-to-live = {text}\n"));
            assert_eq!(file.unwrap().etcd.unwrap().time_to_live, Some(seconds));
        }
    }

    #[test]
    fn a_file_that_was_chosen_has_to_be_there() {
        let directory = tempfile::tempdir().unwrap();
        let said = find(Some(&directory.path().join("none"))).unwrap_err();
        assert!(said.contains("cannot read the settings in"), "{said}");
        assert!(find(Some(Path::new("/dev/null"))).unwrap().unwrap().1.is_empty());
    }
}
