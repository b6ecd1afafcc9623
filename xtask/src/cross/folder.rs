//! The folder of what `cargo xtask cross` makes.

use std::path::PathBuf;

use crate::run::root;

/// The folder of what `cargo xtask cross` makes.
pub(super) fn folder() -> PathBuf {
    root().join("target/cross")
}
