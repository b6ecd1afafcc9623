//! What the client knows: its agents, its requests and its questions. It is all that outlives a
//! connection, and enough to begin another one with.

mod agents;
mod claims;
mod hearing;
mod link;
mod mapping;
mod nested;
mod owning;
mod state;
mod term_ends;
mod terms;
mod without_link;

use std::{collections::HashSet, mem, sync::Arc, task::Waker};

use bytes::BytesMut;
use foldhash::fast::RandomState;
use navlock_core::{
    AgentInfo, ClientId, Error, Lost, ResourceName, host::RequestKind, look::InDeadlock,
};
use navlock_engine::{AgentId, RequestId};
use navlock_wire::{ClientCodec, ClientKey, LOOKING_VERSION, POSITION_VERSION, Query, ToDaemon};
use slab::Slab;
use tokio_util::codec::Encoder;

use self::{
    link::Link,
    mapping::Mapping,
    state::SlotPlace,
    terms::{AgentTerm, TermIndex},
};

pub(super) use self::{mapping::MapTask, state::State};
use super::{
    owned::{Asked, Began, Note, Owned},
    questions::Questions,
};
use crate::clock;

/// The state of a client.
pub(super) struct Table {
    key: ClientKey,
    agents: Slab<Agent>,
    requests: Slab<Request>,
    next_serial: u64,
    /// How many requests are pending.
    waiting: usize,
    /// How many requests and locks stand in no slot of our map.
    unmapped: u32,
    /// The names that are ours until somebody else asks for them.
    owned: Arc<Owned>,
    mapping: Mapping,
    pub(super) questions: Questions,
    link: Link,
    /// Since when somebody needs a connection, while there is none.
    needed_since: navlock_wire::Moment,
    /// The version of the protocol that is spoken with the daemon, or was with the last; 0 before the
    /// first.
    version: u16,
    /// Since the connection ended all that was held has been lost, so that nobody needs to look again.
    is_given_up: bool,
    /// How far locks are seen, if that is further than this machine.
    reach: Option<String>,
    terms: TermIndex,
    /// What was said before there was the first connection, in order. `None` once there was one.
    early: Option<BytesMut>,
    /// Whether anything was heard on this one.
    has_heard: bool,
    codec: ClientCodec,
    /// What is to be said and not yet on its way.
    pub(super) outgoing: BytesMut,
}

struct Agent {
    client_id: ClientId,
    /// `None` if no daemon takes a bucket of this name.
    bucket: Option<Arc<str>>,
    info: AgentInfo,
    terminated: bool,
    /// Until when it has what it has, if that ends by itself.
    term: Option<AgentTerm>,
    /// Which entries of the table's `requests` are its: to end it costs what it has, and not what
    /// all have.
    ///
    /// FAST: a hash set has nothing to allocate when a lock is taken again and again.
    requests: HashSet<usize, RandomState>,
}

struct Request {
    serial: u64,
    /// `None` once the agent has been terminated: its number may be another's by now.
    agent: Option<AgentId>,
    name: ResourceName,
    kind: RequestKind,
    /// When it was made or, once it is a lock, granted.
    since: navlock_wire::Moment,
    state: State,
    /// Where in our map it stands.
    place: SlotPlace,
    /// It is counted among those for its name that no take may overtake.
    is_counted: bool,
    /// It may give up by itself.
    may_give_up: bool,
    /// The locks inside which it was made, as far as that was said.
    inside: Vec<navlock_wire::LockId>,
    /// What the daemon has said of it, if it waits for others that wait for it.
    deadlock: Option<Box<InDeadlock>>,
}

impl Table {
    /// That of a client which may own names, or may not.
    pub(super) fn new(key: ClientKey, owned: Arc<Owned>, delegate: bool) -> Self {
        Self {
            key,
            agents: Slab::new(),
            requests: Slab::new(),
            next_serial: 0,
            waiting: 0,
            unmapped: 0,
            owned,
            mapping: Mapping::new(delegate),
            questions: Questions::default(),
            link: Link::Down,
            needed_since: 0,
            version: 0,
            is_given_up: false,
            reach: None,
            terms: TermIndex::default(),
            early: Some(BytesMut::new()),
            has_heard: false,
            codec: ClientCodec::default(),
            outgoing: BytesMut::new(),
        }
    }

