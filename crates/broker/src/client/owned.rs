//! Names that are ours until somebody else asks for them: taken and released by a change of one word of
//! memory that we share with the daemon, without a message. `navlock_delegation` says how.
//!
//! A lock that was taken so has a ticket of a lane of its own: the slot that the word stands in, and the
//! number of the hold. It is in no table. The request by which the slot was granted is in the table as
//! any other, until it is finished.
//!
//! # Order
//!
//! What the agents of a client ask for of one name is granted in the order of the calls: so nothing is
//! taken here past a request of any of them for the same name, that is on its way to the daemon or in its
//! queue. Readers pass each other, as nobody sees that, unless they are the same agent's.

mod ends;
mod hints;
mod maps;
mod names;
mod slots;

use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Waker,
};

use navlock_core::{
    ClientId, Lost, Mode, ResourceName,
    host::{RequestKind, Ticket},
};
use navlock_delegation::{Released, Slot, Unforked};
use navlock_engine::{AgentId, FencingToken, RequestId};

use self::{hints::Hints, maps::Maps, slots::Slots};

pub(super) use self::{
    maps::SlotIndex,
    slots::{Asked, Began, Hold, Note},
};
use crate::clock;

/// The lane of what was taken here.
pub(super) const LANE: u32 = 1;

/// For how many nanoseconds it is believed that there is a daemon which was there when it was looked.
///
/// The next one leaves a second to those whose files it has removed, before it grants what was theirs.
const LINK_LASTS: u64 = 500_000_000;

/// The names of one client.
///
/// # Invariants
///
/// - `slots` is locked last, after all of the connection's, and for moments. No waker is called
///   under it.
/// - Who changes what there is in `slots`, other than by a note, has the connection's table locked.
pub(super) struct Owned {
    unforked: Unforked,
    /// There is no daemon to say what is lost.
    is_alone: AtomicBool,
    /// The last moment at which it was looked and there was one.
    linked_at: AtomicU64,
    /// By which a moment becomes a fencing token: see [`navlock_wire::FromDaemon::Mapped`].
    epoch: AtomicU64,
    maps: Maps,
    hints: Hints,
    slots: Mutex<Slots>,
    /// How many notes there are.
    ///
    /// FAST: mostly none, and then whoever releases need not look for its own.
    noted: AtomicUsize,
}

/// A lock that was just taken, at a moment that is over.
pub(super) struct Take {
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    pub(super) moment: u64,
}

/// A hold that was just taken.
struct TakenHold<'a> {
    index: SlotIndex,
    slot: &'a Slot,
    /// The slot's, by which its tokens count. Read before: if the hold is lost again by now, the slot
    /// may be another's.
    base: u64,
    count: u64,
}

