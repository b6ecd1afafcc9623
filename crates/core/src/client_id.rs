//! The ids of agents.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// What `query()` shows of an agent. The id is the same for everything that the agent has, differs
/// from the id of every other agent, and cannot be guessed.
///
/// Spec: "clientId", <https://w3c.github.io/web-locks/#concept-lock>
///
/// [`to_bytes`](Self::to_bytes) and [`from_bytes`](Self::from_bytes) are for messages, and the text is for
/// people and logs:
///
/// ```
/// use navlock::{ClientId, UserAgent};
///
/// let client_id = UserAgent::new().lock_manager("app").client_id();
/// assert_eq!(ClientId::from_bytes(client_id.to_bytes()), client_id);
/// assert_eq!(client_id.to_string().parse(), Ok(client_id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClientId(Uuid);

impl ClientId {
    /// A new client id, from the operating system's random numbers.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Its sixteen bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// The client id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ClientId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}
