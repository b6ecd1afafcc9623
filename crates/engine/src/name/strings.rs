//! Names from the strings of Rust and of the operating system, and compared with them.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    str::FromStr,
    sync::Arc,
};

use super::{InvalidName, ReservedName, ResourceName};

impl TryFrom<&str> for ResourceName {
    type Error = ReservedName;

    #[inline]
    fn try_from(name: &str) -> Result<Self, ReservedName> {
        Self::from_valid(name.as_bytes())
    }
}

/// The other ways in which Rust holds a string.
macro_rules! try_from_strings {
    ($($string:ty),+) => {$(
        impl TryFrom<$string> for ResourceName {
            type Error = ReservedName;

            #[inline]
            fn try_from(name: $string) -> Result<Self, ReservedName> {
                let name: &str = &name;
                Self::try_from(name)
            }
        }
    )+};
}

try_from_strings!(String, &String, &&str, Cow<'_, str>, Box<str>, Arc<str>, &Arc<str>);

/// An argument, a variable or a path, as the operating system has it. It must be text: in another
/// language or on another system, other bytes could not be the same name.
///
/// ```
/// # use {navlock_engine::ResourceName, std::ffi::OsStr};
/// let path = OsStr::new("/var/lib/app");
/// assert_eq!(ResourceName::try_from(path)?, "/var/lib/app");
/// # Ok::<(), navlock_engine::InvalidName>(())
/// ```
impl TryFrom<&OsStr> for ResourceName {
    type Error = InvalidName;

    fn try_from(name: &OsStr) -> Result<Self, InvalidName> {
        let utf8 = std::str::from_utf8(name.as_encoded_bytes());
        let name = utf8.map_err(|stop| InvalidName::NotUtf8 { valid_up_to: stop.valid_up_to() })?;
        Ok(Self::try_from(name)?)
    }
}

impl TryFrom<&OsString> for ResourceName {
    type Error = InvalidName;

    fn try_from(name: &OsString) -> Result<Self, InvalidName> {
        Self::try_from(name.as_os_str())
    }
}

impl TryFrom<OsString> for ResourceName {
    type Error = InvalidName;

    fn try_from(name: OsString) -> Result<Self, InvalidName> {
        Self::try_from(name.as_os_str())
    }
}

impl FromStr for ResourceName {
    type Err = ReservedName;

    fn from_str(name: &str) -> Result<Self, ReservedName> {
        Self::try_from(name)
    }
}

impl From<&Self> for ResourceName {
    #[inline]
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

/// Names that are compared with strings, in either order. A name with a lone surrogate equals no
/// string.
macro_rules! equal_to_strings {
    ($($string:ty),+) => {$(
        impl PartialEq<$string> for ResourceName {
            #[inline]
            fn eq(&self, other: &$string) -> bool {
                self.as_bytes() == other.as_bytes()
            }
        }

        impl PartialEq<ResourceName> for $string {
            #[inline]
            fn eq(&self, other: &ResourceName) -> bool {
                other == self
            }
        }
    )+};
}

equal_to_strings!(str, &str, String);
