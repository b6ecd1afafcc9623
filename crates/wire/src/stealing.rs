//! Taking a name from those who were seen to hold it.

use serde::{Deserialize, Serialize};

/// Why nothing was stolen, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NotStolen {
    /// Nobody holds the name any more.
    Free,
    /// Somebody holds it who is none of those it was to be stolen from, or holds it anew.
    HeldByOthers,
    /// It cannot be done here; for people.
    Refused(String),
    /// Whoever keeps the locks has not answered, and may have done it; for people.
    Unknown(String),
}