impl Owned {
    /// Nothing yet.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            unforked: Unforked::new()?,
            is_alone: AtomicBool::new(false),
            linked_at: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            maps: Maps::default(),
            hints: Hints::default(),
            slots: Mutex::default(),
            noted: AtomicUsize::new(0),
        })
    }

    /// Whether this is the process that has made it. One that was forked from it has no part in it, and
    /// must not lock anything: another thread may have had it locked at the time of the fork.
    #[inline]
    pub(super) fn is_ours(&self) -> bool {
        self.unforked.is_us()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Whole between any two statements: nothing in there panics.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn slot(&self, index: SlotIndex) -> Option<&Slot> {
        self.maps.slot(index)
    }

    #[inline]
    fn slot_of(&self, taken: RequestId) -> Option<&Slot> {
        self.slot(u32::try_from(taken.index()).ok()?)
    }

    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Acquire)
    }

    pub(super) fn set_alone(&self, is_alone: bool) {
        self.is_alone.store(is_alone, Ordering::Release);
    }

    /// Whether there was a daemon so shortly before this moment that none has given us up since. If not,
    /// it is to be looked: this process may have been stopped while its daemon ended, and who hears of
    /// that may not have come to it.
    #[inline]
    pub(super) fn was_linked(&self, moment: u64) -> bool {
        moment.saturating_sub(self.linked_at.load(Ordering::Relaxed)) <= LINK_LASTS
    }

    /// There was a daemon at this moment or later.
    pub(super) fn set_linked(&self, moment: u64) {
        self.linked_at.store(moment, Ordering::Relaxed);
    }

    /// Takes a lock, if its name is the agent's and nobody has it, and no request for it that this would
    /// overtake is waiting.
    #[inline]
    pub(super) fn take(
        &self,
        bucket: &str,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
    ) -> Option<Take> {
        let mode = match kind {
            RequestKind::Wait(mode) | RequestKind::IfAvailable(mode) => mode,
            RequestKind::Steal => return None,
        };
        // A moment that is over when it is taken: tokens of what others are granted later are larger.
        let moment = match mode {
            Mode::Exclusive => clock::recently(),
            Mode::Shared => clock::now(),
        };
        // FAST: mostly it is where it was found the last time, and nothing needs to be locked.
        let found = self.take_again(agent, name, mode);
        let found = found.or_else(|| self.find(bucket, agent, name, mode));
        let TakenHold { index, slot, base, count } = found?;
        let mut token = base.wrapping_add(count);
        if mode == Mode::Shared {
            // Others own the name as well, and their tokens grow beside ours.
            token = token.max(self.epoch.load(Ordering::Relaxed).wrapping_add(moment));
            slot.rebase(base, token.wrapping_sub(count));
        }
        slot.set_since(moment);
        let id = RequestId::from_parts(index, count);
        Some(Take { ticket: Ticket { lane: LANE, id }, token: FencingToken::new(token), moment })
    }

    /// Takes it where it was found the last time.
    #[inline]
    fn take_again(&self, agent: AgentId, name: &ResourceName, mode: Mode) -> Option<TakenHold<'_>> {
        let index = self.hints.get(agent, name)?;
        let slot = self.slot(index)?;
        // In this order. If it is still as it was seen when it is taken, it was so in between, and what
        // is asked of it is true: see `take_seen`.
        let seen = slot.word().look();
        let number = u32::try_from(agent.index()).ok()?;
        if !seen.is_idle() || !slot.is_of(number, name, mode) {
            return None;
        }
        let base = slot.token(0);
        Some(TakenHold { index, slot, base, count: slot.word().take_seen(seen)? })
    }

    /// Takes it wherever it can be taken.
    fn find(
        &self,
        bucket: &str,
        agent: AgentId,
        name: &ResourceName,
        mode: Mode,
    ) -> Option<TakenHold<'_>> {
        if !self.is_ours() {
            return None;
        }
        let slots = self.slots();
        let taken = slots.takeable(bucket, agent, name, mode).find_map(|index| {
            let slot = self.slot(index)?;
            let base = slot.token(0);
            Some(TakenHold { index, slot, base, count: slot.word().take()? })
        });
        // While it is locked: whoever begins to wait for the name from here on takes it away again.
        if let Some(TakenHold { index, .. }) = taken {
            self.hints.set(agent, name, index);
        }
        taken
    }

    /// Whether what was taken is held.
    #[inline]
    pub(super) fn holds(&self, taken: RequestId) -> bool {
        self.slot_of(taken).is_some_and(|slot| slot.word().holds(taken.serial()))
    }

    /// Releases what was taken. Unless the name stays ours, the rest is
    /// [`Table::finish_taken`](super::table::Table::finish_taken)'s.
    #[inline]
    pub(super) fn release(&self, taken: RequestId) -> Released {
        self.slot_of(taken).map_or(Released::Gone, |slot| slot.word().release(taken.serial()))
    }

    /// What was noted of what was taken, which is released. The caller drops it, as its wakers are
    /// foreign.
    #[inline]
    pub(super) fn forget(&self, taken: RequestId) -> Option<Note> {
        // Who has noted anything is this thread, or has handed the lock to it since.
        if self.noted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut slots = self.slots();
        let note = slots.notes.remove(&taken);
        self.count_notes(&slots);
        note
    }

    fn count_notes(&self, slots: &Slots) {
        self.noted.store(slots.notes.len(), Ordering::Relaxed);
    }

    /// Whether and how what was taken, and is not released, is lost.
    #[inline]
    pub(super) fn lost(&self, taken: RequestId) -> Option<Lost> {
        if self.holds(taken) { None } else { Some(self.how_lost(&self.slots(), taken)) }
    }

    fn how_lost(&self, slots: &Slots, taken: RequestId) -> Lost {
        let noted = slots.notes.get(&taken).and_then(|note| note.lost);
        let seen = || self.seen_lost(u32::try_from(taken.index()).ok()?, taken.serial());
        // Of what ends with its agent there is no other trace.
        noted.map(|(lost, _)| lost).or_else(seen).unwrap_or(Lost::Terminated)
    }

    /// How the hold of this number is lost, as the daemon has written it there; what it has to say may
    /// still be on its way.
    pub(super) fn seen_lost(&self, index: SlotIndex, count: u64) -> Option<Lost> {
        let look = self.slot(index)?.word().look();
        ends::lost_by(look).filter(|_| look.count() == count)
    }

    pub(super) fn stolen_by(&self, taken: RequestId) -> Option<ClientId> {
        self.slots().notes.get(&taken)?.lost?.1
    }

    /// Has the waker called when what was taken is lost. How it is, if it is already.
    pub(super) fn watch(&self, taken: RequestId, waker: &Waker) -> Option<Lost> {
        // Foreign, so before anything is locked.
        let mut waker = Some(waker.clone());
        let mut slots = self.slots();
        if !self.holds(taken) {
            return Some(self.how_lost(&slots, taken));
        }
        let watchers = &mut slots.notes.entry(taken).or_default().watchers;
        let is_known = |waker: &Waker| watchers.iter().any(|known| known.will_wake(waker));
        if !waker.as_ref().is_some_and(is_known) {
            watchers.extend(waker.take());
        }
        self.count_notes(&slots);
        drop(slots);
        // If it was known, here.
        drop(waker);
        None
    }
}

mod map;
mod requests;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
