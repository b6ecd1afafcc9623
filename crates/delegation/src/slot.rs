//! A slot: a word, and the description of the lock for which it stands.

use std::fmt;

use navlock_engine::{Mode, RequestId, ResourceName};

use crate::{
    Word,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    layout::TEXT,
};

/// The text of a slot, which is the name of the lock and then the name of the bucket, in atomics.
const TEXT_WORDS: usize = TEXT / 8;

/// A word with the description of its lock.
///
/// At any time, the other side may write anything into the slot, even nonsense. So all fields are
/// atomics, and every value that is read is checked. The fields beside the word are written while
/// the word is free: the owner writes the description before it asks for a grant, and the broker
/// writes the base before it grants. From the grant on, these fields belong to the word. The
/// accesses to the word order the accesses to these fields.
#[derive(Default)]
#[repr(C, align(256))]
pub struct Slot {
    /// Whether the lock is held, and by what right.
    word: Word,
    /// The token of a hold is this number plus the hold's count. The broker writes this field
    /// before the word. If the lock is shared, the owner also writes it, after a take. Then the
    /// token is the time of the take, so that tokens grow over all owners.
    base: AtomicU64,
    /// When the last hold began. The broker writes this at a grant, and the owner at a take. For a
    /// moment, the field may still have the time of the hold before.
    since: AtomicU64,
    /// This field and all below are the description, which the owner writes while the word is free.
    /// This field and the next one are the id of the request by which the slot was granted.
    serial: AtomicU64,
    index: AtomicU32,
    /// The agent's number.
    agent: AtomicU32,
    client_id: [AtomicU64; 2],
    /// The mode in the lowest byte, and above it the lengths of the bucket's name and of the lock's
    /// name, two bytes each.
    shape: AtomicU64,
    text: [AtomicU64; TEXT_WORDS],
}

// As `layout.rs` says.
#[cfg(not(shuttle))]
const _: () = {
    use std::mem::offset_of;

    use crate::layout::BLOCK;

    assert!(size_of::<Slot>() == BLOCK && align_of::<Slot>() == BLOCK);
    assert!(offset_of!(Slot, word) == 0);
    assert!(offset_of!(Slot, base) == 8);
    assert!(offset_of!(Slot, since) == 16);
    assert!(offset_of!(Slot, serial) == 24);
    assert!(offset_of!(Slot, index) == 32);
    assert!(offset_of!(Slot, agent) == 36);
    assert!(offset_of!(Slot, client_id) == 40);
    assert!(offset_of!(Slot, shape) == 56);
    assert!(offset_of!(Slot, text) == 64 && 64 + TEXT == BLOCK);
};

/// Which lock a slot is for, and of which agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name of the bucket.
    pub bucket: String,
    /// The name of the lock.
    pub name: ResourceName,
    /// The mode in which it is held.
    pub mode: Mode,
    /// The number of the agent on the owner's connection.
    pub agent: u32,
    /// The client id of that agent.
    pub client_id: [u8; 16],
    /// The request by which the slot was granted: the id of the delegation.
    pub request: RequestId,
}

impl Slot {
    /// The word.
    #[inline]
    pub fn word(&self) -> &Word {
        &self.word
    }

    /// Whether names of this length have room in a slot.
    pub fn fits(bucket: &str, name: &ResourceName) -> bool {
        bucket.len() + name.as_bytes().len() <= TEXT
    }

    /// Writes the owner's part while the word is free. If the names do not [fit](Self::fits), this
    /// changes nothing and returns false.
    #[must_use]
    pub fn describe(
        &self,
        bucket: &str,
        name: &ResourceName,
        mode: Mode,
        agent: u32,
        client_id: [u8; 16],
        request: RequestId,
    ) -> bool {
        let Ok(index) = u32::try_from(request.index()) else { return false };
        if !Self::fits(bucket, name) {
            return false;
        }
        let mut text = [0; TEXT];
        let (head, rest) = text.split_at_mut(name.as_bytes().len());
        head.copy_from_slice(name.as_bytes());
        rest[..bucket.len()].copy_from_slice(bucket.as_bytes());
        for (field, bytes) in self.text.iter().zip(text.chunks_exact(8)) {
            field.store(word_of(bytes), Relaxed);
        }
        let lengths = [bucket.len(), name.as_bytes().len()].map(|length| length as u64);
        self.shape.store(number(mode) | lengths[0] << 8 | lengths[1] << 24, Relaxed);
        for (field, bytes) in self.client_id.iter().zip(client_id.chunks_exact(8)) {
            field.store(word_of(bytes), Relaxed);
        }
        self.agent.store(agent, Relaxed);
        self.index.store(index, Relaxed);
        self.serial.store(request.serial(), Relaxed);
        true
    }

