//! Resource names: JavaScript strings, kept to the last code unit.

use std::{
    borrow::Cow,
    cmp::Ordering,
    convert::Infallible,
    error::Error,
    ffi::{OsStr, OsString},
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

/// How many bytes a name may have before it is allocated.
const INLINE: usize = 23;

/// The name of what is locked.
///
/// Any JavaScript string that does not start with `-`: empty, with NUL, with lone surrogates, of
/// any length. One that exists is legal. It is kept as WTF-8, which is UTF-8 for every string
/// that has no lone surrogate, and cloning it does not copy long names.
///
/// Names order as JavaScript's `sort()` orders strings, by UTF-16 code unit, so that programs in
/// both languages that take several locks take them in the same order.
///
/// Spec: <https://w3c.github.io/web-locks/#resource-names>
///
/// ```
/// use navlock_engine::ResourceName;
///
/// let name = ResourceName::try_from("db")?;
/// assert_eq!(name.as_str(), Some("db"));
/// assert!(ResourceName::try_from("-db").is_err());
/// # Ok::<(), navlock_engine::ReservedName>(())
/// ```
#[derive(Clone)]
pub struct ResourceName(Repr);

/// WTF-8: no surrogate pair is spelled as two surrogates.
///
/// A tag as wide as a word, and words beside it: an enum with a smaller tag is copied as the tag and
/// an odd rest, in pieces that a processor cannot forward from one copy to the next.
#[derive(Clone)]
#[repr(u64)]
enum Repr {
    Inline(Words),
    Shared(Arc<[u8]>),
}

/// A short name, zeros after it, and how many bytes it has in the byte after all that it could have.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Words([u8; INLINE + 1]);

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
        /// How many bytes before it are good.
        valid_up_to: usize,
    },
    /// What the operating system gave is not UTF-8 from this position on.
    NotUtf8 {
        /// How many bytes before it are good.
        valid_up_to: usize,
    },
}

impl ResourceName {
    /// The name with these UTF-16 code units; lone surrogates are kept.
    ///
    /// # Errors
    ///
    /// [`ReservedName`] if the first code unit is `-`.
    pub fn from_utf16(units: &[u16]) -> Result<Self, ReservedName> {
        // FAST: nearly all names are short and of ASCII, which WTF-8 spells as it is.
        if let Some(short) = short_ascii(units) {
            return Self::from_valid(&short[..units.len()]);
        }
        let mut wtf8 = Vec::with_capacity(units.len());
        for unit in char::decode_utf16(units.iter().copied()) {
            match unit {
                Ok(char) => wtf8.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(lone) => wtf8.extend_from_slice(&encode_surrogate(lone.unpaired_surrogate())),
            }
        }
        Self::from_valid(&wtf8)
    }

    /// The name with these WTF-8 bytes, as [`as_bytes`](Self::as_bytes) gave them.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if the bytes are not WTF-8 or the name is reserved.
    pub fn from_wtf8(bytes: &[u8]) -> Result<Self, InvalidName> {
        check_wtf8(bytes).map_err(|valid_up_to| InvalidName::NotWtf8 { valid_up_to })?;
        Ok(Self::from_valid(bytes)?)
    }

    /// The name as WTF-8.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(Words(bytes)) => &bytes[..usize::from(bytes[INLINE])],
            Repr::Shared(bytes) => bytes,
        }
    }

    /// The name as a string, unless it has lone surrogates.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// The name as a string, with U+FFFD for each lone surrogate.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        match self.as_str() {
            Some(str) => Cow::Borrowed(str),
            None => char::decode_utf16(self.utf16())
                .map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect(),
        }
    }

    /// The UTF-16 code units of the name.
    pub fn utf16(&self) -> impl Iterator<Item = u16> + '_ {
        let mut rest = self.as_bytes();
        let mut low = None;
        std::iter::from_fn(move || {
            if let Some(unit) = low.take() {
                return Some(unit);
            }
            let (code_point, after) = decode(rest)?;
            rest = after;
            let (first, second) = to_units(code_point);
            low = second;
            Some(first)
        })
    }

    #[inline]
    fn from_valid(wtf8: &[u8]) -> Result<Self, ReservedName> {
        if wtf8.first() == Some(&b'-') {
            return Err(ReservedName);
        }
        Ok(Self(match Words::new(wtf8) {
            Some(words) => Repr::Inline(words),
            None => Repr::Shared(wtf8.into()),
        }))
    }

    /// Whether it is kept without an allocation, as names of up to 23 bytes are.
    #[inline]
    pub fn is_short(&self) -> bool {
        matches!(self.0, Repr::Inline(_))
    }
}

impl Words {
    /// These bytes, if they are few.
    ///
    /// FAST: put together in registers, word by word. Copied byte by byte and read as words right
    ///       after, they would have to be in memory first.
    #[inline]
    fn new(bytes: &[u8]) -> Option<Self> {
        let len = u64::try_from(bytes.len()).ok().filter(|_| bytes.len() <= INLINE)?;
        let first = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        // Without those of its bytes that come before `at`. In two steps: none may be left.
        let rest = |at: usize| {
            let last = u64::from_le_bytes(*bytes.last_chunk()?);
            let shift = 4 * (8 + at - bytes.len());
            Some(last >> shift >> shift)
        };
        let words = match bytes.len() {
            16.. => [first(0)?, first(8)?, rest(16)?],
            8.. => [first(0)?, rest(8)?, 0],
            4.. => {
                let half = |four: &[u8; 4]| u64::from(u32::from_le_bytes(*four));
                let (low, high) = (half(bytes.first_chunk()?), half(bytes.last_chunk()?));
                [low | high << (8 * (len - 4)), 0, 0]
            }
            1.. => {
                let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
                [byte(0) | byte(bytes.len() / 2) | byte(bytes.len() - 1), 0, 0]
            }
            0 => [0; 3],
        };
        let mut all = [0; INLINE + 1];
        let words = [words[0], words[1], words[2] | len << 56];
        for (place, word) in all.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Some(Self(all))
    }

