//! The lock manager: the state that the algorithms work on.

use std::collections::VecDeque;

use hashbrown::HashTable;
use slab::Slab;

use crate::{
    Event, FencingToken, NameHasher, Patience, RequestId, Status,
    agent::AgentEntry,
    links::{AgentIndex, NONE, ResourceIndex},
    nodes::Nodes,
    request::{Node, Stage},
    resource::Resource,
};

/// How many entries a table keeps allocated when there is nothing in it.
pub(crate) const KEEP: usize = 1024;

/// The locks and lock requests of one bucket, or of one shard of it.
///
/// # Calling order
///
/// Commands change the state and leave events behind:
///
/// - [`request_lock`](Self::request_lock) makes a request and gives it an id;
/// - [`abort_request`](Self::abort_request) and [`release_lock`](Self::release_lock) end it, and
///   [`finish`](Self::finish) does whichever applies, so that a host need not know whether a
///   grant is on its way;
/// - [`terminate_remaining_locks_and_requests`](Self::terminate_remaining_locks_and_requests) ends
///   all that an agent has.
///
/// After each command the host takes events with [`poll_event`](Self::poll_event) until there are
/// none, in order. [`status`](Self::status) and
/// [`snapshot_lock_state`](Self::snapshot_lock_state) only look.
///
/// # Costs
///
/// Request, grant, release, abort, and each victim of a steal: constant time (expected, because
/// names are hashed). Termination: linear in what the agent has. Snapshot: linear in what it shows.
/// Of the names that nobody holds or waits for, at most one is kept, if it is short. Agents that
/// were terminated are not kept. Entries of the tables that become free are used again, and large
/// tables are freed when they are empty. No command recurses.
///
/// # Invariants
///
/// Between commands the first request of a queue is not grantable, and at most one resource is
/// idle, which [`names_known`](Self::names_known) counts as well.
///
/// # Data of the host
///
/// A host that keeps something of its own for each request, such as whom to wake, can keep it in
/// the request: a `T`, which has [its default](Default) when the request is made. The host changes
/// this data by [`data`](Self::data). The host gets the data back when the request is granted and
/// when the request or lock ends: with the event
/// ([`poll_event_with_data`](Self::poll_event_with_data)), or from [`finish`](Self::finish). After
/// the grant, the lock has the default again.
#[derive(Clone, Debug)]
pub struct LockManager<T = ()> {
    /// Index into `resources` by name. Between commands no resource is idle, except `idle`.
    pub(crate) names: HashTable<u32>,
    pub(crate) resources: Slab<Resource>,
    /// The idle resource that is kept, or [`NONE`]. It is kept because a name that was released is usually
    /// asked for again at once. Its name is short, so that what is kept needs no memory of its own.
    pub(crate) idle: u32,
    /// The index of the resource that was asked for last. That resource may have gone, and another
    /// one may have the index by now.
    pub(crate) last_resource: ResourceIndex,
    /// Every pending request and every lock.
    pub(crate) nodes: Nodes<T>,
    pub(crate) agents: Slab<AgentEntry>,
    /// Index into `agents` by the host's number.
    pub(crate) agent_numbers: HashTable<u32>,
    /// When at most this many agents are left, their tables are made smaller. A slab cannot be
    /// made smaller than the highest index in use, so a try may free little. That is why the next try
    /// comes only when half as many agents are left.
    pub(crate) few_agents: usize,
    /// The agent that was looked up last. That agent may have gone, and another one may have the
    /// index by now.
    pub(crate) last_agent: AgentIndex,
    pub(crate) events: VecDeque<(Event, T)>,
    pub(crate) hasher: NameHasher,
    pub(crate) next_serial: u64,
    /// Larger than every token given so far, for any name. So a name that is forgotten and asked
    /// for again still gets a larger token.
    pub(crate) next_token: u64,
}

impl Default for LockManager {
    fn default() -> Self {
        Self::new(NameHasher::default(), FencingToken::new(1))
    }
}

impl LockManager {
    /// An empty lock manager that finds names by this hasher, and whose first grant gets `token`.
    ///
    /// For a host that has several lock managers, or that goes on where an earlier one ended.
    pub fn new(hasher: NameHasher, token: FencingToken) -> Self {
        Self::with_data(hasher, token)
    }
}

impl<T> LockManager<T> {
    /// An empty lock manager as [`new`](LockManager::new) makes it, with data of the host in each
    /// request.
    pub fn with_data(hasher: NameHasher, token: FencingToken) -> Self {
        Self {
            names: HashTable::new(),
            resources: Slab::new(),
            idle: NONE,
            last_resource: ResourceIndex(0),
            nodes: Nodes::default(),
            agents: Slab::new(),
            agent_numbers: HashTable::new(),
            few_agents: 0,
            last_agent: AgentIndex(0),
            events: VecDeque::new(),
            hasher,
            next_serial: 0,
            next_token: token.get(),
        }
    }

