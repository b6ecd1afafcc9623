//! How serde writes and reads names: as text where people read it, and as WTF-8 elsewhere.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

use super::ResourceName;

/// In text, which is Unicode, each lone surrogate is written as U+FFFD.
impl Serialize for ResourceName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.serialize_str(&self.to_string_lossy())
        } else {
            to.serialize_bytes(self.as_bytes())
        }
    }
}

impl<'de> Deserialize<'de> for ResourceName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            from.deserialize_str(Name)
        } else {
            from.deserialize_bytes(Name)
        }
    }
}

struct Name;

impl Visitor<'_> for Name {
    type Value = ResourceName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a resource name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ResourceName, E> {
        name.try_into().map_err(E::custom)
    }

    fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<ResourceName, E> {
        ResourceName::from_wtf8(name).map_err(E::custom)
    }
}
