//! The limits on which both sides of a connection must agree: how long and how many things may be.
//!
//! What one connection may have at a time is the broker's alone to say: `daemon::Limits` of `navlock-broker`.

use navlock_engine::ResourceName;
use serde::{Deserialize, Deserializer, de::Error};

/// The longest frame, in bytes: room for the longest name, a few times over.
pub const MAX_FRAME: usize = 4 << 20;

/// The longest text that is kept of what an agent says of itself, in bytes; more is cut off.
pub const MAX_TEXT: usize = 512;

/// The longest name that can be asked for, in bytes of WTF-8.
pub const MAX_NAME: usize = 1 << 20;

/// The longest name of a bucket, in bytes.
pub const MAX_BUCKET: usize = 1 << 16;

/// How many keys an agent can have; more are dropped.
pub const MAX_META: usize = 16;

/// Inside how many locks a request can be; of more, some are not known.
pub const MAX_INSIDE: usize = 64;

/// Reads a name that is to be kept.
///
/// # Errors
///
/// If the name is longer than [`MAX_NAME`].
pub(crate) fn short_enough<'de, D: Deserializer<'de>>(from: D) -> Result<ResourceName, D::Error> {
    ResourceName::deserialize(from).and_then(checked)
}

/// The same for a name that may be missing.
///
/// # Errors
///
/// If the name is longer than [`MAX_NAME`].
pub(crate) fn short_or_none<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<ResourceName>, D::Error> {
    Option::deserialize(from)?.map(checked).transpose()
}

fn checked<E: Error>(name: ResourceName) -> Result<ResourceName, E> {
    match name.as_bytes().len() {
        ..=MAX_NAME => Ok(name),
        length => Err(E::invalid_length(length, &"a shorter name")),
    }
}
