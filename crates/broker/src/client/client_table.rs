//! The state of a client: its agents, requests and questions. All of it outlives a connection, and
//! a new connection begins with it.

mod agents;
mod claims;
mod link;
mod mapping;
mod messages;
mod nested;
mod owning;
#[cfg(test)]
mod simulated;
mod state;
mod term_ends;
mod terms;
mod without_link;

use std::{collections::HashSet, mem, sync::Arc, task::Waker};

use bytes::BytesMut;
use foldhash::fast::FixedState;
use navlock_core::{
    AgentInfo, ClientId, Error, Lost, ResourceName, Unreachable,
    host::{RequestKind, clip_bytes},
    look::{InDeadlock, LockId, Patience},
};
use navlock_engine::{AgentId, RequestId};
use navlock_wire::{ClientKey, MAX_TEXT, Query, Sent, ToDaemon, encode};
use slab::Slab;

use self::{
    link::Link,
    mapping::Mapping,
    state::SlotPlace,
    terms::{AgentTerm, TermIndex},
};

pub(super) use self::{mapping::MapTask, state::State};
use super::{
    owned::{self, Asked, Began, Note, Owned},
    questions::Questions,
};
use crate::clock;

/// The state of a client.
pub(super) struct ClientTable {
    key: ClientKey,
    agents: Slab<Agent>,
    requests: Slab<Request>,
    next_serial: u64,
    /// How many requests are pending.
    waiting: usize,
    /// How many requests and locks are in no slot of our map.
    unmapped: u32,
    /// The names that this client owns.
    owned: Arc<Owned>,
    mapping: Mapping,
    pub(super) questions: Questions,
    link: Link,
    /// Since when somebody needs a connection, while there is none.
    needed_since: navlock_wire::Moment,
    /// Whether all locks have been lost since the connection ended, so that nobody needs to look
    /// again.
    is_given_up: bool,
    /// How far locks are seen, if they are seen beyond this machine.
    reach: Option<String>,
    terms: TermIndex,
    /// The messages from before the first connection, in order. `None` once there was one.
    early: Option<BytesMut>,
    /// Whether anything was read on this connection.
    has_heard: bool,
    /// The messages that have to be sent and are not on their way yet.
    pub(super) outgoing: BytesMut,
}

struct Agent {
    client_id: ClientId,
    /// The bucket of the agent. `None` if no daemon takes a bucket of this name.
    bucket: Option<Arc<str>>,
    info: AgentInfo,
    terminated: bool,
    /// Until when the agent has its locks, if they end by themselves.
    term: Option<AgentTerm>,
    /// The indices of the agent's entries in the table's `requests`, so that the cost to end an
    /// agent does not depend on what other agents have.
    ///
    /// FAST: a hash set allocates nothing when a lock is taken again and again.
    requests: HashSet<usize, FixedState>,
}

struct Request {
    serial: u64,
    /// The agent. `None` when the agent has been terminated, because another agent may have its
    /// number by now.
    agent: Option<AgentId>,
    name: ResourceName,
    kind: RequestKind,
    /// When the request was made or, for a lock, granted.
    since: navlock_wire::Moment,
    state: State,
    /// Its place in our map.
    place: SlotPlace,
    /// Whether the request is counted among those for its name that no take in the map may
    /// overtake.
    is_counted: bool,
    /// Whether all is told that the program says of the request when it makes it. Until then nothing
    /// of the request needs to be sent.
    is_made: bool,
    /// How long the request waits.
    patience: Patience,
    /// The agent that was answered and has not taken the answer yet.
    untaken: Option<AgentId>,
    /// What few requests have, so that it takes no room in the others.
    more: Option<Box<More>>,
}

#[derive(Default)]
struct More {
    /// What the lock is for; empty if the program does not say so of this request.
    why: String,
    /// The locks inside which the request was made, as far as the program has said so.
    inside: Vec<LockId>,
    /// The deadlock that the request is part of, in the daemon's words.
    deadlock: Option<InDeadlock>,
}

