//! Where everything stands in the file of a map.
//!
//! The file consists of blocks of [`BLOCK`] bytes. The first block is the header, and each of the others is
//! a slot: slot `n` begins at byte `256 * (n + 1)`. Both sides read and write the file in memory, so all
//! numbers have the byte order of the machine.
//!
//! The header (`header.rs`):
//!
//! | from byte | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `magic`: the format, and its version |
//! | 8 | 8 | `owner`: the owner's random number |
//! | 16 | 8 | `broker`: the broker's random number |
//! | 24 | 8 | `unmapped`: how many of the owner's locks are in no slot |
//! | 32 | 8 | `slots`: how many slots there are |
//! | 40 | 16 | whatever was in the file before |
//! | 56 | 200 | nothing |
//!
//! A slot (`slot.rs`):
//!
//! | from byte | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `word`: whether the lock is held, and by what right |
//! | 8 | 8 | `base` of the tokens |
//! | 16 | 8 | `since`: when the last hold began |
//! | 24 | 8 | `serial` of the request's id |
//! | 32 | 4 | `index` of the request's id |
//! | 36 | 4 | `agent`: the agent's number |
//! | 40 | 16 | `client_id` of the agent |
//! | 56 | 8 | `shape`: the mode, and the lengths of the names |
//! | 64 | [`TEXT`] | `text`: the name of the lock, and then the name of the bucket |
//!
//! The two files assert these numbers. A change of them is a new version of the format, and so of
//! [`MAGIC`].

#![cfg_attr(
    shuttle,
    allow(dead_code, reason = "the model of the interleavings has slots, but no file")
)]

/// Marks a file as a map of this format. The last byte is the version of the format.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"navlock\x01");

/// How many bytes the header has, and each slot.
pub(crate) const BLOCK: usize = 256;

/// How many bytes of the file may be there before the map is. They stay as they are.
pub(crate) const BEFORE: u64 = 56;

/// How many bytes of text fit in a slot.
pub(crate) const TEXT: usize = 192;

/// How many slots a map has at first.
pub(crate) const FEWEST: u32 = 63;

/// How many slots a map has at most.
pub(crate) const MOST: u32 = 1023;

/// How many bytes the file of a map has at least.
pub(crate) const SMALLEST: u64 = bytes(FEWEST);

/// The length of a file with this many slots.
pub(crate) const fn bytes(slots: u32) -> u64 {
    // The header takes the place of one slot.
    (slots as u64 + 1) * BLOCK as u64
}

/// How many slots a map of this many slots grows to.
pub(crate) const fn more(slots: u32) -> u32 {
    let doubled = slots * 2 + 1;
    if doubled < MOST { doubled } else { MOST }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_grows_by_doubling_its_file_until_it_has_all_slots() {
        let mut slots = FEWEST;
        for length in [1, 2, 4, 8, 16].map(|times| times * 64 * 256) {
            assert_eq!(bytes(slots), length);
            slots = more(slots);
        }
        assert_eq!((slots, more(slots)), (MOST, MOST));
    }
}
