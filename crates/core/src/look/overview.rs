//! The overview: the sum of all events.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::{
    Change, Event, LockId, LockName,
    entries::{Agent, Client, Entry},
};
use crate::{AgentInfo, ClientId};

/// The clients, agents, locks and requests that exist: the sum of all [`Event`]s until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overview {
    /// The processes that are connected, by the numbers of their connections.
    pub clients: BTreeMap<u64, Client>,
    /// The agents.
    pub agents: HashMap<ClientId, Agent>,
    /// The names that are held, waited for or owned. No queue is empty.
    pub queues: BTreeMap<LockName, Queue>,
    /// How many locks and requests of other machines are left out at most. If there are very many,
    /// lookers are not told all of them.
    pub left_out: u64,
    /// The kind of each entry, so that the queues are not searched for an entry that is not there.
    kinds: HashMap<LockId, Kind, RandomState>,
    /// How many entries each agent has, for agents that have any. Most agents have none when they
    /// end.
    entries: HashMap<ClientId, usize, RandomState>,
}

/// How many locks, requests and owned names an agent has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// How many locks are held.
    pub held: u64,
    /// How many requests wait.
    pub pending: u64,
    /// How many names the agent owns and does not hold.
    pub owned: u64,
}

/// All locks and requests of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// The held locks, in the order of their grants.
    pub held: Vec<Entry>,
    /// The pending requests, in the order in which they will be granted.
    pub pending: Vec<Entry>,
    /// The entries of the owners, who do not hold the name now and can take it without asking.
    pub owned: Vec<Entry>,
}

impl Queue {
    /// Whether the name has no entries.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.pending.is_empty() && self.owned.is_empty()
    }

    /// The list of the entries of this kind.
    fn list(&mut self, kind: Kind) -> &mut Vec<Entry> {
        match kind {
            Kind::Held => &mut self.held,
            Kind::Pending => &mut self.pending,
            Kind::Owned => &mut self.owned,
        }
    }

    /// Takes an entry of this kind out, if it is there.
    fn take(&mut self, id: LockId, kind: Kind) {
        let entries = self.list(kind);
        if let Some(at) = entries.iter().position(|entry| entry.id == id) {
            entries.remove(at);
        }
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Held,
    Pending,
    Owned,
}

impl Overview {
    /// Takes in an event.
    pub fn apply(&mut self, event: &Event) {
        match &event.change {
            Change::ClientCame { client, details } => {
                self.clients.insert(*client, details.clone());
            }
            Change::ClientWent { client } => {
                self.clients.remove(client);
                let theirs = self.agents.iter().filter(|(_, agent)| agent.client == Some(*client));
                for agent in theirs.map(|(id, _)| *id).collect::<Vec<_>>() {
                    self.forget_agent(agent);
                }
            }
            Change::AgentCame { agent, details } => {
                self.agents.insert(*agent, details.clone());
            }
            Change::AgentSilent { agent, silence } => {
                if let Some(agent) = self.agents.get_mut(agent) {
                    agent.silence = Some(*silence);
                }
            }
            Change::AgentWent { agent } => self.forget_agent(*agent),
            Change::Requested { name, entry } => self.put(name, entry, Kind::Pending),
            Change::Granted { name, entry } | Change::Owned { name, entry, held: true } => {
                self.put(name, entry, Kind::Held);
            }
            Change::Owned { name, entry, held: false } => self.put(name, entry, Kind::Owned),
            Change::Released { name, id }
            | Change::Aborted { name, id }
            | Change::Lost { name, id, .. }
            | Change::Recalled { name, id } => self.forget(name, *id),
            Change::LeftOut { count } => self.left_out = *count,
            Change::Unavailable { .. } | Change::Recovered => {}
        }
    }

