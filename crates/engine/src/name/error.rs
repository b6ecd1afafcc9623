//! Errors of what is no resource name.

use std::{convert::Infallible, error::Error, fmt};

/// A name that starts with `-`, which the specification reserves (`NotSupportedError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReservedName;

/// Bytes that are no resource name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidName {
    /// It starts with `-`, which the specification reserves.
    Reserved,
    /// The bytes are not WTF-8 from this position on.
    NotWtf8 {
        /// How many bytes before that position are good.
        valid_up_to: usize,
    },
    /// What the operating system gave is not UTF-8 from this position on.
    NotUtf8 {
        /// How many bytes before that position are good.
        valid_up_to: usize,
    },
}

impl ReservedName {
    /// What is wrong and what to do, for people.
    pub const MESSAGE: &str = "names that start with '-' are reserved; choose one that does not";
}

impl fmt::Display for ReservedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MESSAGE)
    }
}

impl Error for ReservedName {}

impl From<Infallible> for ReservedName {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved => ReservedName.fmt(f),
            Self::NotWtf8 { valid_up_to } => {
                write!(f, "the name is not WTF-8 from byte {valid_up_to} on")
            }
            Self::NotUtf8 { valid_up_to } => {
                write!(f, "the name is not UTF-8 from byte {valid_up_to} on; choose one that is")
            }
        }
    }
}

impl Error for InvalidName {}

impl From<ReservedName> for InvalidName {
    fn from(_: ReservedName) -> Self {
        Self::Reserved
    }
}
