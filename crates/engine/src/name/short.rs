//! Short names: those that are kept without an allocation.

/// How many bytes a short name has at most.
pub(super) const MAX: usize = 23;

/// A short name and zeros after it. The last byte, which is behind even the longest short name, is
/// the length.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(super) struct Short([u8; MAX + 1]);

impl Short {
    /// The short name of these bytes, if they are few enough.
    ///
    /// FAST: the bytes are put together in registers, word by word. If they were copied byte by
    ///       byte and read as words right after, they would have to be in memory first.
    #[inline]
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let len = u64::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX)?;
        let first = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        // The last word, without its bytes that come before `at`. Shifted in two steps, because one
        // shift by all 64 bits is not allowed.
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
        let mut all = [0; MAX + 1];
        let words = [words[0], words[1], words[2] | len << 56];
        for (place, word) in all.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Some(Self(all))
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0[..usize::from(self.0[MAX])]
    }

    /// The words that tell the name from all other short names.
    #[inline]
    pub(super) fn words(&self) -> [u64; 3] {
        let word = |at| {
            let bytes = self.0[at..at + 8].first_chunk();
            u64::from_le_bytes(*bytes.expect("there are eight bytes more"))
        };
        [word(0), word(8), word(16)]
    }
}

/// These code units as bytes, if they are few and of ASCII.
pub(super) fn ascii(units: &[u16]) -> Option<[u8; MAX]> {
    let mut bytes = [0; MAX];
    for (byte, &unit) in bytes.get_mut(..units.len())?.iter_mut().zip(units) {
        *byte = u8::try_from(unit).ok().filter(u8::is_ascii)?;
    }
    Some(bytes)
}
