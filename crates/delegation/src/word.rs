//! The word: the state of one lock of one client, in one atomic number.

use std::fmt;

use crate::atomic::{AtomicU64, Ordering};

/// The broker has granted this lock to the client. Only a grant sets this flag.
const OWNED: u64 = 1 << 0;
/// Somebody holds the lock. A grant and a take set this flag, each with a count that the word has
/// never had before.
const HELD: u64 = 1 << 1;
/// The owner may not take the lock any more. Either side sets this flag; only a grant, a release or
/// the owner's [clear](Word::clear) removes it.
const RECALLED: u64 = 1 << 2;
/// The lock was stolen while it was held. This flag has a meaning only together with [`HELD`].
const STOLEN: u64 = 1 << 3;
/// The broker has given up the client while the lock was held. This flag has a meaning only
/// together with [`HELD`].
const REVOKED: u64 = 1 << 4;

const FLAGS: u64 = OWNED | HELD | RECALLED | STOLEN | REVOKED;
/// Added to a word, this raises the count above the flags by one hold.
const ONE: u64 = FLAGS + 1;

/// The state of one lock of one client, in memory that the client (the *owner*) shares with the
/// broker. The crate's page lists the states, and which side changes them.
///
/// Each method changes the word in one atomic step or not at all, so either side may die between any
/// two steps. The broker's methods are wait-free: nothing that an owner does, however fast or
/// hostile, makes the broker try again.
#[derive(Default)]
#[repr(transparent)]
pub struct Word(
    /// The flags, and above them the count of holds. The count never goes back for as long as the
    /// word exists, whatever lock it stands for, so no hold is mistaken for another one. (The count
    /// would start anew after 2^59 holds, which take centuries.)
    AtomicU64,
);

/// What [`Word::release`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the broker may have to be told"]
pub enum Released {
    /// The lock is released, and the client still owns the name. Nobody has to be told.
    Kept,
    /// The lock is released, and the broker has the name back. The broker must be told.
    Tell,
    /// The hold had ended before: it was stolen, revoked or released. Nothing was changed.
    Gone,
}

/// What [`Word::give_back`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the broker may have to be told"]
pub enum GivenBack {
    /// The client did not have the lock, or has lost it.
    Nothing,
    /// The client owned the name, and nobody held the lock. Now the broker has the name, and must
    /// be told.
    Freed,
    /// The lock is held. Its release will return [`Released::Tell`].
    Recalled,
}

/// Whether the client held the lock when the broker took it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is held must not be granted to others, unless it is stolen or revoked"]
pub enum Recalled {
    /// Nobody held the lock, and nobody can take it any more.
    Free,
    /// The lock was held at that moment.
    Held,
}

/// A word as it stood at one moment.
///
/// Exactly one of [`is_free`](Self::is_free), [`is_idle`](Self::is_idle),
/// [`is_held`](Self::is_held) and [`is_lost`](Self::is_lost) is true, whatever the other side has
/// written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look(u64);

/// The changes that the owner makes.
impl Word {
    /// Takes the lock if the client owns it and nobody holds it. Returns the count of this hold.
    #[inline]
    pub fn take(&self) -> Option<u64> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            // The flags must be exactly this one: a lock that was recalled must not be taken.
            if now & FLAGS != OWNED {
                return None;
            }
            let taken = now.wrapping_add(ONE) | HELD;
            // This fails, and the loop goes round again, only if another thread of this client has
            // taken and released the lock meanwhile.
            match self.0.compare_exchange(now, taken, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Look(taken).count()),
                Err(found) => now = found,
            }
        }
    }

    /// Takes the lock if the word is still as it was seen. This is for an owner that first reads,
    /// beside the word, for which lock the word stands. If this succeeds, the word still stood for
    /// that lock: an idle word that was granted anew has another count.
    #[inline]
    pub fn take_seen(&self, seen: Look) -> Option<u64> {
        if !seen.is_idle() {
            return None;
        }
        let taken = seen.0.wrapping_add(ONE) | HELD;
        let done = self.0.compare_exchange(seen.0, taken, Ordering::AcqRel, Ordering::Relaxed);
        done.is_ok().then(|| Look(taken).count())
    }

    /// Releases the hold with this count.
    #[inline]
    pub fn release(&self, count: u64) -> Released {
        let free = count.wrapping_mul(ONE);
        let (idle, held) = (free | OWNED, free | OWNED | HELD);
        let exchange =
            |from, to| self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        match exchange(held, idle) {
            Ok(_) => Released::Kept,
            // This exchange fails if the lock is stolen or revoked at this moment.
            Err(found) if found == held | RECALLED => match exchange(found, free) {
                Ok(_) => Released::Tell,
                Err(_) => Released::Gone,
            },
            Err(_) => Released::Gone,
        }
    }

    /// Gives the lock back. From then on, nobody takes the lock. This is for an owner that is about
    /// to ask the broker for the name, because a take must not overtake that request.
    pub fn give_back(&self) -> GivenBack {
        let before = Look(self.0.fetch_or(RECALLED, Ordering::AcqRel));
        if before.is_idle() {
            GivenBack::Freed
        } else if before.is_held() {
            GivenBack::Recalled
        } else {
            GivenBack::Nothing
        }
    }

    /// Whether the hold with this count goes on. It costs one load.
    #[inline]
    pub fn holds(&self, count: u64) -> bool {
        let now = self.look();
        now.is_held() && now.0 & !FLAGS == count.wrapping_mul(ONE)
    }

    /// Makes the word free for another request, whatever the word was. The count stays. A grant
    /// that was on its way may still arrive afterwards.
    pub fn clear(&self) {
        self.0.fetch_and(!FLAGS, Ordering::AcqRel);
    }
}

