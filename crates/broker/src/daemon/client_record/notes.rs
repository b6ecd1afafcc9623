//! A client whose user shares the daemon with others: how much the user has, and the notes of what the client holds.

use std::sync::Arc;

use navlock_core::{ClientId, Mode, ResourceName, host::Claim};
use navlock_engine::{FencingToken, RequestId};
use navlock_wire::{Agent, Moment};

use super::{
    super::{
        guests::{Guest, User},
        held_notes::{Asked, HeldNotes},
    },
    Claimed, ClientRecord,
};
use crate::clock;

impl ClientRecord {
    /// Sets whose client it is, and the notes of what it holds.
    pub(in super::super) fn belongs_to(&mut self, guest: Guest, notes: Option<HeldNotes>) {
        self.guest = Some(guest);
        if notes.is_some() {
            self.notes = notes;
        }
        self.count_for_user(0, 0);
    }

    /// Whose client it is, where several users share the daemon.
    pub(in super::super) fn user(&self) -> Option<&Arc<User>> {
        self.guest.as_ref().map(Guest::user)
    }

    pub(in super::super) fn has_notes(&self) -> bool {
        self.notes.is_some()
    }

    /// Counts for the user what the client has, with so many claims, and with so many bytes besides names.
    pub(in super::super) fn count_for_user(&mut self, claims: usize, bytes: usize) {
        let things = self.requests.len() + self.agents.len() + self.refused.len();
        let names = self.requests.name_bytes() + self.bucket_bytes;
        if let Some(guest) = &mut self.guest {
            guest.has_now(things + claims, names + bytes);
        }
    }

    /// Whether its user may have more.
    pub(in super::super) fn has_room_for_user(&self) -> bool {
        self.user().is_none_or(|user| user.has_room(&self.limits))
    }

    /// Whether an earlier daemon has granted this lock. Where one user has the daemon, its word is enough.
    pub(in super::super) fn was_granted(&mut self, lock: &Claimed) -> bool {
        let Claimed { agent, request, claim: Claim { name, kind, token, .. }, .. } = lock;
        if self.guest.is_none() {
            return true;
        }
        // If the lock was inherited, the client still has it here.
        let here = self.requests.of(*request);
        let is_here = here
            .is_some_and(|here| (here.name, here.mode, here.token) == (name, kind.mode(), *token));
        is_here || self.believes(*agent, *request, (name, kind.mode()), *token).is_some()
    }

    /// Since when a claimed request waits: since it has `said` so, where one user has the daemon; else since an earlier
    /// daemon has noted it, or since now.
    pub(in super::super) fn waits_since(
        &mut self,
        (agent, request): (Agent, RequestId),
        asked: (&ResourceName, Mode),
        said: Moment,
    ) -> Moment {
        if self.guest.is_none() {
            return said;
        }
        self.believes(agent, request, asked, None).unwrap_or_else(clock::now)
    }

    fn believes(
        &mut self,
        agent: Agent,
        id: RequestId,
        asked: Asked<'_>,
        token: Option<FencingToken>,
    ) -> Option<Moment> {
        let open = self.agents.get(&agent)?;
        self.notes.as_mut()?.believes(id, &open.of, asked, token)
    }

    /// Whatever the client has not claimed from this daemon is over.
    pub(in super::super) fn has_claimed(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.forget_earlier();
        }
    }

    /// Whether it may have an agent of this id, which everybody is shown.
    pub(super) fn may_be_called(&self, agent: ClientId) -> bool {
        let key = self.files.as_ref().map(|(key, _)| *key);
        self.guest.is_none() || self.directory.is_free_for(agent, &self.me, key)
    }

    /// Notes an agent.
    pub(super) fn note_agent(&mut self, agent: ClientId) {
        if let Some(notes) = &mut self.notes {
            notes.note_agent(agent);
        }
    }

    /// Notes that an agent has ended, with all that it had.
    pub(super) fn note_agent_ended(&mut self, agent: ClientId) {
        if let Some(notes) = &mut self.notes {
            notes.forget_agent(agent);
        }
    }

    /// Notes that this waits or, with a token, that it is held, before the client is told.
    pub(super) fn note_request(&mut self, id: RequestId, token: Option<FencingToken>) {
        let Self { requests, agents, notes: Some(notes), .. } = self else { return };
        let Some(shown) = requests.of(id) else { return };
        if let Some(open) = agents.get(&shown.agent) {
            notes.note_request(id, &open.of, (shown.name, shown.mode), token, shown.since);
        }
    }

    /// Notes that this is over.
    pub(super) fn note_ended(&mut self, id: RequestId) {
        if let Some(notes) = &mut self.notes {
            notes.forget_request(id);
        }
    }
}
