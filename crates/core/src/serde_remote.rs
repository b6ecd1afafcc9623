//! How serde writes and reads the answers of `query()`: in the form of the specification.

use navlock_engine::Mode;
use serde::{Deserialize, Serialize};

/// A [`Mode`]: `exclusive` or `shared`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode", rename_all = "lowercase")]
pub(crate) enum ModeRemote {
    Exclusive,
    Shared,
}

/// A [`ResourceName`](navlock_engine::ResourceName) as text.
pub(crate) mod name {
    use navlock_engine::ResourceName;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(name: &ResourceName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&name.to_string_lossy())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<ResourceName, D::Error> {
        String::deserialize(from)?.try_into().map_err(de::Error::custom)
    }
}

/// A [`ClientId`](crate::ClientId) as text.
pub(crate) mod client_id {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::ClientId;

    pub(crate) fn serialize<S: Serializer>(id: &ClientId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ClientId, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