impl ClientTable {
    /// The table of a client. `delegate` says whether the client may own names.
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
            is_given_up: false,
            reach: None,
            terms: TermIndex::default(),
            early: Some(BytesMut::new()),
            has_heard: false,
            outgoing: BytesMut::new(),
        }
    }

    /// The table of a process that was forked from the one that has connected.
    pub(super) fn of_fork(key: ClientKey, owned: Arc<Owned>) -> Self {
        Self { link: Link::Forked, early: None, ..Self::new(key, owned, false) }
    }

    /// How a lock that is not in the table was lost.
    pub(super) fn lost(&self) -> Lost {
        if self.link == Link::Forked { Lost::Disconnected } else { Lost::Terminated }
    }

    /// Why there will never be a connection, if there will never be one.
    fn never(&self) -> Option<Error> {
        let why = match self.link {
            Link::Gone => "the thread that kept the connection to the broker has ended",
            Link::Forked => {
                "the connection to the broker is that of the process which this one was forked \
                 from; connect again"
            }
            _ => return None,
        };
        Some(Unreachable::other(why).into())
    }

    /// Queues a message. Messages from before the first connection are sent when that connection
    /// begins. Messages between two connections are dropped, because the next connection begins
    /// with claims of everything.
    fn say(&mut self, message: &ToDaemon) {
        let bytes = match &mut self.early {
            Some(early) => early,
            None if self.link == Link::Up => &mut self.outgoing,
            None => return,
        };
        // Encoding cannot fail: names and buckets that are too long were refused before.
        let _ = encode(&Sent { at: clock::now(), message }, bytes);
    }

    fn is_forked(&self) -> bool {
        self.link == Link::Forked
    }

    /// Ends a request or lock, if it is pending or held. Adds the wakers to call to `wakers`.
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

    /// Notes that a request is not pending any more.
    fn waits_no_more(&mut self, index: usize) {
        self.waiting -= 1;
        let Request { agent, name, kind, is_counted, .. } = &mut self.requests[index];
        let (is_counted, Some(agent)) = (mem::take(is_counted), *agent) else { return };
        let bucket = self.agents.get(agent.index()).and_then(|agent| agent.bucket.as_deref());
        if let (true, Some(bucket)) = (is_counted, bucket) {
            self.owned.slots().end_wait(bucket, agent, name, kind.mode());
        }
    }

    /// Frees the place in the map of a request or lock that was pending or held and ends.
    fn leave_place(&mut self, index: usize) {
        match mem::take(&mut self.requests[index].place) {
            SlotPlace::Outside => self.count_unmapped(-1),
            // The request may be granted already, and the news may be on its way.
            SlotPlace::Slot(slot) => self.owned.slots().abort(slot, self.next_serial),
            SlotPlace::Hold(hold) => self.owned.slots().end_first(hold),
        }
    }

    fn count_unmapped(&mut self, more: i32) {
        self.unmapped = self.unmapped.saturating_add_signed(more);
        if !self.is_forked() {
            if let Some(map) = self.owned.map() {
                map.set_unmapped(self.unmapped);
            }
        }
    }

    /// Makes a request. If it says what its lock is for, it has no slot: a map has no place for that.
    pub(super) fn request(
        &mut self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        why: &str,
        waker: &Waker,
    ) -> Result<RequestId, Error> {
        if let Some(error) = self.never() {
            return Err(error);
        }
        let Some(known) = self.agents.get(agent.index()).filter(|known| !known.terminated) else {
            return Err(Error::Terminated);
        };
        // `clone` is the caller's code, so it is called before anything is changed.
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
            in_slot: self.link == Link::Up && self.mapping.is_confirmed() && why.is_empty(),
        });
        self.need_link();
        self.see_to_map(wants_room);
        for request in finished {
            self.say(&ToDaemon::Finish { request });
        }
        let more = (!why.is_empty()).then(|| {
            let why = clip_bytes(why, MAX_TEXT);
            self.say(&ToDaemon::Why { request: id, why: why.to_owned() });
            Box::new(More { why: why.to_owned(), ..More::default() })
        });
        let (of, since) = (number(agent), clock::now());
        if slot.is_none() {
            self.count_unmapped(1);
        }
        let (request, number) = (id, slot.map(owned::number));
        let message =
            ToDaemon::Request { agent: of, request, name: name.clone(), kind, slot: number };
        self.say(&message);
        let name = match message {
            // FAST: the name comes back out of the message, which saves a clone.
            ToDaemon::Request { name, .. } => name,
            _ => name.clone(),
        };
        self.requests.insert(Request {
            serial,
            agent: Some(agent),
            name,
            kind,
            since,
            state,
            place: slot.map_or(SlotPlace::Outside, SlotPlace::Slot),
            is_counted,
            is_made: false,
            patience: Patience::Endless,
            untaken: None,
            more,
        });
        self.owned.note_asked(agent, serial);
        self.waiting += 1;
        self.agents[agent.index()].requests.insert(id.index());
        Ok(id)
    }

    /// Ends a request or lock and forgets it. Returns its state if it was there, for the caller to
    /// drop without the table locked.
    pub(super) fn finish(&mut self, id: RequestId) -> Option<State> {
        let state = self.state(id)?;
        let (was_pending, was_alive) = (state.is_pending(), state.is_alive());
        if was_pending {
            self.waits_no_more(id.index());
        }
        if was_alive {
            let place = self.requests[id.index()].place;
            // If the client goes on owning the name, it does not tell the daemon.
            if !matches!(place, SlotPlace::Hold(hold) if self.owned.slots().finish_first(hold)) {
                let was_in_slot = matches!(place, SlotPlace::Hold(_));
                self.leave_place(id.index());
                self.say_finished(id, was_in_slot);
            }
        }
        self.note_taken(id);
        let request = self.requests.remove(id.index());
        if let Some(agent) = request.agent {
            self.agents[agent.index()].requests.remove(&id.index());
        }
        Some(request.state)
    }

    /// Tells the daemon that a lock that was taken in the map is released, if its name is not owned
    /// any more. Returns the lock's note, for the caller to drop without the table locked.
    pub(super) fn finish_taken(&mut self, taken: RequestId) -> Option<Note> {
        let (request, note) = self.owned.slots().finish(taken);
        if let Some(request) = request {
            self.say_finished(request, true);
        }
        note
    }

    /// Tells the daemon that a request or lock has ended. Without a daemon, a connection to the next one
    /// is needed: the next daemon may have read in our map that the lock is held, and believes the map
    /// until this client comes back.
    fn say_finished(&mut self, request: RequestId, was_in_slot: bool) {
        if was_in_slot {
            self.need_link();
        }
        self.say(&ToDaemon::Finish { request });
    }

    /// The state of a request, if it is not forgotten.
    pub(super) fn state(&mut self, id: RequestId) -> Option<&mut State> {
        let request = self.requests.get_mut(id.index())?;
        (request.serial == id.serial()).then_some(&mut request.state)
    }

    /// Whether anybody waits for an answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0 || !self.questions.is_empty()
    }

    /// Asks a question.
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
}

/// The id of a request, here and on the wire.
fn id(index: usize, serial: u64) -> RequestId {
    RequestId::from_parts(index_of_32_bits(index), serial)
}

fn index_of_32_bits(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends before 2^32 agents or requests")
}

/// The number of an agent on the wire.
fn number(agent: AgentId) -> navlock_wire::Agent {
    u32::try_from(agent.index()).expect("an agent's id is made from an index of 32 bits")
}