    /// Takes the oldest event that was not taken yet.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        Some(self.poll_event_with_data()?.0)
    }

    /// Takes the oldest event that was not taken yet, and the host's data from the request or lock
    /// that the event is about.
    #[inline]
    pub fn poll_event_with_data(&mut self) -> Option<(Event, T)> {
        let event = self.events.pop_front();
        // An empty queue that has room for more than `KEEP` events gives its memory back. A smaller
        // queue keeps its memory.
        if self.events.capacity() > KEEP && self.events.is_empty() {
            self.events = VecDeque::new();
        }
        event
    }

    /// Whether there is an event that was not taken yet.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Where the request with this id stands now.
    #[inline]
    pub fn status(&self, id: RequestId) -> Status {
        match self.nodes.get(id.index()) {
            Some(node) if node.serial != id.serial => Status::Gone,
            Some(node) if node.stage == Stage::Held => Status::Held(node.token),
            Some(_) => Status::Pending,
            None => Status::Gone,
        }
    }

    /// Ends a request or a lock: aborts a pending request, or releases a held lock. Returns the data
    /// of the host, or `None` if the request or lock has ended already.
    ///
    /// A host whose cancellation may race a grant needs this call only.
    #[inline]
    pub fn finish(&mut self, id: RequestId) -> Option<T>
    where
        T: Default,
    {
        match self.status(id) {
            Status::Pending => Some(self.abort(id)),
            Status::Held(_) => Some(self.release(id)),
            Status::Gone => None,
        }
    }

    /// What the host has in the request or lock with this id, unless it is gone.
    #[inline]
    pub fn data(&mut self, id: RequestId) -> Option<&mut T> {
        let node = self.nodes.get_mut(id.index()).filter(|node| node.serial == id.serial);
        Some(&mut node?.data)
    }

    /// Notes how long a pending request waits, which [`patience`](Self::patience) then tells. Of several
    /// notes, the greatest counts. Does nothing if the request is not pending any more.
    pub fn note_patience(&mut self, id: RequestId, patience: Patience) {
        let node = self.nodes.get_mut(id.index()).filter(|node| node.serial == id.serial);
        if let Some(node) = node.filter(|node| node.stage == Stage::Pending) {
            node.token = FencingToken::new(node.patience().max(patience) as u64);
        }
    }

    /// How long this request waits, as far as it was noted.
    pub fn patience(&self, id: RequestId) -> Patience {
        let node = self.nodes.get(id.index()).filter(|node| node.serial == id.serial);
        node.map_or(Patience::Endless, Node::patience)
    }

    /// Whether there is no request and no lock.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many names this lock manager knows: those that are held or waited for, and at most one
    /// more.
    pub fn names_known(&self) -> usize {
        self.resources.len()
    }

    /// The token that the next grant gets.
    pub fn next_token(&self) -> FencingToken {
        FencingToken::new(self.next_token)
    }

    /// Makes sure that the next grant gets no smaller token than `least`. This is for a host that has
    /// given out tokens itself.
    ///
    /// ```
    /// use navlock_engine::{AgentId, FencingToken, LockManager, Mode, RequestKind, Status};
    ///
    /// let mut locks = LockManager::default();
    /// locks.raise_token(FencingToken::new(1000));
    /// locks.raise_token(FencingToken::new(10));
    /// let name = "db".try_into()?;
    /// let wait = RequestKind::Wait(Mode::Exclusive);
    /// let lock = locks.request_lock(AgentId::from_index(0), &name, wait);
    /// assert_eq!(locks.status(lock), Status::Held(FencingToken::new(1000)));
    /// # Ok::<(), navlock_engine::ReservedName>(())
    /// ```
    #[inline]
    pub fn raise_token(&mut self, least: FencingToken) {
        self.next_token = self.next_token.max(least.get());
    }

    /// The id of the live request or lock at `index`.
    #[inline]
    pub(crate) fn id(&self, index: u32) -> RequestId {
        RequestId { serial: self.nodes[index].serial, index }
    }

    /// Frees what a peak of use left allocated, once nothing is in use any more; until then the
    /// tables are as large as the peak was.
    ///
    /// Constant amortised time: what is freed here was filled before. Small tables are kept, so
    /// that a lock taken and released over and over does not allocate.
    #[inline]
    pub(crate) fn give_back_memory(&mut self) {
        let in_use = self.resources.len() - usize::from(self.idle != NONE);
        if in_use == 0 && self.resources.capacity().max(self.nodes.capacity()) > KEEP {
            self.names = HashTable::new();
            self.resources = Slab::new();
            self.nodes = Nodes::default();
            self.idle = NONE;
        }
    }
}
