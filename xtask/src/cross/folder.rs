//! Where all that is made here is.

use std::path::PathBuf;

use crate::run::root;

/// The folder of all that is made here.
pub(super) fn folder() -> PathBuf {
    root().join("target/cross")
}
