//! Names that this client owns. The client takes and releases them without a message, by a change of one
//! word of memory that it shares with the daemon. `navlock_delegation` says how.
//!
//! The tickets of locks that were taken in this way have one lane of their own. Such a ticket is made of
//! the slot of the word and the number of the hold. The table of requests does not have these locks. The
//! request for which the slot was granted is in the table like any other request, until it is finished.
//!
//! # Order
//!
//! Requests of this client's agents for one name are granted in the order of the calls. So no agent takes
//! a name here while a request for this name, of any agent of the client, is on its way to the daemon or
//! in its queue. Shared requests of different agents may overtake each other, because nobody can see
//! that. Requests of one agent for different names are in order too: see `first_answers`.

mod ends;
mod first_answers;
mod hints;
mod holds;
mod maps;
mod names;
mod open_slots;
mod slots;

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Waker,
};

use navlock_core::{
    ClientId, Lost, Mode, ResourceName,
    host::{RequestKind, Ticket},
};
use navlock_delegation::{OwnerMap, Released, Slot, Unforked};
use navlock_engine::{AgentId, FencingToken, RequestId};

use self::{
    first_answers::FirstAnswers, hints::Hints, maps::Maps, open_slots::OpenSlots, slots::Slots,
};

pub(super) use self::{
    maps::{SlotIndex, number},
    slots::{Asked, Began, Hold, Note},
};
use crate::clock;

/// The lane of locks that were taken here.
pub(super) const LANE: u32 = 1;

/// For how many nanoseconds after a look a client believes that its daemon is still there.
///
/// The next daemon waits for a second after it has removed a client's file, before it grants the
/// client's locks to others.
const LINK_LASTS: u64 = 500_000_000;

/// The names of one client.
///
/// # Invariants
///
/// - `slots` is locked last, after all mutexes of the connection, and only for moments. No waker is
///   called while it is locked.
/// - To change anything in `slots` but the notes, and how many there are, a thread must have the
///   connection's table locked.
pub(super) struct Owned {
    unforked: Unforked,
    /// Whether there is no daemon. In that case nobody tells this client which locks are lost.
    is_alone: AtomicBool,
    /// The last moment at which a look has found the daemon there.
    linked_at: AtomicU64,
    /// A moment plus this number is a fencing token: see [`navlock_wire::FromDaemon::Mapped`].
    epoch: AtomicU64,
    /// FAST: the maps of `slots`, so that most locks are taken and released without locking anything.
    maps: Arc<Maps>,
    hints: Hints,
    first_answers: FirstAnswers,
    slots: Mutex<Slots>,
    /// How many notes there are.
    ///
    /// FAST: mostly there are no notes, and then a release need not look for its note.
    noted: AtomicUsize,
}

/// A lock that was just taken, and a moment shortly before that.
pub(super) struct Take {
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    pub(super) moment: u64,
}

/// A hold that was just taken.
struct TakenHold<'a> {
    index: SlotIndex,
    slot: &'a Slot,
    /// The base of the slot, from which its tokens count. It is read before the take: after the
    /// take the hold can be lost at once, and the slot may then be for another request.
    base: u64,
    count: u64,
}

impl Owned {
    /// Makes the record of a client that owns no names yet.
    ///
    /// # Errors
    ///
    /// If no memory can be had.
    pub(super) fn new() -> io::Result<Self> {
        let slots = Slots::default();
        Ok(Self {
            unforked: Unforked::new()?,
            is_alone: AtomicBool::new(false),
            linked_at: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            maps: Arc::clone(&slots.maps),
            hints: Hints::default(),
            first_answers: FirstAnswers::default(),
            slots: Mutex::new(slots),
            noted: AtomicUsize::new(0),
        })
    }

    /// Whether this process itself has made this value: false in a fork of the process that has made it. A
    /// fork owns nothing. It must not lock anything either, because another thread may have had a mutex
    /// locked at the time of the fork.
    #[inline]
    pub(super) fn is_ours(&self) -> bool {
        self.unforked.is_us()
    }