    /// That of a process that was forked from the one that has connected.
    pub(super) fn of_fork(key: ClientKey, owned: Arc<Owned>) -> Self {
        Self { link: Link::Forked, early: None, ..Self::new(key, owned, false) }
    }

    /// What has become of what is not in here.
    pub(super) fn lost(&self) -> Lost {
        if self.link == Link::Forked { Lost::Disconnected } else { Lost::Terminated }
    }

    /// Why there will never be a connection, if that is so.
    fn never(&self) -> Option<Error> {
        let why = match self.link {
            Link::Gone => "the thread that kept the connection to the broker has ended",
            Link::Forked => {
                "the connection to the broker is that of the process which this one was forked \
                 from; connect again"
            }
            _ => return None,
        };
        Some(Error::Unreachable(why.to_owned()))
    }

    /// Says something. The first connection begins with all that was said before it; what is said
    /// between it and the next need not be, which begins with all that there is.
    fn say(&mut self, message: &ToDaemon) {
        let bytes = match &mut self.early {
            Some(early) => early,
            None if self.link == Link::Up => &mut self.outgoing,
            None => return,
        };
        // Names and buckets are short enough, or their backend would not have got here.
        let _ = self.codec.encode(message, bytes);
    }

    fn is_forked(&self) -> bool {
        self.link == Link::Forked
    }

    /// Ends what is pending or held, if it is. Whom to wake is added.
    fn end(&mut self, index: usize, error: &Error, lost: Lost, wakers: &mut Vec<Waker>) {
        let request = &mut self.requests[index];
        let (was_pending, was_alive) = (request.state.is_pending(), request.state.is_alive());
        request.state.end(error.clone(), lost, wakers);
        if was_pending {
            self.waits_no_more(index);
        }
        if was_alive {
            self.leave_place(index);
        }
    }

    /// A request is not pending any more.
    fn waits_no_more(&mut self, index: usize) {
        self.waiting -= 1;
        let Request { agent, name, kind, is_counted, .. } = &mut self.requests[index];
        let (is_counted, Some(agent)) = (mem::take(is_counted), *agent) else { return };
        let bucket = self.agents.get(agent.index()).and_then(|agent| agent.bucket.as_deref());
        if let (true, Some(bucket)) = (is_counted, bucket) {
            self.owned.end_wait(bucket, agent, name, kind.mode());
        }
    }

    /// A request or lock ends that was pending or held here.
    fn leave_place(&mut self, index: usize) {
        match mem::take(&mut self.requests[index].place) {
            SlotPlace::Outside => self.count_unmapped(-1),
            // It may be granted for all that is known here.
            SlotPlace::Slot(slot) => self.owned.aborted(slot, self.next_serial),
            SlotPlace::Hold(hold) => self.owned.end_first(hold),
        }
    }

    fn count_unmapped(&mut self, more: i32) {
        self.unmapped = self.unmapped.saturating_add_signed(more);
        if !self.is_forked() {
            self.owned.set_unmapped(self.unmapped);
        }
    }

    /// Makes a request.
    pub(super) fn request(
        &mut self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        waker: &Waker,
    ) -> Result<RequestId, Error> {
        if let Some(error) = self.never() {
            return Err(error);
        }
        let Some(known) = self.agents.get(agent.index()).filter(|known| !known.terminated) else {
            return Err(Error::Terminated);
        };
        // The caller's code, so before anything is changed.
        let state = State::Pending(waker.clone());
        let serial = self.next_serial;
        self.next_serial += 1;
        let id = id(self.requests.vacant_key(), serial);
        let Began { slot, is_counted, finished, wants_room } = self.owned.begin(&Asked {
            id,
            agent,
            client_id: known.client_id,
            bucket: known.bucket.clone().unwrap_or_default(),
            name,
            kind,
            in_slot: self.link == Link::Up && self.mapping.is_confirmed(),
        });
        let place = slot.map_or(SlotPlace::Outside, SlotPlace::Slot);
        let (name, since) = (name.clone(), clock::now());
        self.requests.insert(Request {
            serial,
            agent: Some(agent),
            name: name.clone(),
            kind,
            since,
            state,
            place,
            is_counted,
            may_give_up: false,
            inside: Vec::new(),
            deadlock: None,
        });
        self.waiting += 1;
        self.agents[agent.index()].requests.insert(id.index());
        self.need_link();
        self.see_to_map(wants_room);
        for request in finished {
            self.say(&ToDaemon::Finish { request });
        }
        let agent = number(agent);
        if let Some(slot) = slot.map(Owned::number) {
            self.say(&ToDaemon::RequestInSlot { agent, request: id, name, kind, slot });
        } else {
            self.count_unmapped(1);
            self.say(&ToDaemon::Request { agent, request: id, name, kind });
        }
        Ok(id)
    }

