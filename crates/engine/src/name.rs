//! Resource names: JavaScript strings, kept to the last code unit.

mod error;
#[cfg(feature = "serde")]
mod serde;
mod short;
mod strings;
mod wtf8;

use std::{
    borrow::Cow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

pub use self::error::{InvalidName, ReservedName};
use self::short::Short;

/// The name of what is locked.
///
/// Any JavaScript string that does not start with `-`: empty, with NUL, with lone surrogates, of
/// any length. A `ResourceName` that exists is legal. It is kept as WTF-8, which is UTF-8 for every
/// string that has no lone surrogate, and cloning it does not copy long names.
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
/// The tag is as wide as a word, and stands beside words. An enum with a smaller tag is copied as
/// the tag and an odd rest: in pieces that a processor cannot forward from one copy to the next.
#[derive(Clone)]
#[repr(u64)]
enum Repr {
    Inline(Short),
    Shared(Arc<[u8]>),
}

impl ResourceName {
    /// The name with these UTF-16 code units; lone surrogates are kept.
    ///
    /// ```
    /// use navlock_engine::ResourceName;
    ///
    /// // A string of a script that ends with half of a surrogate pair.
    /// let name = ResourceName::from_utf16(&[0x64, 0x62, 0xD83D])?;
    /// assert_eq!(name.as_str(), None);
    /// assert_eq!(name.to_string_lossy(), "db\u{FFFD}");
    /// assert!(name.utf16().eq([0x64, 0x62, 0xD83D]));
    /// # Ok::<(), navlock_engine::ReservedName>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReservedName`] if the first code unit is `-`.
    pub fn from_utf16(units: &[u16]) -> Result<Self, ReservedName> {
        // FAST: nearly all names are short and of ASCII, which WTF-8 spells as it is.
        if let Some(short) = short::ascii(units) {
            return Self::from_valid(&short[..units.len()]);
        }
        let mut bytes = Vec::with_capacity(units.len());
        for unit in char::decode_utf16(units.iter().copied()) {
            match unit {
                Ok(char) => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(lone) => bytes.extend_from_slice(&wtf8::surrogate(lone.unpaired_surrogate())),
            }
        }
        Self::from_valid(&bytes)
    }

    /// The name with these WTF-8 bytes, as [`as_bytes`](Self::as_bytes) gave them.
    ///
    /// ```
    /// use navlock_engine::{InvalidName, ResourceName};
    ///
    /// let name = ResourceName::try_from("db")?;
    /// assert_eq!(ResourceName::from_wtf8(name.as_bytes())?, name);
    /// let cut_off = ResourceName::from_wtf8(b"db\xF0\x9F");
    /// assert_eq!(cut_off, Err(InvalidName::NotWtf8 { valid_up_to: 2 }));
    /// # Ok::<(), InvalidName>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if the bytes are not WTF-8 or the name is reserved.
    pub fn from_wtf8(bytes: &[u8]) -> Result<Self, InvalidName> {
        wtf8::check(bytes).map_err(|valid_up_to| InvalidName::NotWtf8 { valid_up_to })?;
        Ok(Self::from_valid(bytes)?)
    }

    /// The name as WTF-8.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(short) => short.as_bytes(),
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
            let (code_point, after) = wtf8::decode(rest)?;
            rest = after;
            let (first, second) = wtf8::to_units(code_point);
            low = second;
            Some(first)
        })
    }

    #[inline]
    fn from_valid(wtf8: &[u8]) -> Result<Self, ReservedName> {
        if wtf8.first() == Some(&b'-') {
            return Err(ReservedName);
        }
        Ok(Self(match Short::new(wtf8) {
            Some(short) => Repr::Inline(short),
            None => Repr::Shared(wtf8.into()),
        }))
    }

    /// Whether the name is kept without an allocation, as names of up to 23 bytes are.
    #[inline]
    pub fn is_short(&self) -> bool {
        matches!(self.0, Repr::Inline(_))
    }
}

impl PartialEq for ResourceName {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Inline(one), Repr::Inline(other)) => {
                // FAST: compared in the pieces in which a name is stored; see `new`. A comparison
                //       of arrays would load larger pieces.
                let (one, other) = (one.words(), other.words());
                (one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) == 0
            }
            // The number of bytes of a name decides which of the two variants it has.
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
            Repr::Inline(short) => {
                let [first, second, third] = short.words();
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

#[cfg(test)]
mod tests;
