//! What there is.

use std::{
    collections::{BTreeMap, HashMap, btree_map},
    sync::Arc,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use navlock_engine::{FencingToken, Mode};

use super::{Change, Event, LockId, LockName};
use crate::{AgentInfo, ClientId};

/// Who is there, what they hold and what they wait for: what all [`Event`]s until now add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overview {
    /// The processes that are connected, by the numbers of their connections.
    pub clients: BTreeMap<u64, Client>,
    /// The agents.
    pub agents: HashMap<ClientId, Agent>,
    /// What is held, waited for or owned. No queue is empty.
    pub queues: BTreeMap<LockName, Queue>,
    /// How many locks and requests of other machines there are at most beside these: of very many, not all are
    /// told.
    pub left_out: u64,
    /// What each entry is, so that none has to be looked for that is not there.
    kinds: HashMap<LockId, Kind, RandomState>,
    /// How many entries of each agent there are, where there are any: most agents that go have none.
    entries: HashMap<ClientId, usize, RandomState>,
}

/// A process that is connected, or was when it left locks to its command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Client {
    /// Its number; 0 if that is not known.
    pub pid: u32,
    /// Since when.
    pub since: Instant,
    /// How it is.
    pub state: ClientState,
}

/// How a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientState {
    /// It is connected.
    Connected,
    /// It was killed, and its command, which goes on, keeps its locks.
    Orphaned,
    /// It has not come back since a broker before this one, and lives: it is stopped, or has nothing to
    /// say.
    Sleeping,
}

impl ClientState {
    /// In one word: the same in all that navlock prints.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Orphaned => "orphaned",
            Self::Sleeping => "sleeping",
        }
    }
}

/// How much somebody has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// How many locks are held.
    pub held: u64,
    /// How many requests wait.
    pub pending: u64,
    /// How many names are owned, and not held.
    pub owned: u64,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agent {
    /// Its bucket.
    pub bucket: Arc<str>,
    /// What it says of itself.
    pub info: Arc<AgentInfo>,
    /// The number of the connection that it is of; `None` if it is another machine's.
    pub client: Option<u64>,
    /// Its machine has not been heard of when it should have been. `None` if it has, or that is not known.
    pub silence: Option<Silence>,
}

/// That a machine has not been heard of: it is gone, stopped or cut off, or it is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Silence {
    /// Since when, to a second.
    pub since: Instant,
    /// When others can have what it has, at the latest, if that stays so.
    pub ends: Instant,
}

/// All that there is of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// The held locks, in the order of their grants.
    pub held: Vec<Entry>,
    /// The pending requests, in the order in which they will be granted.
    pub pending: Vec<Entry>,
    /// Whose the name is to take without asking, and who do not hold it.
    pub owned: Vec<Entry>,
}

/// A request, a lock, or a name that is owned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Which.
    pub id: LockId,
    /// In which mode.
    pub mode: Mode,
    /// When it was requested or, once it is a lock, granted; or, of one that [is
    /// older](Self::is_older), when somebody began to look.
    pub since: Instant,
    /// Whether it was there before `since`: in one process nobody reads a clock while nobody looks. Then it
    /// is known that it is so old at least.
    pub is_older: bool,
    /// The fencing token of a lock.
    pub token: Option<FencingToken>,
    /// Of a request, the locks inside which it was made: their holders go on, and let go of them, only once
    /// it was granted. Empty if it was made inside none, or nobody said so.
    pub inside: Vec<LockId>,
    /// Of a request, whether it may give up by itself, as one that waits for so long or has a signal: it
    /// keeps nobody waiting for ever. `false` if nobody said so.
    pub may_give_up: bool,
    /// How often its owner has taken the name without asking.
    pub taken: u64,
    /// Of requests of several machines, whose clocks differ: the one with the greater number was made later. 0
    /// where `since` tells.
    pub order: u64,
}

impl Client {
    /// A process of which no more is known.
    pub fn new(pid: u32, state: ClientState) -> Self {
        Self { pid, since: Instant::now(), state }
    }
}

impl Agent {
    /// An agent in this bucket.
    pub fn new(bucket: Arc<str>, info: Arc<AgentInfo>, client: Option<u64>) -> Self {
        Self { bucket, info, client, silence: None }
    }
}

impl Silence {
    /// One that lasts from then to then.
    pub fn new(since: Instant, ends: Instant) -> Self {
        Self { since, ends }
    }
}

impl Entry {
    /// One of which no more is known, since now.
    pub fn new(id: LockId, mode: Mode) -> Self {
        Self {
            id,
            mode,
            since: Instant::now(),
            token: None,
            inside: Vec::new(),
            may_give_up: false,
            taken: 0,
            order: 0,
            is_older: false,
        }
    }

    /// For how long it has been what it is; at least, if it [is older](Self::is_older).
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

impl Queue {
    /// Whether there is nothing of the name.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.pending.is_empty() && self.owned.is_empty()
    }

    /// Where an entry of this kind stands.
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
    /// Takes in what has happened.
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

    /// How much each agent has that has anything.
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

    /// Puts an entry where it is, if it is of this kind already, or at the end.
    fn put(&mut self, name: &LockName, entry: &Entry, kind: Kind) {
        let queue = self.queues.entry(name.clone()).or_default();
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
        if let btree_map::Entry::Occupied(mut queue) = self.queues.entry(name.clone()) {
            queue.get_mut().take(id, kind);
            if queue.get().is_empty() {
                queue.remove();
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
        // FAST: mostly it has nothing any more, and no name is looked at.
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
