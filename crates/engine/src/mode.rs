//! Modes.

use std::fmt;

/// Whether a lock tolerates others of the same name.
///
/// Spec: <https://w3c.github.io/web-locks/#modes-scheduling>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Mode {
    /// Alone: no other lock of the name is held at the same time.
    #[default]
    Exclusive,
    /// With others: any number of shared locks of the name are held at the same time.
    Shared,
}

impl Mode {
    /// The specification's spelling: `exclusive` or `shared`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