    /// The slots, locked.
    pub(super) fn slots(&self) -> OpenSlots<'_> {
        // A poisoned mutex may be used: nothing panics while it is locked, so the slots are never
        // half changed.
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        OpenSlots { slots, noted: &self.noted }
    }

    /// To be called when a request is about to be made. Returns its slot, and what has to be sent
    /// before it.
    pub(super) fn begin(&self, asked: &Asked<'_>) -> Began {
        let mut slots = self.slots();
        // Without the hint, the agent's next take has to look here, and finds that a request of the agent
        // waits for the name. Other agents could overtake this request by a take in their own slots, so
        // these slots are given back below.
        self.hints.clear(asked.agent, asked.name);
        slots.begin(asked)
    }

    /// The serial number of the request for which the slot was granted, by which the daemon knows
    /// the lock.
    pub(super) fn serial(&self, taken: RequestId) -> Option<u64> {
        let index = u32::try_from(taken.index()).ok()?;
        self.slots().in_use.get(&index).map(|taken| taken.id.serial())
    }

    /// The map of the file that stands now.
    pub(super) fn map(&self) -> Option<&OwnerMap> {
        let generation = self.slots().generation?;
        self.maps.get(generation)
    }

    /// Makes more slots. If there is no room on the disk, their number stays as it is.
    pub(super) fn grow(&self) {
        let generation = self.slots().generation;
        let Some(map) = generation.and_then(|generation| self.maps.get(generation)) else { return };
        let Ok(many) = map.grow() else { return };
        let mut slots = self.slots();
        // Another map may have taken its place meanwhile.
        if slots.generation == generation {
            slots.grown(many);
        }
    }

    pub(super) fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
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

    /// Whether a look has found a daemon at most `LINK_LASTS` before this moment. If so, no other daemon
    /// can have given us up since that look. If not, the caller has to check whether we were given up:
    /// perhaps this process was stopped while its daemon ended, and none of its threads has noticed
    /// that yet.
    #[inline]
    pub(super) fn was_linked(&self, moment: u64) -> bool {
        moment.saturating_sub(self.linked_at.load(Ordering::Relaxed)) <= LINK_LASTS
    }

    /// Notes that there was a daemon at this moment or later.
    pub(super) fn set_linked(&self, moment: u64) {
        self.linked_at.store(moment, Ordering::Relaxed);
    }

    /// Notes that a request goes to the daemon.
    pub(super) fn note_asked(&self, agent: AgentId, serial: u64) {
        self.first_answers.asked(agent, serial);
    }

    /// Notes that the daemon has answered a request.
    pub(super) fn note_answered(&self, agent: AgentId, serial: u64) {
        self.first_answers.answered(agent, serial);
    }

    /// Notes that the program has taken the answer to a request, or will not take it.
    pub(super) fn note_taken(&self, agent: AgentId) {
        self.first_answers.taken(agent);
    }

    /// Takes a lock, if the agent owns its name, nobody holds the lock, and the take would overtake no
    /// waiting request.
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
        if self.first_answers.are_awaited(agent) && !self.is_alone() {
            return None;
        }
        // The moment is read before the take, so that the tokens of all later grants are larger.
        let moment = match mode {
            Mode::Exclusive => clock::recently(),
            Mode::Shared => clock::now(),
        };
        // FAST: mostly the name is in the slot in which it was found the last time. Then nothing
        // needs to be locked.
        let found = self.take_again(agent, name, mode);
        let found = found.or_else(|| self.find(bucket, agent, name, mode));
        let TakenHold { index, slot, base, count } = found?;
        let mut token = base.wrapping_add(count);
        if mode == Mode::Shared {
            // Other clients may own the name as well, and count their own tokens.
            token = token.max(self.epoch.load(Ordering::Relaxed).wrapping_add(moment));
            slot.rebase(base, token.wrapping_sub(count));
        }
        slot.set_since(moment);
        let id = RequestId::from_parts(index, count);
        Some(Take { ticket: Ticket { lane: LANE, id }, token: FencingToken::new(token), moment })
    }

    /// Takes the lock in the slot in which it was found the last time.
    #[inline]
    fn take_again(&self, agent: AgentId, name: &ResourceName, mode: Mode) -> Option<TakenHold<'_>> {
        let index = self.hints.get(agent, name)?;
        let slot = self.slot(index)?;
        // The word is read first. If the take finds it unchanged, everything that was read from the
        // slot in between is true: see `take_seen`.
        let seen = slot.word().look();
        let number = u32::try_from(agent.index()).ok()?;
        if !seen.is_idle() || !slot.is_of(number, name, mode) {
            return None;
        }
        let base = slot.token(0);
        Some(TakenHold { index, slot, base, count: slot.word().take_seen(seen)? })
    }

    /// Takes the lock in any slot in which it can be taken.
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
        // `slots` is still locked. So if a request for this name begins from here on, that request removes
        // this hint again.
        if let Some(TakenHold { index, .. }) = taken {
            self.hints.set(agent, name, index);
        }
        taken
    }

    /// Whether a lock that was taken here is held.
    #[inline]
    pub(super) fn holds(&self, taken: RequestId) -> bool {
        self.slot_of(taken).is_some_and(|slot| slot.word().holds(taken.serial()))
    }

    /// Releases a lock that was taken here. If the client no longer owns the name,
    /// [`ClientTable::finish_taken`](super::client_table::ClientTable::finish_taken) has to follow.
    #[inline]
    pub(super) fn release(&self, taken: RequestId) -> Released {
        self.slot_of(taken).map_or(Released::Gone, |slot| slot.word().release(taken.serial()))
    }

    /// Removes the note of a lock that is released. The caller drops it, because its wakers are
    /// the caller's code.
    #[inline]
    pub(super) fn forget(&self, taken: RequestId) -> Option<Note> {
        // If there is a note for this lock, it was made by this thread, or by a thread that has
        // since handed the lock to this one.
        if self.noted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.slots().notes.remove(&taken)
    }

    /// How a lock that was taken here was lost, if it was. The caller has not released the lock.
    #[inline]
    pub(super) fn lost(&self, taken: RequestId) -> Option<Lost> {
        if self.holds(taken) { None } else { Some(self.how_lost(&self.slots(), taken)) }
    }

    fn how_lost(&self, slots: &Slots, taken: RequestId) -> Lost {
        let noted = slots.notes.get(&taken).and_then(|note| note.lost);
        let seen = || self.seen_lost(u32::try_from(taken.index()).ok()?, taken.serial());
        // If neither of the two tells how, the lock has ended with its agent.
        noted.map(|(lost, _)| lost).or_else(seen).unwrap_or(Lost::Terminated)
    }

    /// How the hold of this number was lost, as the daemon has written it into the word. The
    /// daemon's message may still be on its way.
    pub(super) fn seen_lost(&self, index: SlotIndex, count: u64) -> Option<Lost> {
        let look = self.slot(index)?.word().look();
        ends::lost_by(look).filter(|_| look.count() == count)
    }

    pub(super) fn stolen_by(&self, taken: RequestId) -> Option<ClientId> {
        self.slots().notes.get(&taken)?.lost?.1
    }

    /// Lets the waker be called when a lock that was taken here is lost. If the lock was lost
    /// already, returns how.
    pub(super) fn watch(&self, taken: RequestId, waker: &Waker) -> Option<Lost> {
        // `clone` is the caller's code, so it is called before anything is locked.
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
        drop(slots);
        // A waker that was not needed is dropped here, with nothing locked.
        drop(waker);
        None
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
