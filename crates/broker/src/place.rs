//! Where the broker is: its socket, the files beside it, and whether they can be trusted.

use std::{
    error::Error,
    ffi::OsStr,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use navlock_platform::{
    file::{create_private_directory, mode_at, owner_at},
    machine::is_secluded,
    socket::{MAX_PATH, is_at},
    user::{UserId, ours, runtime_directory},
};

use crate::{SystemError, private_tmp, settings};

/// The place of one broker.
///
/// All processes of a user meet at `/tmp/navlock-UID/sock`, those of root at `/run/navlock/sock` on
/// Linux. The path follows from the uid and from
/// nothing else, so that it never moves: not with the environment, and not with a login.
/// `/run/user/UID`, which would be tidier, comes with the first session of a user and goes with
/// the last, and a cron job that outlives it would hold its lock at another place than those who
/// come later. In `/tmp`, where everybody may write, nobody but us can remove or rename what is
/// ours (it is sticky), and a directory that is not ours, or open to others, is refused.
///
/// Who has a `/tmp` of its own, as a container or a service with `PrivateTmp` has, has a broker of
/// its own too. Another place has to be asked for: by the key `socket` in `/etc/navlock.toml` or in the
/// user's own settings for all programs, by `NAVLOCK_SOCKET` for one, or `--socket` on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    socket: PathBuf,
    /// Ours alone, and made if it is not there; a directory that was chosen is not.
    private_directory: bool,
}

/// The file of the bound of fencing tokens, in the place and in the directory for state.
const TOKENS: &str = "tokens";

/// The file of what broke inside brokers, in the directory for state or else in the place.
const FAULTS: &str = "faults.log";

/// Why a place cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceError {
    /// The directory of the socket is a file, or a link to somewhere else.
    NotADirectory(PathBuf),
    /// The path of the socket is something else.
    NotASocket(PathBuf),
    /// It belongs to this other user.
    OtherUser(PathBuf, UserId),
    /// With this mode others can do things in the directory.
    TooOpen(PathBuf, u32),
    /// The settings that say where it is cannot be used, for this reason.
    Settings(String),
    /// The system takes no socket path as long as this one.
    TooLong(PathBuf),
    /// Something could not be looked at or made.
    Io(PathBuf, SystemError),
}

impl Place {
    /// The place that `NAVLOCK_SOCKET` says, or else the key `socket` in the user's settings or in
    /// `/etc/navlock.toml`, or else that of all processes of this user.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Settings`] if there are settings that cannot be used: to go elsewhere then would
    /// be to miss the others.
    pub fn from_env() -> Result<Self, PlaceError> {
        let socket = std::env::var_os("NAVLOCK_SOCKET").filter(|socket| !socket.is_empty());
        let socket = match socket {
            Some(socket) => Some(socket.into()),
            None => settings::socket().map_err(PlaceError::Settings)?,
        };
        Ok(socket.map_or_else(Self::of_user, Self::at))
    }

    /// The place where all processes of this user meet.
    pub fn of_user() -> Self {
        Self { socket: own_directory().join("sock"), private_directory: true }
    }

    /// A place of the caller's choice: a socket in a directory that exists, is ours, and in which
    /// nobody else may write. A relative path is taken from the current directory.
    pub fn at(socket: impl AsRef<Path>) -> Self {
        let socket = socket.as_ref();
        let absolute = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        let own = Self::of_user();
        // By whichever way it was found, one place has one set of files: `/var/run` is `/run`.
        if absolute == own.socket
            || last_names(&absolute) == last_names(&own.socket)
                && without_links(&absolute) == without_links(&own.socket)
        {
            own
        } else {
            Self { socket: absolute, private_directory: false }
        }
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Why others of this machine do not meet us here, if that is known: this process has a `/tmp` of
    /// its own.
    pub fn secluded(&self) -> Option<&'static str> {
        let tmp = Path::new("/tmp");
        (self.socket.starts_with(tmp) && is_secluded(tmp)).then_some(private_tmp::WHY)
    }

    /// Whoever starts the broker holds a lock on this file until it listens.
    pub(crate) fn spawn_lock(&self) -> PathBuf {
        self.beside("spawn.lock")
    }

    /// The broker holds a lock on this file for life.
    pub fn broker_lock(&self) -> PathBuf {
        self.beside("broker.lock")
    }

    /// The socket's name until it listens.
    pub(crate) fn unborn_socket(&self) -> PathBuf {
        self.beside("new")
    }

    /// The clients' files are in this directory.
    pub(crate) fn clients(&self) -> PathBuf {
        self.beside("clients")
    }

    /// The sockets of those who keep locks for others are in this directory; the broker has no part in
    /// it.
    pub fn holds(&self) -> PathBuf {
        self.beside("holds")
    }