    /// For each agent that has anything, how much of each kind it has.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let user_agent = UserAgent::new();
    /// # let locks = user_agent.lock_manager("app");
    /// use navlock::look::LookOptions;
    ///
    /// # let guard = locks.lock("db").blocking()?;
    /// # let options = LookOptions::default().once();
    /// let mut looker = user_agent.look(options).expect("this process keeps the locks");
    /// looker.next(None)?;
    /// let overview = looker.overview();
    /// for (agent, count) in overview.counts() {
    ///     let command = overview.info(agent).map_or("", |info| &info.command);
    ///     println!("{agent} ({command}): {} held, {} pending", count.held, count.pending);
    /// }
    /// # assert_eq!(overview.counts().len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn counts(&self) -> HashMap<ClientId, Count> {
        let mut counts: HashMap<ClientId, Count> = HashMap::new();
        for Queue { held, pending, owned } in self.queues.values() {
            for entry in held {
                counts.entry(entry.id.client_id).or_default().held += 1;
            }
            for entry in pending {
                counts.entry(entry.id.client_id).or_default().pending += 1;
            }
            for entry in owned {
                counts.entry(entry.id.client_id).or_default().owned += 1;
            }
        }
        counts
    }

    /// What the agent says of itself, if it is there.
    pub fn info(&self, agent: ClientId) -> Option<&Arc<AgentInfo>> {
        self.agents.get(&agent).map(|agent| &agent.info)
    }

    /// What the agent of this lock or request says of itself, with what the lock is for.
    pub fn info_of(&self, entry: &Entry) -> Option<Arc<AgentInfo>> {
        entry.with_why(self.info(entry.id.client_id))
    }

    /// Whether the agent has any locks, requests or owned names.
    pub fn has_entries(&self, agent: ClientId) -> bool {
        self.entries.contains_key(&agent)
    }

    /// Replaces an entry in its place if it is of this kind already, or else adds it at the end.
    fn put(&mut self, name: &LockName, entry: &Entry, kind: Kind) {
        let queue = if let Some(queue) = self.queues.get_mut(name) {
            queue
        } else {
            let (before, after) = (self.queues.range(..name), self.queues.range(name..));
            let mut near = before.rev().take(1).chain(after.take(1)).map(|(near, _)| near);
            // FAST: names of one bucket share its text, so comparing them later reads one place in memory.
            let bucket = near.find(|near| near.bucket == name.bucket).unwrap_or(name);
            let name = LockName::new(Arc::clone(&bucket.bucket), name.name.clone());
            self.queues.entry(name).or_default()
        };
        match self.kinds.insert(entry.id, kind) {
            None => *self.entries.entry(entry.id.client_id).or_default() += 1,
            Some(before) if before == kind => {
                let mut known = queue.list(kind).iter_mut();
                if let Some(known) = known.find(|known| known.id == entry.id) {
                    *known = entry.clone();
                    return;
                }
            }
            Some(before) => queue.take(entry.id, before),
        }
        queue.list(kind).push(entry.clone());
    }

    fn forget(&mut self, name: &LockName, id: LockId) {
        let Some(kind) = self.kinds.remove(&id) else { return };
        if let Some(queue) = self.queues.get_mut(name) {
            queue.take(id, kind);
            if queue.is_empty() {
                self.queues.remove(name);
            }
        }
        if let Some(count) = self.entries.get_mut(&id.client_id) {
            *count -= 1;
            if *count == 0 {
                self.entries.remove(&id.client_id);
            }
        }
    }

    fn forget_agent(&mut self, agent: ClientId) {
        self.agents.remove(&agent);
        // FAST: mostly the agent has no entries any more, so the queues are not searched.
        if self.entries.remove(&agent).is_some() {
            self.kinds.retain(|id, _| id.client_id != agent);
            self.queues.retain(|_, queue| {
                for kind in [Kind::Held, Kind::Pending, Kind::Owned] {
                    queue.list(kind).retain(|entry| entry.id.client_id != agent);
                }
                !queue.is_empty()
            });
        }
    }
}

#[cfg(test)]
mod tests;
