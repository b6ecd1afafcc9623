//! The hold of the request for which a slot was granted, and of the locks that are taken there after it.

use navlock_delegation::Released;
use navlock_engine::RequestId;

use super::{
    maps::SlotIndex,
    slots::{Hold, Note, Slots, Stage, Taken},
};

impl Slots {
    /// To be called when a request was granted in its slot. Returns its hold; `None` if the slot
    /// does not say that it was granted.
    pub(in super::super) fn granted(&mut self, index: SlotIndex) -> Option<Hold> {
        let look = self.maps.slot(index)?.word().look();
        let taken = self.in_use.get_mut(&index)?;
        if !look.is_held() && !look.is_lost() {
            return None;
        }
        taken.stage = Stage::First(look.count());
        if look.is_held() && !look.is_recalled() {
            let names = self.names.get_mut(&taken.bucket);
            if let Some(known) = names.and_then(|names| names.get_mut(&taken.name)) {
                known.slots.push(index);
            }
        }
        Some(Hold { index, count: look.count() })
    }

    /// Releases the first hold of a slot. Returns whether the client still owns the name, and takes later holds in the
    /// map; if not, the slot is free and the daemon has to be told.
    pub(in super::super) fn finish_first(&mut self, hold: Hold) -> bool {
        let released = self.maps.slot(hold.index).map(|slot| slot.word().release(hold.count));
        let is_kept = released == Some(Released::Kept);
        if !is_kept {
            self.end_first(hold);
        } else if let Some(taken) = self.first(hold) {
            taken.stage = Stage::Owned(hold.count);
        }
        is_kept
    }

    /// Frees a slot whose first hold has ended, when the client no longer owns the name.
    pub(in super::super) fn end_first(&mut self, hold: Hold) {
        if self.first(hold).is_some() {
            self.free(hold.index);
        }
    }

    fn first(&mut self, hold: Hold) -> Option<&mut Taken> {
        self.in_use.get_mut(&hold.index).filter(|taken| taken.stage == Stage::First(hold.count))
    }

    /// To be called when a lock that was taken here is released, and the client no longer owns its
    /// name. Returns the request that the daemon has to be told to finish, if the slot still belongs to
    /// this request, and the note of the lock. A later request for the slot has holds with higher numbers.
    pub(in super::super) fn finish(
        &mut self,
        taken: RequestId,
    ) -> (Option<RequestId>, Option<Note>) {
        let index = u32::try_from(taken.index()).ok().filter(|index| {
            let stage = self.in_use.get(index).map(|slot| slot.stage);
            matches!(stage, Some(Stage::Owned(first)) if first < taken.serial())
        });
        (index.and_then(|index| self.free(index)), self.notes.remove(&taken))
    }
}
