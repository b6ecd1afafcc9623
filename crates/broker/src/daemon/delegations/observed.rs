//! Tells lookers what owners do without a message, as far as the daemon sees this by reading the
//! words now and then.

use std::sync::Arc;

use navlock_core::look::{Change, Entry, LockId, LockName};
use navlock_delegation::Look;
use navlock_wire::LookEvent;

use super::{Delegations, Hold, State};
use crate::{clock, sync::lock};

impl Delegations {
    /// Reads all words. Returns what has changed since the last time.
    ///
    /// Until the next call, lookers are shown the words as this call has read them. So all lookers
    /// see the same, and a looker that begins in between is also told the next change.
    pub(in super::super) fn look_anew(&self) -> Vec<LookEvent> {
        let mut state = lock(&self.state);
        let State { holds, .. } = &mut *state;
        holds.iter_mut().filter_map(|(_, hold)| hold.look_anew()).collect()
    }
}

impl Hold {
    fn look_anew(&mut self) -> Option<LookEvent> {
        let look = self.map.look(self.slot);
        // Lookers were told this hold when the lock was granted.
        let granted = |look: &Look| look.is_held() && look.count() == self.first;
        let before = self.seen.replace(look);
        let is_new = before.map_or(!granted(&look), |before| before != look);
        // Lookers are told of a loss when the holder is told.
        if !is_new || look.is_lost() {
            return None;
        }
        let is_held = look.is_held();
        let shown = is_held.then(|| self.map.shown(self.slot, look)).flatten();
        let (at, token) = shown.unwrap_or_else(|| (clock::now(), self.token));
        let name = LockName::new(Arc::clone(&self.bucket), self.name.clone());
        let id = LockId { client_id: self.client_id, serial: self.request.serial() };
        let mut entry = Entry::new(id, self.mode);
        (entry.token, entry.taken) = (Some(token), look.count().saturating_sub(self.first));
        Some(LookEvent { at, change: Change::Owned { name, entry, held: is_held } })
    }
}
