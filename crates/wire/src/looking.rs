//! What somebody who looks is told: what there is, and what happens.

use navlock_core::look::Change;
use serde::{Deserialize, Serialize};

use crate::ids::Moment;

/// Something that there is, or that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookEvent {
    /// When, or since when.
    pub at: Moment,
    /// What. Its own times are not sent.
    pub change: Change,
}