    /// What tells it from all other short names.
    #[inline]
    fn words(&self) -> [u64; 3] {
        let word = |at| {
            let bytes = self.0[at..at + 8].first_chunk();
            u64::from_le_bytes(*bytes.expect("there are eight bytes more"))
        };
        [word(0), word(8), word(16)]
    }
}

/// These code units as bytes, if they are few and of ASCII.
fn short_ascii(units: &[u16]) -> Option<[u8; INLINE]> {
    let mut bytes = [0; INLINE];
    for (byte, &unit) in bytes.get_mut(..units.len())?.iter_mut().zip(units) {
        *byte = u8::try_from(unit).ok().filter(u8::is_ascii)?;
    }
    Some(bytes)
}

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

/// An argument, a variable or a path, as the operating system has it. It must be text: other bytes
/// would be nobody else's name, in no language and on no other system.
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

/// Names that are compared with strings, in either order. One with a lone surrogate equals none.
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

impl From<&Self> for ResourceName {
    #[inline]
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl PartialEq for ResourceName {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Inline(one), Repr::Inline(other)) => {
                // FAST: in the pieces in which a name is stored, see `new`. What compares arrays
                //       loads them in larger ones.
                let (one, other) = (one.words(), other.words());
                (one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) == 0
            }
            // How many bytes a name has decides which of the two it is.
            (Repr::Shared(one), Repr::Shared(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for ResourceName {}

impl Hash for ResourceName {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Inline(words) => {
                let [first, second, third] = words.words();
                state.write_u128(u128::from(second) << 64 | u128::from(first));
                state.write_u64(third);
            }
            Repr::Shared(bytes) => state.write(bytes),
        }
    }
}

impl Ord for ResourceName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.utf16().cmp(other.utf16())
    }
}

impl PartialOrd for ResourceName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_string_lossy())
    }
}

/// In quotes, control characters escaped and lone surrogates as `\u{d800}`.
impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for unit in char::decode_utf16(self.utf16()) {
            match unit {
                Ok(char) => write!(f, "{}", char.escape_debug())?,
                Err(lone) => write!(f, "\\u{{{:x}}}", lone.unpaired_surrogate())?,
            }
        }
        f.write_str("\"")
    }
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

/// The three bytes of a surrogate in WTF-8.
fn encode_surrogate(unit: u16) -> [u8; 3] {
    let [high, low] = unit.to_be_bytes();
    [0xE0 | high >> 4, 0x80 | (high & 0x0F) << 2 | low >> 6, 0x80 | low & 0x3F]
}

/// Takes the first code point off WTF-8 bytes; `None` at their end.
fn decode(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (&lead, bytes) = bytes.split_first()?;
    let (length, lead) = match lead {
        0x00..=0x7F => (0, lead),
        0x80..=0xDF => (1, lead & 0x1F),
        0xE0..=0xEF => (2, lead & 0x0F),
        0xF0..=0xFF => (3, lead & 0x07),
    };
    let (trail, rest) = bytes.split_at_checked(length)?;
    let code_point = trail
        .iter()
        .fold(u32::from(lead), |code_point, &byte| code_point << 6 | u32::from(byte & 0x3F));
    Some((code_point, rest))
}

/// The one or two UTF-16 code units of a code point.
#[expect(clippy::cast_possible_truncation, reason = "both arms are below 2^16 by their ranges")]
fn to_units(code_point: u32) -> (u16, Option<u16>) {
    match code_point.checked_sub(0x1_0000) {
        None => (code_point as u16, None),
        Some(offset) => {
            (0xD800 | (offset >> 10 & 0x3FF) as u16, Some(0xDC00 | (offset & 0x3FF) as u16))
        }
    }
}

/// `Err` with the number of good bytes if these are not WTF-8.
fn check_wtf8(bytes: &[u8]) -> Result<(), usize> {
    let mut at = 0;
    let mut after_high_surrogate = false;
    loop {
        // UTF-8 as far as it goes; where it stops, only a lone surrogate is allowed.
        let Err(stop) = std::str::from_utf8(&bytes[at..]) else {
            return Ok(());
        };
        if stop.valid_up_to() > 0 {
            after_high_surrogate = false;
        }
        at += stop.valid_up_to();
        match bytes[at..] {
            [0xED, second @ 0xA0..=0xBF, 0x80..=0xBF, ..] => {
                let low = second >= 0xB0;
                if low && after_high_surrogate {
                    // A pair spelled as two surrogates: there is one spelling for each string.
                    return Err(at);
                }
                after_high_surrogate = !low;
                at += 3;
            }
            _ => return Err(at),
        }
    }
}

#[cfg(test)]
mod tests;
