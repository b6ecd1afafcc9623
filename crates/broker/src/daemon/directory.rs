//! Finds the client of an agent, by the client id that snapshots show.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
};

use crate::sync::lock;
use foldhash::quality::RandomState;
use navlock_core::ClientId;
use navlock_wire::ClientKey;

/// All agents of all clients, each with the key of its client, if the client has one. An agent of an earlier daemon may
/// be without its client.
///
/// Locking order: a client first, then the directory. A thread that has the directory locked may
/// lock no client.
pub(super) struct Directory<C>(Mutex<Agents<C>>);

type Agents<C> = HashMap<ClientId, (Weak<Mutex<C>>, Option<ClientKey>), RandomState>;

impl<C> Default for Directory<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> Directory<C> {
    /// Enters an agent of this client.
    pub(super) fn enter(&self, agent: ClientId, client: &Weak<Mutex<C>>, key: Option<ClientKey>) {
        lock(&self.0).insert(agent, (Weak::clone(client), key));
    }

    /// Keeps these agents of an earlier daemon for this client.
    pub(super) fn reserve(&self, agents: impl Iterator<Item = ClientId>, client: ClientKey) {
        lock(&self.0).extend(agents.map(|agent| (agent, (Weak::new(), Some(client)))));
    }

    /// The key of the client of this agent.
    pub(super) fn key_of(&self, agent: ClientId) -> Option<ClientKey> {
        lock(&self.0).get(&agent)?.1
    }

    /// Whether this client may have an agent of this id: no other client has one, and none is kept for another.
    pub(super) fn is_free_for(
        &self,
        agent: ClientId,
        client: &Weak<Mutex<C>>,
        key: Option<ClientKey>,
    ) -> bool {
        let agents = lock(&self.0);
        let Some((known, known_key)) = agents.get(&agent) else { return true };
        let is_its = known.ptr_eq(client) || known_key.is_some() && *known_key == key;
        // Of a client with a key, an agent is kept even if the client is not here.
        is_its || known.strong_count() == 0 && known_key.is_none()
    }

    /// Removes an agent of this client. The entry stays if it has since been made anew for another
    /// client that has come back to the agent.
    pub(super) fn leave(&self, agent: ClientId, client: &Weak<Mutex<C>>) {
        let mut agents = lock(&self.0);
        if agents.get(&agent).is_some_and(|(known, _)| known.ptr_eq(client)) {
            agents.remove(&agent);
        }
    }

    /// The clients of these agents, each once.
    pub(super) fn find(&self, agents: impl IntoIterator<Item = ClientId>) -> Vec<Arc<Mutex<C>>> {
        let known = lock(&self.0);
        let found = agents.into_iter().filter_map(|agent| known.get(&agent)?.0.upgrade());
        let mut found: Vec<_> = found.collect();
        drop(known);
        found.sort_by_key(Arc::as_ptr);
        found.dedup_by_key(|client| Arc::as_ptr(client));
        found
    }

    /// All agents.
    pub(super) fn agents(&self) -> HashSet<ClientId> {
        lock(&self.0).keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_everybody_is_shown_is_free_for_its_client_alone() {
        let directory = Directory::default();
        let [one, other] = [(); 2].map(|()| Arc::new(Mutex::new(())));
        let [one_key, other_key] = [[1; 16], [2; 16]];
        let is_free = |agent, client: &Arc<Mutex<()>>, key| {
            directory.is_free_for(agent, &Arc::downgrade(client), Some(key))
        };
        let [agent, earlier] = [(); 2].map(|()| ClientId::random());
        assert!(is_free(agent, &other, other_key));
        directory.enter(agent, &Arc::downgrade(&one), Some(one_key));
        assert!(is_free(agent, &one, one_key) && !is_free(agent, &other, other_key));
        // The client may have come back before the end of its connection was noticed.
        assert!(is_free(agent, &other, one_key));
        directory.reserve([earlier].into_iter(), one_key);
        assert!(is_free(earlier, &one, one_key) && !is_free(earlier, &other, other_key));
        assert!(!directory.is_free_for(earlier, &Arc::downgrade(&one), None));
        directory.leave(agent, &Arc::downgrade(&one));
        assert!(is_free(agent, &other, other_key));
    }
}
