//! The place of the broker: its socket, the files beside the socket, and whether both can be
//! trusted.

mod directories;
mod of_bucket;
mod of_system;
mod place_error;

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use navlock_platform::{
    file::{create_private_directory, mode_at, owner_at},
    machine::is_secluded,
    socket::{MAX_PATH, is_at},
    user::{UserId, ours},
};

pub(crate) use self::directories::STORE_VARIABLE;
use self::directories::{SYSTEM_VARIABLE, own_directory, system_directory, without_store};
pub use self::place_error::PlaceError;
use crate::private_tmp;

/// The place of one broker.
///
/// All processes of a user meet at `/tmp/navlock-UID/sock`, and those of root on Linux at
/// `/run/navlock/sock`. The path depends on the uid alone, and not on the environment or a login, so it
/// never moves. `/run/user/UID` would be tidier, but that directory appears with a user's first session
/// and disappears with the last one. A cron job that outlives the last session would hold its lock at
/// another place than later programs. Everybody may write in `/tmp`, but `/tmp` is sticky, so nobody
/// else can remove or rename our files. A directory that is not ours, or that is open to others, is
/// refused.
///
/// A process with its own `/tmp`, such as a container or a service with `PrivateTmp`, has its own
/// broker too. Another place can be chosen: for all programs by the key `socket` in
/// `/etc/navlock.toml` or in the user's own settings, for one program by `NAVLOCK_SOCKET`, or on the
/// command line by `--socket`.
///
/// The methods name the files of the place, and do not look whether the files exist:
///
/// ```
/// use navlock::Place;
///
/// # let directory = tempfile::tempdir()?;
/// # let socket = directory.path().join("sock");
/// let place = Place::at(&socket);
/// // Nobody else may write here.
/// place.check()?;
/// assert_eq!(place.socket(), socket);
/// println!("a broker that is started here logs to {}", place.log().display());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    socket: PathBuf,
    kind: Kind,
}

/// Whose the directory of a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It is for navlock and this user alone, and navlock makes it if it does not exist.
    Private,
    /// Somebody has chosen it. There may be other files.
    Chosen,
    /// It is that of the machine's broker, which several users share. Only the broker writes into it.
    System,
}

/// The name of the file with the bound of fencing tokens, in the place and in the directory for
/// state.
const TOKENS: &str = "tokens";

/// The name of the file of internal errors of brokers, in the directory for state or else in the
/// place.
const FAULTS: &str = "faults.log";

impl Place {
    /// The place where all processes of this user meet.
    pub fn of_user() -> Self {
        Self { socket: own_directory().join("sock"), kind: Kind::Private }
    }

    /// The place of the machine's broker, which several users share: `/run/navlock-system`, or the directory
    /// whose path `NAVLOCK_SYSTEM` contains. An administrator starts that broker. Clients never do.
    pub fn of_system() -> Self {
        Self::of_system_in(system_directory())
    }

    /// The place of a broker that several users share, in another directory than that of the machine's.
    pub fn of_system_in(directory: impl AsRef<Path>) -> Self {
        Self { socket: directory.as_ref().join("sock"), kind: Kind::System }
    }

    /// Whether this is the place of the machine's broker.
    pub fn is_of_system(&self) -> bool {
        self.kind == Kind::System
    }

