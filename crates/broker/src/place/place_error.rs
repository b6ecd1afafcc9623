//! Why a place cannot be used.

use std::{error::Error, fmt, io, path::PathBuf};

use navlock_platform::{socket::MAX_PATH, user::UserId};

use super::directories::{own_directory, system_directory};
use crate::{SettingsError, SystemError, private_tmp};

/// Why a place cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceError {
    /// The directory of the socket is a file, or a link to somewhere else.
    NotADirectory(PathBuf),
    /// The path of the socket leads to something that is no socket.
    NotASocket(PathBuf),
    /// The directory or the socket belongs to this other user.
    OtherUser(PathBuf, UserId),
    /// The directory has this mode, which lets other users in.
    TooOpen(PathBuf, u32),
    /// Only members of this group may use the machine's broker in this directory, and this process is not
    /// one of them.
    NotAllowed(PathBuf, String),
    /// There are no brokers for several users on this system.
    NoSystem,
    /// The variable `NAVLOCK_STORE` contains this, which is no name of a store.
    NotAStore(String),
    /// The settings cannot be used, for this reason. They might say where the place is.
    Settings(SettingsError),
    /// The path is longer than the system allows for a socket.
    TooLong(PathBuf),
    /// Something at this path could not be read or made.
    Io(PathBuf, SystemError),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, remedy) = match self {
            Self::NotADirectory(path) => {
                write!(f, "{} is not a directory", path.display())?;
                (path, "have it removed")
            }
            Self::NotASocket(path) => {
                write!(f, "{} is not a socket", path.display())?;
                (path, "remove it")
            }
            Self::OtherUser(path, uid) => {
                write!(f, "{} is owned by uid {uid}", path.display())?;
                (path, "have it removed")
            }
            Self::TooOpen(path, mode) => {
                write!(f, "{} has mode {mode:04o}, which lets others in", path.display())?;
                (path, "chmod it to 0700")
            }
            Self::NotAllowed(directory, group) => {
                return write!(
                    f,
                    "not allowed: only members of the group {group} may use the machine's broker in {}; \
                     have this user added to the group (usermod -aG {group} NAME), and log in anew",
                    directory.display()
                );
            }
            Self::NoSystem => {
                return f.write_str(
                    "on this system no broker serves several users; leave --system out",
                );
            }
            Self::NotAStore(name) => {
                return write!(
                    f,
                    "NAVLOCK_STORE: {name:?} is no name of a store; write one of the settings, or unset it"
                );
            }
            Self::Settings(why) => {
                write!(f, "{why}")?;
                return private_tmp::tell_peculiarities(f);
            }
            Self::TooLong(path) => {
                return write!(
                    f,
                    "{} is longer than {MAX_PATH} bytes, too long for a socket; \
                     set NAVLOCK_SOCKET to a shorter path",
                    path.display()
                );
            }
            Self::Io(path, error) if error.kind() == io::ErrorKind::NotFound => {
                // The directory above is the reason if it does not exist either.
                let missing = path.ancestors().take_while(|path| !path.exists()).last();
                write!(f, "{} does not exist", missing.unwrap_or(path).display())?;
                (path, "make it")
            }
            Self::Io(path, error) => {
                write!(f, "{}: {error}", path.display())?;
                (path, "remove the cause")
            }
        };
        // Only for our own place, the message advises to remove or change something. A place that
        // somebody has chosen may be in `/tmp` or `/`.
        if path.starts_with(system_directory()) {
            return f.write_str("; have the machine's administrator mend it");
        } else if path.starts_with(own_directory()) {
            write!(f, "; {remedy}, or")?;
        } else {
            f.write_str(";")?;
        }
        f.write_str(" set NAVLOCK_SOCKET to a path in a directory that is yours alone")?;
        private_tmp::tell_peculiarities(f)
    }
}

impl Error for PlaceError {
    /// What the system said.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::Settings(error) => error.source(),
            _ => None,
        }
    }
}