/// The changes that the broker makes.
impl Word {
    /// Grants the lock, which is held from then on, and returns the count of this hold. If the word
    /// is not free or is just being changed, this changes nothing and returns `None`. Then the lock
    /// must be granted in another way.
    ///
    /// `recalled`: the client gets only this one hold, and tells the broker of the release.
    pub fn grant(&self, recalled: bool) -> Option<u64> {
        let now = self.look();
        if !now.is_free() {
            return None;
        }
        let flags = OWNED | HELD | if recalled { RECALLED } else { 0 };
        let granted = (now.0 & !FLAGS).wrapping_add(ONE) | flags;
        let done = self.0.compare_exchange(now.0, granted, Ordering::AcqRel, Ordering::Relaxed);
        done.is_ok().then(|| Look(granted).count())
    }

    /// Takes the lock back. If the owner holds it, this hold goes on, and is the owner's last.
    pub fn recall(&self) -> Recalled {
        self.take_back(RECALLED)
    }

    /// Takes the lock back for a request that steals it. If the owner holds the lock, the owner
    /// loses it.
    pub fn steal(&self) -> Recalled {
        self.take_back(RECALLED | STOLEN)
    }

    /// Takes the lock back from a client that the broker gives up. If the client holds the lock,
    /// the client loses it.
    pub fn revoke(&self) -> Recalled {
        self.take_back(RECALLED | REVOKED)
    }

    fn take_back(&self, flags: u64) -> Recalled {
        let before = Look(self.0.fetch_or(flags, Ordering::AcqRel));
        if before.is_held() { Recalled::Held } else { Recalled::Free }
    }
}

impl Word {
    /// Reads the word.
    #[inline]
    pub fn look(&self) -> Look {
        Look(self.0.load(Ordering::Acquire))
    }
}

impl Look {
    /// A word with these bits: for tests, and for messages about words.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// All bits of the word.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// How many holds there have been, including the current one. For the current hold, this is its
    /// number.
    pub const fn count(self) -> u64 {
        self.0 / ONE
    }

    /// The client owns the name, and nobody holds the lock.
    pub const fn is_idle(self) -> bool {
        self.0 & FLAGS == OWNED
    }

    /// The client holds the lock.
    pub const fn is_held(self) -> bool {
        self.0 & (FLAGS & !RECALLED) == OWNED | HELD
    }

    /// The client held the lock and has lost it. The word is free only once the owner has seen the
    /// loss.
    pub const fn is_lost(self) -> bool {
        self.0 & (OWNED | HELD) == OWNED | HELD && !self.is_held()
    }

    /// The client does not have the lock, so the lock can be granted. This is also true of every
    /// word that makes no sense.
    pub const fn is_free(self) -> bool {
        !self.is_idle() && self.0 & (OWNED | HELD) != OWNED | HELD
    }

    /// The owner may not take the lock any more.
    pub const fn is_recalled(self) -> bool {
        self.0 & RECALLED != 0
    }

    /// The lock is lost because it was stolen.
    pub const fn is_stolen(self) -> bool {
        self.is_lost() && self.0 & STOLEN != 0
    }

