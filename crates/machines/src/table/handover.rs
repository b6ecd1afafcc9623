//! What only this connection knows of a name that it owns: to be shown, or to be written to the store.

use navlock_core::{Mode, ResourceName};
use navlock_engine::RequestId;

use super::{
    Table,
    entries::{AgentSerial, Request, State, narrow},
    owned_name::{Owned, QueueOrder},
};
use crate::{
    clock::Uptime,
    names::{NameKey, RequestKey},
    notes::RequestNotes,
    tokens::Grant,
};

/// A lock or request of a name that is owned, as it is shown, or written to the store.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The lock or request.
    pub(crate) id: RequestId,
    /// Its agent.
    pub(crate) agent: AgentSerial,
    /// The key that it will have.
    pub(crate) key: RequestKey,
    /// The name, if keys have only a hash of it.
    pub(crate) name: Option<ResourceName>,
    /// Its mode.
    pub(crate) mode: Mode,
    /// The grant, if it is a lock.
    pub(crate) grant: Option<Grant>,
    /// The place that the request had in the store's queue before.
    pub(crate) place: Option<QueueOrder>,
    /// Since when it waits, or is a lock.
    pub(crate) since: Uptime,
    /// Its [serial number](Table::serial).
    pub(crate) serial: u64,
    /// What its caller has said of it.
    pub(crate) said: RequestNotes,
}

impl Table {
    /// Notes that a name is given up, so that later requests for it go to the store. Returns the locks and
    /// requests that are [here](Self::here) and have to be written to the store.
    pub(crate) fn leave(
        &mut self,
        of: &(u64, NameKey),
        key: impl FnMut(RequestId) -> RequestKey,
    ) -> Vec<Handover> {
        let leavers = self.here(of, key);
        self.owned.remove(of);
        for &index in self.names.get(of).into_iter().flatten() {
            self.requests[index].is_here = false;
        }
        for leaver in &leavers {
            if let Some(request) = self.find(leaver.id) {
                request.key = Some(leaver.key);
            }
        }
        leavers
    }

    /// The locks and requests of a name that is owned, with the keys that they would have in the store: first the
    /// locks, in the order of their grants, then the requests, in the order of their calls.
    pub(crate) fn here(
        &self,
        of: &(u64, NameKey),
        mut key: impl FnMut(RequestId) -> RequestKey,
    ) -> Vec<Handover> {
        let mut all = Vec::new();
        let Some(Owned { run, .. }) = self.owned.get(of) else { return all };
        for &index in self.names.get(of).into_iter().flatten() {
            let request = &self.requests[index];
            if !request.is_here {
                continue;
            }
            let id = RequestId::from_parts(narrow(index), request.serial);
            let agent = request.agent.and_then(|agent| self.agents.get(agent.index()));
            let Some(agent) = agent.map(|agent| agent.serial) else { continue };
            let grant = match request.state {
                State::Held(grant, _) => Some(grant),
                _ => None,
            };
            let (key, place) = (key(id), run.get(&request.serial).copied());
            let (name, said) = (request.hashed_name(), request.said.clone());
            let (mode, since, serial) = (request.kind.mode(), request.since, request.lock_serial);
            all.push(Handover { id, agent, key, name, mode, grant, place, since, serial, said });
        }
        let place =
            |of: &Handover| (of.grant.is_none(), of.grant.map(|of| of.token), of.id.serial());
        all.sort_by_key(place);
        all
    }

    /// The keys of the locks and requests of a bucket that have not ended.
    pub(crate) fn live(&self, bucket: u64) -> impl Iterator<Item = RequestKey> {
        let of = self.requests.iter().filter(move |(_, request)| request.of.0 == bucket);
        let live = |request: &Request| matches!(request.state, State::Pending(_) | State::Held(..));
        of.filter_map(move |(_, request)| request.key.filter(|_| live(request)))
    }
}
