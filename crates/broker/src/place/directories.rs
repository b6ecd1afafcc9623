//! The directories in which brokers are.

use std::path::PathBuf;

use navlock_platform::user::runtime_directory;

/// The directory of the machine's broker, unless the variable names another one.
const SYSTEM: &str = "/run/navlock-system";

/// The variable by which a program uses the machine's broker.
pub(super) const SYSTEM_VARIABLE: &str = "NAVLOCK_SYSTEM";

/// The directory of the machine's broker.
pub(super) fn system_directory() -> PathBuf {
    let named = std::env::var_os(SYSTEM_VARIABLE).map(PathBuf::from);
    named.filter(|path| path.is_absolute()).unwrap_or_else(|| SYSTEM.into())
}

/// The directory of a user's own place.
pub(super) fn own_directory() -> PathBuf {
    runtime_directory("navlock")
}