    /// The lock is lost because the broker has given the client up. If the lock was stolen before,
    /// [`is_stolen`](Self::is_stolen) is true as well.
    pub const fn is_revoked(self) -> bool {
        self.is_lost() && self.0 & REVOKED != 0
    }
}

impl From<Look> for Word {
    fn from(look: Look) -> Self {
        Self(AtomicU64::new(look.0))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look().fmt(f)
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["owned", "held", "recalled", "stolen", "revoked"];
        let is_set = |nth: &usize| self.0 & (1 << nth) != 0;
        let set: Vec<_> = (0..names.len()).filter(is_set).map(|nth| names[nth]).collect();
        write!(f, "{} [{}]", self.count(), set.join(" "))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Applies the operation to a word with each combination of flags. Returns the word before, the
    /// result, and the word after.
    fn each<T>(operation: impl Fn(&Word) -> T) -> Vec<(Look, T, Look)> {
        let bits = (0..=FLAGS).map(|flags| 7 * ONE + flags);
        let words = bits.map(|bits| Word::from(Look(bits)));
        words.map(|word| (word.look(), operation(&word), word.look())).collect()
    }

    #[test]
    fn every_word_is_one_of_four() {
        for (look, (), _) in each(|_| ()) {
            let is = [look.is_free(), look.is_idle(), look.is_held(), look.is_lost()];
            assert_eq!(is.into_iter().filter(|&is| is).count(), 1, "{look:?}");
            assert_eq!(look.is_lost(), look.is_stolen() || look.is_revoked(), "{look:?}");
        }
    }

    #[test]
    fn only_what_is_idle_is_taken_and_only_what_is_free_is_granted() {
        for (before, taken, after) in each(Word::take) {
            assert_eq!(taken, before.is_idle().then_some(8), "{before:?}");
            assert_eq!(after.is_held() && after != before, taken.is_some(), "{before:?}");
        }
        for recalled in [false, true] {
            for (before, granted, after) in each(|word| word.grant(recalled)) {
                assert_eq!(granted, before.is_free().then_some(8), "{before:?}");
                let new = Look(8 * ONE + OWNED + HELD + if recalled { RECALLED } else { 0 });
                assert_eq!(after, if granted.is_some() { new } else { before }, "{before:?}");
            }
        }
    }

    #[test]
    fn a_release_ends_this_hold_or_changes_nothing() {
        for count in [6, 7, 8, 1 << 63] {
            for (before, released, after) in each(|word| word.release(count)) {
                let expected = match (before.is_held() && count == 7, before.is_recalled()) {
                    (true, false) => (Released::Kept, Look(7 * ONE + OWNED)),
                    (true, true) => (Released::Tell, Look(7 * ONE)),
                    (false, _) => (Released::Gone, before),
                };
                assert_eq!((released, after), expected, "{before:?}");
            }
        }
        for (before, holds, _) in each(|word| (word.holds(7), word.holds(8))) {
            assert_eq!(holds, (before.is_held(), false), "{before:?}");
        }
    }

    #[test]
    fn a_name_that_is_taken_back_is_not_taken_again() {
        let by_broker = [(Word::recall as fn(&Word) -> Recalled, false), (Word::steal, true)];
        for (take_back, loses) in by_broker.into_iter().chain([(Word::revoke as _, true)]) {
            for (before, answer, after) in each(take_back) {
                let was_held = before.is_held();
                assert_eq!(answer == Recalled::Held, was_held, "{before:?}");
                assert!(!after.is_idle() && after.is_recalled(), "{before:?}");
                assert_eq!(after.is_held(), was_held && !loses, "{before:?}");
                assert_eq!(after.is_free(), before.is_free() || before.is_idle(), "{before:?}");
            }
        }
        for (before, given_back, after) in each(Word::give_back) {
            let expected = match (before.is_idle(), before.is_held()) {
                (true, _) => GivenBack::Freed,
                (_, true) => GivenBack::Recalled,
                _ => GivenBack::Nothing,
            };
            assert_eq!(given_back, expected, "{before:?}");
            assert!(!after.is_idle() && after.is_held() == before.is_held(), "{before:?}");
        }
    }

    #[test]
    fn a_count_that_is_at_its_end_begins_anew() {
        let word = Word::from(Look(!FLAGS));
        assert_eq!(word.grant(false), Some(0));
        assert_eq!(word.release(0), Released::Kept);
        assert_eq!(word.take(), Some(1));
    }
}