    /// Whether the environment says that programs use the machine's broker.
    fn names_system() -> bool {
        std::env::var_os(SYSTEM_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
    }

    /// A place that the caller chooses: a socket in a directory that exists and is ours, and in
    /// which nobody else may write. A relative path is taken from the current directory.
    pub fn at(socket: impl AsRef<Path>) -> Self {
        let socket = socket.as_ref();
        if let Some((own, store)) = without_store(socket) {
            return Self::at(own).of_store(store);
        }
        let absolute = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        let own = Self::of_user();
        // A place has one set of files, even if several paths lead to the place: `/var/run` is
        // `/run`.
        if absolute == own.socket
            || last_names(&absolute) == last_names(&own.socket)
                && without_links(&absolute) == without_links(&own.socket)
        {
            own
        } else if absolute == Self::of_system().socket {
            Self::of_system()
        } else {
            Self { socket: absolute, kind: Kind::Chosen }
        }
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// If this process has its own `/tmp`: why other programs of this machine do not meet us at
    /// this place.
    pub fn secluded(&self) -> Option<&'static str> {
        let tmp = Path::new("/tmp");
        (self.socket.starts_with(tmp) && is_secluded(tmp)).then_some(private_tmp::WHY)
    }

    /// The file that a client keeps locked while it starts the broker.
    pub(crate) fn spawn_lock(&self) -> PathBuf {
        self.beside("spawn.lock")
    }

    /// The file that the broker keeps locked as long as it lives.
    pub fn broker_lock(&self) -> PathBuf {
        self.beside("broker.lock")
    }

    /// The temporary name of the socket, until the broker listens at it.
    pub(crate) fn temporary_socket(&self) -> PathBuf {
        self.beside("new")
    }

    /// The directory of the clients' files.
    pub(crate) fn clients(&self) -> PathBuf {
        self.beside("clients")
    }

    /// The directory for the sockets of programs that keep locks for others (`navlock hold`). The
    /// broker does not use it.
    ///
    /// In the place of the machine's broker nobody else may write, so these sockets are in the user's own.
    pub fn holds(&self) -> PathBuf {
        match self.kind {
            Kind::System => Self::of_user().beside("holds"),
            Kind::Private | Kind::Chosen => self.beside("holds"),
        }
    }

    /// The file with the bound of fencing tokens. All tokens that were given so far are smaller
    /// than the bound.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.beside(TOKENS)
    }

    /// The log of a broker that a client has started. When the file is full, `.1` is appended to its
    /// name.
    pub fn log(&self) -> PathBuf {
        self.beside("log")
    }

    /// The file of a broker's internal errors, if it cannot use the directory for state.
    pub fn faults(&self) -> PathBuf {
        self.beside(FAULTS)
    }

    /// The file of brokers' internal errors in the directory for state.
    pub fn faults_in(state: &Path) -> PathBuf {
        state.join(FAULTS)
    }

    /// The second bound of fencing tokens, in the directory for state.
    pub(crate) fn tokens_in(state: &Path) -> PathBuf {
        state.join(TOKENS)
    }

    /// The file of this name, through which a browser finds the page of a `navlock web`.
    pub fn page(&self, name: &str) -> PathBuf {
        self.beside(&format!("web.{name}.html"))
    }

    /// The directory that the socket is in.
    pub fn directory(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }

    fn beside(&self, name: &str) -> PathBuf {
        if self.kind != Kind::Chosen && self.store().is_none() {
            return self.socket.with_file_name(name);
        }
        // Several brokers may use the same directory.
        let mut path = self.socket.clone().into_os_string();
        path.push(".");
        path.push(name);
        path.into()
    }

    /// Makes the directory if it is for navlock alone and does not exist, and checks that no other
    /// user can interfere with the directory and the socket.
    ///
    /// # Errors
    ///
    /// If the place is not ours, is open to others, or cannot be used.
    pub fn prepare(&self) -> Result<(), PlaceError> {
        if self.kind == Kind::Private {
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

    /// Checks that no other user can interfere with the directory and the socket. Makes nothing.
    ///
    /// # Errors
    ///
    /// If the place does not exist, is not ours, is open to others, or cannot be used.
    pub fn check(&self) -> Result<(), PlaceError> {
        let bytes = self.socket.as_os_str().len();
        if bytes > MAX_PATH {
            return Err(PlaceError::TooLong(self.socket.clone()));
        }
        let others = match self.kind {
            Kind::System => return self.check_system(),
            Kind::Private => Others::MayNotLook,
            Kind::Chosen => Others::MayLook,
        };
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

/// The last two names of a path: the name of the socket and the name of its directory.
/// They are the same in all paths that lead to the place.
fn last_names(socket: &Path) -> (Option<&OsStr>, Option<&OsStr>) {
    (socket.file_name(), socket.parent().and_then(Path::file_name))
}

/// The same path with the links above the socket's directory resolved. The directory itself must not
/// be a link, and need not exist yet.
fn without_links(socket: &Path) -> PathBuf {
    let resolved = || {
        let directory = socket.parent()?;
        let above = fs::canonicalize(directory.parent()?).ok()?;
        Some(above.join(directory.file_name()?).join(socket.file_name()?))
    };
    resolved().unwrap_or_else(|| socket.to_owned())
}

/// What other users may do with a directory that we trust.
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

#[cfg(test)]
mod tests;
