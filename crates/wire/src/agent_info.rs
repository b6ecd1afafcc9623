//! What agents say of themselves.

use serde::{Deserialize, Serialize};

/// What an agent says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Its process.
    pub pid: u32,
    /// The process that keeps its locks for it, or 0.
    pub keeper: u32,
    /// What runs in it.
    pub command: String,
    /// Its user.
    pub user: String,
    /// Its machine.
    pub host: String,
    /// What it wants its locks for.
    pub why: String,
    /// What else it says of itself: keys and values.
    pub meta: Vec<(String, String)>,
}