    /// No fencing token that was given so far is as large as the number in this file.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.beside(TOKENS)
    }

    /// What a broker logs that nobody runs on purpose is in this file, and in one with `.1` behind its
    /// name what was in it before it was full.
    pub fn log(&self) -> PathBuf {
        self.beside("log")
    }

    /// What broke inside a broker is written down in this file, if it cannot be where brokers keep their state.
    pub fn faults(&self) -> PathBuf {
        self.beside(FAULTS)
    }

    /// What broke inside brokers is written down in this file of their directory for state.
    pub fn faults_in(state: &Path) -> PathBuf {
        state.join(FAULTS)
    }

    /// The second bound of fencing tokens, in the directory for state.
    pub(crate) fn tokens_in(state: &Path) -> PathBuf {
        state.join(TOKENS)
    }

    /// A file for somebody of this name, by which a browser finds the page of a `navlock web`.
    pub fn page(&self, name: &str) -> PathBuf {
        self.beside(&format!("web.{name}.html"))
    }

    /// The directory that the socket is in.
    pub fn directory(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }

    fn beside(&self, name: &str) -> PathBuf {
        if self.private_directory {
            return self.socket.with_file_name(name);
        }
        // Several brokers may have been given one directory.
        let mut path = self.socket.clone().into_os_string();
        path.push(".");
        path.push(name);
        path.into()
    }

    /// Makes the directory if it is to be made, and checks everything that others could have put
    /// in our way.
    ///
    /// # Errors
    ///
    /// If the place is not ours, is open to others, or cannot be used.
    pub fn prepare(&self) -> Result<(), PlaceError> {
        if self.private_directory {
            let directory = self.directory();
            match create_private_directory(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(PlaceError::Io(directory.to_owned(), error.into()));
                }
                _ => {}
            }
        }
        self.check()
    }

    /// Checks everything that others could have put in our way, and makes nothing.
    ///
    /// # Errors
    ///
    /// If the place is not there, is not ours, is open to others, or cannot be used.
    pub fn check(&self) -> Result<(), PlaceError> {
        let bytes = self.socket.as_os_str().len();
        if bytes > MAX_PATH {
            return Err(PlaceError::TooLong(self.socket.clone()));
        }
        let others = if self.private_directory { Others::MayNotLook } else { Others::MayLook };
        check_directory(self.directory(), ours(), others)?;
        match fs::symlink_metadata(&self.socket) {
            Ok(found) if !is_at(&self.socket, &found) => {
                Err(PlaceError::NotASocket(self.socket.clone()))
            }
            Ok(found) if owner_at(&self.socket, &found) != ours() => {
                Err(PlaceError::OtherUser(self.socket.clone(), owner_at(&self.socket, &found)))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PlaceError::Io(self.socket.clone(), error.into()))
            }
            _ => Ok(()),
        }
    }
}

/// The names of a socket and its directory, which are the same by whichever way they are found.
fn last_names(socket: &Path) -> (Option<&OsStr>, Option<&OsStr>) {
    (socket.file_name(), socket.parent().and_then(Path::file_name))
}

/// The same path without links above the socket's directory, which itself is none, and may not be there
/// yet.
fn without_links(socket: &Path) -> PathBuf {
    let resolved = || {
        let directory = socket.parent()?;
        let above = fs::canonicalize(directory.parent()?).ok()?;
        Some(above.join(directory.file_name()?).join(socket.file_name()?))
    };
    resolved().unwrap_or_else(|| socket.to_owned())
}

/// What others may do with a directory that we trust.
#[derive(Clone, Copy)]
enum Others {
    MayLook,
    MayNotLook,
}

fn check_directory(path: &Path, uid: UserId, others: Others) -> Result<(), PlaceError> {
    let forbidden = match others {
        Others::MayLook => 0o022,
        Others::MayNotLook => 0o077,
    };
    let found = fs::symlink_metadata(path)
        .map_err(|error| PlaceError::Io(path.to_owned(), error.into()))?;
    if !found.is_dir() {
        Err(PlaceError::NotADirectory(path.to_owned()))
    } else if owner_at(path, &found) != uid {
        Err(PlaceError::OtherUser(path.to_owned(), owner_at(path, &found)))
    } else if mode_at(path, &found) & forbidden != 0 {
        Err(PlaceError::TooOpen(path.to_owned(), mode_at(path, &found)))
    } else {
        Ok(())
    }
}

/// The directory of [`Place::of_user`].
fn own_directory() -> PathBuf {
    runtime_directory("navlock")
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
            Self::Settings(why) => {
                return write!(f, "{why} (NAVLOCK_SOCKET goes before the settings)");
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
                write!(f, "{} does not exist", path.display())?;
                (path, "make it")
            }
            Self::Io(path, error) => {
                write!(f, "{}: {error}", path.display())?;
                (path, "mend that")
            }
        };
        // What is in the way of our own place can go. Of a place that was chosen we know nothing:
        // it may be `/tmp`, or `/`.
        if path.starts_with(own_directory()) {
            write!(f, "; {remedy}, or")?;
        } else {
            f.write_str(";")?;
        }
        f.write_str(" set NAVLOCK_SOCKET to a path in a directory that is yours alone")
    }
}

impl Error for PlaceError {
    /// What the system said.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
