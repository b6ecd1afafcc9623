//! The directories in which brokers are, and the names of their sockets there.

use std::path::{Path, PathBuf};

use navlock_platform::user::runtime_directory;

use crate::buckets::is_store;

/// The directory of the machine's broker, unless the variable names another one.
const SYSTEM: &str = "/run/navlock-system";

/// The variable by which a program uses the machine's broker.
pub(super) const SYSTEM_VARIABLE: &str = "NAVLOCK_SYSTEM";

/// The variable that names the store whose broker is meant.
pub(crate) const STORE_VARIABLE: &str = "NAVLOCK_STORE";

/// What stands between the name of a user's own socket and the name of a store, in the name of the socket of the
/// store's broker.
pub(super) const OF_STORE: &str = ".store-";

/// The directory of the machine's broker.
pub(super) fn system_directory() -> PathBuf {
    let named = std::env::var_os(SYSTEM_VARIABLE).map(PathBuf::from);
    named.filter(|path| path.is_absolute()).unwrap_or_else(|| SYSTEM.into())
}

/// The directory of a user's own place.
pub(super) fn own_directory() -> PathBuf {
    runtime_directory("navlock")
}

/// The socket of the user's own broker, and the store, if this is the socket of a store's broker.
pub(super) fn without_store(socket: &Path) -> Option<(PathBuf, &str)> {
    let (own, store) = socket.file_name()?.to_str()?.rsplit_once(OF_STORE)?;
    (!own.is_empty() && !own.contains(OF_STORE) && is_store(store))
        .then(|| (socket.with_file_name(own), store))
}
