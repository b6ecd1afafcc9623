//! What the machine's broker does with the files of its clients.

use serde::{Deserialize, Serialize};

/// What a client of the machine's broker wants of its files, which only the broker can write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileTask {
    /// Make the client's own file.
    Own,
    /// Make the file of the locks that others will inherit from the client. Nobody holds locks by it yet.
    Reserve,
    /// Write that these locks are inherited: the messages that claim them.
    Inherit {
        /// The messages, encoded.
        claims: Vec<u8>,
    },
    /// Write that nothing is inherited any more.
    Revoke,
}