    /// Takes the description away, because the owner does not want the lock any more. If the lock is granted all the
    /// same, a broker that did not grant it takes it for nobody's. This is for the owner, whatever the word is.
    pub fn renounce(&self) {
        self.shape.store(u64::MAX, Relaxed);
    }

    /// Whether the slot is for this name in this mode and of this agent. This is for the owner.
    ///
    /// Only a grant can give the slot to another lock, and it can do so right after this call. So
    /// the answer holds for a hold whose [taking](Word::take_seen) began before this call.
    #[inline]
    pub fn is_of(&self, agent: u32, name: &ResourceName, mode: Mode) -> bool {
        let name = name.as_bytes();
        let shape = self.shape.load(Relaxed);
        let is_such = shape & 0xFF == number(mode) && shape >> 24 == name.len() as u64;
        if !is_such || self.agent.load(Relaxed) != agent {
            return false;
        }
        let mut fields = self.text.iter().map(|field| field.load(Relaxed));
        let mut whole = name.chunks_exact(8);
        for bytes in &mut whole {
            if fields.next() != bytes.try_into().ok().map(u64::from_le_bytes) {
                return false;
            }
        }
        let rest = whole.remainder();
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let bits = 8 * rest.len();
        bits == 0 || fields.next().is_some_and(|field| field & ((1 << bits) - 1) == last)
    }

    /// The description that the owner has written, or `None` if it makes no sense.
    pub fn description(&self) -> Option<Description> {
        let shape = self.shape.load(Relaxed);
        let [mode, bucket_0, bucket_1, name_0, name_1, 0, 0, 0] = shape.to_le_bytes() else {
            return None;
        };
        let mode = match mode {
            0 => Mode::Exclusive,
            1 => Mode::Shared,
            _ => return None,
        };
        let bucket = usize::from(u16::from_le_bytes([bucket_0, bucket_1]));
        let name = usize::from(u16::from_le_bytes([name_0, name_1]));
        // The text is copied first, so that it cannot change after the check.
        let text: Vec<u8> = bytes_of(&self.text).collect();
        let bucket = std::str::from_utf8(text.get(name..name + bucket)?).ok()?.to_owned();
        let name = ResourceName::from_wtf8(text.get(..name)?).ok()?;
        let mut client_id = [0; 16];
        client_id.iter_mut().zip(bytes_of(&self.client_id)).for_each(|(to, from)| *to = from);
        let agent = self.agent.load(Relaxed);
        let request = RequestId::from_parts(self.index.load(Relaxed), self.serial.load(Relaxed));
        Some(Description { bucket, name, mode, agent, client_id, request })
    }

    /// Writes the broker's part before a grant. The token of the hold with count `n` will be
    /// `base + n`.
    pub fn set_base(&self, base: u64) {
        self.base.store(base, Relaxed);
    }

    /// Replaces the base `from`, which was there before a take, by `to`. The owner of a shared lock
    /// calls this after the take. If another grant has set the base since, this changes nothing.
    #[inline]
    pub fn rebase(&self, from: u64, to: u64) {
        let _ = self.base.compare_exchange(from, to, Relaxed, Relaxed);
    }

    /// The token of the hold with this count.
    #[inline]
    pub fn token(&self, count: u64) -> u64 {
        self.base.load(Relaxed).wrapping_add(count)
    }

    /// Records when the hold began, on a clock that all processes share.
    #[inline]
    pub fn set_since(&self, moment: u64) {
        self.since.store(moment, Relaxed);
    }

    /// When the last hold began, according to the side that began it.
    pub fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("word", &self.word)
            .field("description", &self.description())
            .finish_non_exhaustive()
    }
}

/// The number that stands for a mode.
fn number(mode: Mode) -> u64 {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn bytes_of(fields: &[AtomicU64]) -> impl Iterator<Item = u8> + '_ {
    fields.iter().flat_map(|field| field.load(Relaxed).to_le_bytes())
}
