//! How the engine's types look on the wire: what serde calls remote definitions.

use std::fmt;

use navlock_engine::{FencingToken, Mode, Patience, RequestId, RequestKind, ResourceName};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::MAX_NAME;

/// A [`Mode`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode")]
pub(crate) enum ModeRemote {
    Exclusive,
    Shared,
}

/// A [`Patience`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Patience")]
pub(crate) enum PatienceRemote {
    Endless,
    GivesWay,
    MayGiveUp,
}

/// A [`RequestKind`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "RequestKind")]
pub(crate) enum RequestKindRemote {
    Wait(#[serde(with = "ModeRemote")] Mode),
    IfAvailable(#[serde(with = "ModeRemote")] Mode),
    Steal,
}

/// A [`RequestId`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "RequestId")]
pub(crate) struct RequestIdRemote {
    #[serde(getter = "request_index")]
    index: u32,
    #[serde(getter = "request_serial")]
    serial: u64,
}

fn request_index(id: &RequestId) -> u32 {
    u32::try_from(id.index()).expect("a request id is made from an index of 32 bits")
}

fn request_serial(id: &RequestId) -> u64 {
    id.serial()
}

impl From<RequestIdRemote> for RequestId {
    fn from(remote: RequestIdRemote) -> Self {
        Self::from_parts(remote.index, remote.serial)
    }
}

/// A [`FencingToken`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "FencingToken")]
pub(crate) struct FencingTokenRemote {
    #[serde(getter = "token_number")]
    number: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls getters so")]
fn token_number(token: &FencingToken) -> u64 {
    token.get()
}

impl From<FencingTokenRemote> for FencingToken {
    fn from(remote: FencingTokenRemote) -> Self {
        Self::new(remote.number)
    }
}

/// A [`ResourceName`]: its WTF-8 bytes, checked when they come in.
pub(crate) mod name {
    use super::{Deserializer, NameVisitor, ResourceName, Serializer};

    pub(crate) fn serialize<S: Serializer>(name: &ResourceName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(name.as_bytes())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<ResourceName, D::Error> {
        from.deserialize_bytes(NameVisitor)
    }
}

/// A bucket's name, which many share.
pub(crate) mod bucket {
    use std::{fmt, sync::Arc};

    use super::{Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(bucket: &str, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(bucket)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
        from.deserialize_str(Bucket)
    }

    struct Bucket;

    impl de::Visitor<'_> for Bucket {
        type Value = Arc<str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a bucket")
        }

        fn visit_str<E: de::Error>(self, bucket: &str) -> Result<Arc<str>, E> {
            Ok(bucket.into())
        }
    }
}

/// A [`ResourceName`] that may be missing.
pub(crate) mod optional_name {
    use serde::{Deserialize, Serialize};

    use super::{Deserializer, ResourceName, Serializer, name};

    #[derive(Serialize)]
    struct NameRef<'a>(#[serde(serialize_with = "name::serialize")] &'a ResourceName);

    #[derive(Deserialize)]
    struct Name(#[serde(deserialize_with = "name::deserialize")] ResourceName);

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(
        name: &Option<ResourceName>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        name.as_ref().map(NameRef).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<ResourceName>, D::Error> {
        Ok(Option::deserialize(from)?.map(|Name(name)| name))
    }
}

struct NameVisitor;

impl de::Visitor<'_> for NameVisitor {
    type Value = ResourceName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a resource name in WTF-8, up to {MAX_NAME} bytes long")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<ResourceName, E> {
        if bytes.len() > MAX_NAME {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        ResourceName::from_wtf8(bytes).map_err(E::custom)
    }
}
