//! Taking a name from those who were seen to hold it.

use std::{error, fmt};

use serde::{Deserialize, Serialize};

/// Why nothing was stolen, as far as that is known. `Display` gives the reason in words
/// for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotStolen {
    /// Nobody holds the name any more.
    Free,
    /// Somebody holds a lock of the name that was not in `from`: another holder, or the same holder by a
    /// later lock.
    HeldByOthers,
    /// This broker cannot steal the name, or cannot steal it now. The reason is for people.
    Refused(String),
    /// The reach that keeps the locks has not answered the broker, and may have taken the name. The reason
    /// is for people.
    Unknown(String),
}

impl fmt::Display for NotStolen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("nobody holds it any more; nothing was stolen"),
            Self::HeldByOthers => {
                f.write_str("somebody else holds it by now; nothing was stolen, look again")
            }
            Self::Refused(why) => write!(f, "nothing was stolen: {why}"),
            Self::Unknown(why) => {
                write!(f, "it is not known whether it was stolen, look again: {why}")
            }
        }
    }
}

impl error::Error for NotStolen {}