    /// Ends a request or lock and forgets it. Its state, for the caller to drop elsewhere, if it
    /// was there.
    pub(super) fn finish(&mut self, id: RequestId) -> Option<State> {
        let state = self.state(id)?;
        let (was_pending, was_alive) = (state.is_pending(), state.is_alive());
        if was_pending {
            self.waits_no_more(id.index());
        }
        if was_alive {
            let place = self.requests[id.index()].place;
            // A name that stays ours is nobody else's affair.
            if !matches!(place, SlotPlace::Hold(hold) if self.owned.finish_first(hold)) {
                let was_in_slot = matches!(place, SlotPlace::Hold(_));
                self.leave_place(id.index());
                self.say_finished(id, was_in_slot);
            }
        }
        let request = self.requests.remove(id.index());
        if let Some(agent) = request.agent {
            self.agents[agent.index()].requests.remove(&id.index());
        }
        Some(request.state)
    }

    /// What was taken is released, and not ours any more: tells the daemon. What was noted of it, for
    /// the caller to drop elsewhere.
    pub(super) fn finish_taken(&mut self, taken: RequestId) -> Option<Note> {
        let (request, note) = self.owned.finish(taken);
        if let Some(request) = request {
            self.say_finished(request, true);
        }
        note
    }

    /// Tells the daemon that something is released or aborted, or the next daemon, if there is none: one
    /// that has read in our map that it is held goes by that until we come back.
    fn say_finished(&mut self, request: RequestId, was_in_slot: bool) {
        if was_in_slot {
            self.need_link();
        }
        self.say(&ToDaemon::Finish { request });
    }

    /// Whether there is a daemon that hears more of agents and requests than what is needed.
    fn tells_more(&self) -> bool {
        self.link == Link::Up && self.version >= LOOKING_VERSION
    }

    /// The state of a request that is not forgotten.
    pub(super) fn state(&mut self, id: RequestId) -> Option<&mut State> {
        let request = self.requests.get_mut(id.index())?;
        (request.serial == id.serial()).then_some(&mut request.state)
    }

    /// Whether anybody waits for an answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0 || !self.questions.is_empty()
    }

    /// Asks something.
    pub(super) fn ask(&mut self, question: impl FnOnce(Query) -> ToDaemon) -> Query {
        let query = self.questions.number();
        let asked = question(query);
        self.need_link();
        self.say(&asked);
        let never = self.never();
        let question = self.questions.insert(query, asked);
        question.outcome = never.map(Err);
        query
    }

    /// Whether the daemon can be asked where an agent stands in a queue.
    pub(super) fn knows_positions(&self) -> bool {
        self.version >= POSITION_VERSION
    }

    /// How far locks are seen, if that is further than this machine.
    pub(super) fn reach(&self) -> Option<&str> {
        self.reach.as_deref()
    }
}

/// What a request is called, here and on the wire.
fn id(index: usize, serial: u64) -> RequestId {
    RequestId::from_parts(index_of_32_bits(index), serial)
}

fn index_of_32_bits(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends before 2^32 agents or requests")
}

/// What the agent is called on the wire.
fn number(agent: AgentId) -> navlock_wire::Agent {
    u32::try_from(agent.index()).expect("an agent's id is made from an index of 32 bits")
}
