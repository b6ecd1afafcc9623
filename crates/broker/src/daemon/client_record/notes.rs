//! A client whose user shares the daemon with others: how much the user has, and the notes of what the client holds.

use std::sync::Arc;

use navlock_core::ClientId;
use navlock_engine::{FencingToken, RequestId};

use super::{
    super::{guests::User, held_notes::HeldNotes},
    ClaimedLock, ClientRecord,
};

impl ClientRecord {
    /// Sets whose client it is, and the notes of what it holds.
    pub(in super::super) fn belongs_to(&mut self, user: Arc<User>, notes: Option<HeldNotes>) {
        self.user = Some(user);
        if notes.is_some() {
            self.notes = notes;
        }
    }

    /// Whose client it is, where several users share the daemon.
    pub(in super::super) fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    pub(in super::super) fn has_notes(&self) -> bool {
        self.notes.is_some()
    }

    /// How many requests, locks and agents it has, and how many bytes the names of these have.
    pub(in super::super) fn size(&self) -> (usize, usize) {
        let things = self.requests.len() + self.agents.len() + self.refused.len();
        (things, self.requests.name_bytes() + self.bucket_bytes)
    }

    /// Whether its user may have more.
    pub(in super::super) fn has_room_for_user(&self) -> bool {
        self.user.as_ref().is_none_or(|user| user.has_room(&self.limits))
    }

    /// Whether an earlier daemon has granted this lock. Where one user has the daemon, its word is enough.
    pub(in super::super) fn was_granted(&mut self, lock: &ClaimedLock) -> bool {
        // If the lock was inherited, the client still has it here.
        if self.user.is_none() || self.requests.contains(lock.request) {
            return true;
        }
        let ClaimedLock { request, name, mode, token, .. } = lock;
        let Some(open) = self.agents.get(&lock.agent) else { return false };
        let notes = self.notes.as_mut();
        notes.is_some_and(|notes| notes.believes(*request, &open.of, (name, *mode, *token)))
    }

    /// Whether it may have an agent of this id, which everybody is shown.
    pub(super) fn may_be_called(&self, agent: ClientId) -> bool {
        let key = self.files.as_ref().map(|(key, _)| *key);
        self.user.is_none() || self.directory.is_free_for(agent, &self.me, key)
    }

    /// Notes an agent.
    pub(super) fn note_agent(&mut self, agent: ClientId) {
        if let Some(notes) = &mut self.notes {
            notes.note_agent(agent);
        }
    }

    /// Notes that an agent has ended.
    pub(super) fn note_agent_ended(&mut self, agent: ClientId) {
        if let Some(notes) = &mut self.notes {
            notes.forget_agent(agent);
        }
    }

    /// Notes that this is held, before the client is told.
    pub(super) fn note_held(&mut self, id: RequestId, token: FencingToken) {
        let Self { requests, agents, notes: Some(notes), .. } = self else { return };
        let shown = requests.of(id);
        if let Some((shown, open)) =
            shown.and_then(|shown| Some((shown, agents.get(&shown.agent)?)))
        {
            notes.note_lock(id, &open.of, (shown.name, shown.mode, token));
        }
    }

    /// Notes that this is not held.
    pub(super) fn note_ended(&mut self, id: RequestId) {
        if let Some(notes) = &mut self.notes {
            notes.forget_lock(id);
        }
    }
}
