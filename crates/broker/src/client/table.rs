//! What the client knows: its agents, its requests and its questions. It is all that outlives a
//! connection, and enough to begin another one with.

mod state;
mod terms;

use std::{collections::HashSet, mem, sync::Arc, task::Waker};

use bytes::BytesMut;
use foldhash::fast::RandomState;
use navlock_core::{AgentInfo, ClientId, Error, Lost, ResourceName, host::RequestKind};
use navlock_engine::{AgentId, RequestId};
use navlock_wire::{
    ClientCodec, ClientKey, Failure, FromDaemon, POSITION_VERSION, Query, ToDaemon,
};
use slab::Slab;
use tokio_util::codec::Encoder;

pub(super) use self::state::State;
use self::terms::{Term, Terms};
use super::questions::Questions;
use crate::{clock, forms::to_wire};

/// The state of a client.
pub(super) struct Table {
    key: ClientKey,
    agents: Slab<Agent>,
    requests: Slab<Request>,
    next_serial: u64,
    /// How many requests are pending.
    waiting: usize,
    pub(super) questions: Questions,
    link: Link,
    /// The version of the protocol that is spoken with the daemon, or was with the last; 0 before the
    /// first.
    version: u16,
    /// Since the connection ended all that was held has been lost, so that nobody needs to look again.
    is_given_up: bool,
    /// How far locks are seen, if that is further than this machine.
    reach: Option<String>,
    terms: Terms,
    /// What was said before there was the first connection, in order. `None` once there was one.
    early: Option<BytesMut>,
    /// Whether anything was heard on this one.
    has_heard: bool,
    codec: ClientCodec,
    /// What is to be said and not yet on its way.
    pub(super) outgoing: BytesMut,
}

/// Whether there is a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Up,
    /// There will be one, or word of why not.
    Coming,
    /// There is none, until somebody needs one.
    Down,
    /// There is none, and will be none: its keeper has gone.
    Gone,
    /// It is that of the process that this one was forked from.
    Forked,
}

struct Agent {
    client_id: ClientId,
    /// `None` if no daemon takes a bucket of this name.
    bucket: Option<Arc<str>>,
    info: AgentInfo,
    terminated: bool,
    /// Until when it has what it has, if that ends by itself.
    term: Option<Term>,
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
}

impl Table {
    pub(super) fn new(key: ClientKey) -> Self {
        Self {
            key,
            agents: Slab::new(),
            requests: Slab::new(),
            next_serial: 0,
            waiting: 0,
            questions: Questions::default(),
            link: Link::Down,
            version: 0,
            is_given_up: false,
            reach: None,
            terms: Terms::default(),
            early: Some(BytesMut::new()),
            has_heard: false,
            codec: ClientCodec::default(),
            outgoing: BytesMut::new(),
        }
    }

    /// That of a process that was forked from the one that has connected.
    pub(super) fn of_fork(key: ClientKey) -> Self {
        Self { link: Link::Forked, early: None, ..Self::new(key) }
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

    pub(super) fn open_agent(
        &mut self,
        client_id: ClientId,
        bucket: Option<&Arc<str>>,
        info: AgentInfo,
    ) -> AgentId {
        let (bucket, requests) = (bucket.cloned(), HashSet::default());
        let agent = Agent { client_id, bucket, info, terminated: false, term: None, requests };
        let index = self.agents.insert(agent);
        let id = AgentId::from_index(index_of_32_bits(index));
        for message in self.introduction(index) {
            self.say(&message);
        }
        id
    }

    /// The messages by which an agent is made known.
    fn introduction(&self, index: usize) -> Vec<ToDaemon> {
        let Some(Agent { client_id, bucket: Some(bucket), info, .. }) = self.agents.get(index)
        else {
            return Vec::new();
        };
        let agent = number(AgentId::from_index(index_of_32_bits(index)));
        let (client_id, bucket) = (client_id.to_bytes(), bucket.as_ref().to_owned());
        vec![
            ToDaemon::OpenAgent { agent, client_id, bucket },
            ToDaemon::Describe { agent, info: to_wire(info) },
        ]
    }

    pub(super) fn describe(&mut self, agent: AgentId, info: &AgentInfo) {
        if let Some(known) = self.agents.get_mut(agent.index()) {
            known.info = info.clone();
            if known.bucket.is_some() {
                self.say(&ToDaemon::Describe { agent: number(agent), info: to_wire(info) });
            }
        }
    }

    pub(super) fn close_agent(&mut self, agent: AgentId) -> Vec<Waker> {
        let wakers = self.end_agent(agent);
        if self.agents.try_remove(agent.index()).is_some_and(|agent| agent.bucket.is_some()) {
            self.say(&ToDaemon::CloseAgent { agent: number(agent) });
        }
        wakers
    }

    /// Ends all that the agent has. Whom to wake.
    ///
    /// What the daemon says of these from here on is not heard any more.
    pub(super) fn terminate(&mut self, agent: AgentId) -> Vec<Waker> {
        if self.agents.get(agent.index()).is_some_and(|agent| agent.bucket.is_some()) {
            self.say(&ToDaemon::Terminate { agent: number(agent) });
        }
        self.end_agent(agent)
    }

    fn end_agent(&mut self, agent: AgentId) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(Agent { terminated, requests, .. }) = self.agents.get_mut(agent.index()) else {
            return wakers;
        };
        *terminated = true;
        for index in mem::take(requests) {
            let request = &mut self.requests[index];
            request.agent = None;
            self.waiting -= request.state.end(Error::Terminated, Lost::Terminated, &mut wakers);
        }
        wakers
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
        let requests = match self.agents.get_mut(agent.index()) {
            Some(agent) if !agent.terminated => &mut agent.requests,
            _ => return Err(Error::Terminated),
        };
        // Foreign code, so before anything is changed.
        let state = State::Pending(waker.clone());
        let serial = self.next_serial;
        self.next_serial += 1;
        let (name, since) = (name.clone(), clock::now());
        let request =
            Request { serial, agent: Some(agent), name: name.clone(), kind, since, state };
        let index = self.requests.insert(request);
        self.waiting += 1;
        requests.insert(index);
        let id = id(index, serial);
        self.need_link();
        self.say(&ToDaemon::Request { agent: number(agent), request: id, name, kind });
        Ok(id)
    }

    /// Ends a request or lock and forgets it. Its state, for the caller to drop elsewhere, if it
    /// was there.
    pub(super) fn finish(&mut self, id: RequestId) -> Option<State> {
        self.state(id)?;
        let request = self.requests.remove(id.index());
        if let Some(agent) = request.agent {
            self.agents[agent.index()].requests.remove(&id.index());
        }
        self.waiting -= usize::from(matches!(request.state, State::Pending(_)));
        if request.state.is_alive() {
            self.say(&ToDaemon::Finish { request: id });
        }
        Some(request.state)
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

    fn need_link(&mut self) {
        if self.link == Link::Down {
            self.link = Link::Coming;
        }
    }

    /// Whether there is no connection and somebody needs one.
    pub(super) fn needs_link(&self) -> bool {
        self.link == Link::Coming
    }

    /// Begins to speak on a new connection, in this version and to a daemon whose locks are seen so
    /// far: with all that there is. Whom to wake.
    pub(super) fn connected(&mut self, version: u16, reach: Option<String>) -> Vec<Waker> {
        // Another daemon of this machine only does not know of what others keep.
        let mut woken = if reach.is_none() { self.end_terms() } else { Vec::new() };
        self.version = version;
        self.reach = reach;
        self.outgoing.clear();
        self.link = Link::Up;
        self.is_given_up = false;
        self.has_heard = false;
        let early = self.early.take();
        self.say(&ToDaemon::Introduce { client: self.key, returning: early.is_none() });
        if let Some(early) = early {
            self.outgoing.extend_from_slice(&early);
            return woken;
        }
        for message in self.claims(|_| true) {
            self.say(&message);
        }
        for asked in self.questions.again(version, &mut woken) {
            self.say(&asked);
        }
        woken
    }

    /// Whether the daemon can be asked where an agent stands in a queue.
    pub(super) fn knows_positions(&self) -> bool {
        self.version >= POSITION_VERSION
    }

    /// How far locks are seen, if that is further than this machine.
    pub(super) fn reach(&self) -> Option<&str> {
        self.reach.as_deref()
    }

    /// The messages by which what there is can be claimed: agents, then what they have in a state
    /// that is wanted.
    fn claims(&self, wanted: impl Fn(&State) -> bool) -> Vec<ToDaemon> {
        let agents = self.agents.iter().flat_map(|(index, _)| self.introduction(index));
        let requests = self.requests.iter().filter(|(_, request)| wanted(&request.state));
        let claims = requests.filter_map(|(index, request)| {
            let &Request { serial, agent, ref name, kind, since, ref state } = request;
            let (agent, request, name) = (number(agent?), id(index, serial), name.clone());
            match *state {
                State::Pending(_) => {
                    Some(ToDaemon::ClaimRequest { agent, request, name, kind, since })
                }
                State::Held(token, _) => {
                    let mode = kind.mode();
                    Some(ToDaemon::ClaimLock { agent, request, name, mode, token, since })
                }
                _ => None,
            }
        });
        agents.chain(claims).chain([ToDaemon::Claimed]).collect()
    }

    /// The messages by which others can claim what is held now.
    pub(super) fn testament(&self) -> BytesMut {
        let mut codec = ClientCodec::default();
        let mut bytes = BytesMut::new();
        for claim in self.claims(|state| matches!(state, State::Held(..))) {
            // As in `say`.
            let _ = codec.encode(&claim, &mut bytes);
        }
        bytes
    }

    /// The connection has ended. Whether nothing was heard on it.
    pub(super) fn disconnected(&mut self) -> bool {
        self.outgoing.clear();
        self.link = Link::Coming;
        !self.has_heard
    }

    /// There will never be a connection.
    pub(super) fn orphan(&mut self) {
        self.link = Link::Gone;
    }

    /// Whether there is no daemon to say what is lost of what may be held.
    pub(super) fn is_alone(&self) -> bool {
        self.link != Link::Up
            && self.link != Link::Forked
            && self.early.is_none()
            && !self.is_given_up
    }

    /// Whether anything is held.
    pub(super) fn holds(&self) -> bool {
        self.requests.iter().any(|(_, request)| matches!(request.state, State::Held(..)))
    }

    /// Ends what is held and lost. Whom to wake.
    pub(super) fn lose(&mut self, is_lost: impl Fn(RequestId) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut is_left = false;
        for (index, request) in &mut self.requests {
            if matches!(request.state, State::Held(..)) {
                if is_lost(id(index, request.serial)) {
                    let lost = Lost::Disconnected;
                    request.state.end(Error::from(lost), lost, &mut wakers);
                } else {
                    is_left = true;
                }
            }
        }
        self.is_given_up = !is_left;
        wakers
    }

    /// There is no connection to be had: nobody waits for it any more. What is held is held until it
    /// is [lost](Self::lose). Whom to wake.
    pub(super) fn give_up(&mut self, error: &Error) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for (_, request) in &mut self.requests {
            if matches!(request.state, State::Pending(_)) {
                self.waiting -= request.state.end(error.clone(), Lost::Disconnected, &mut wakers);
            }
        }
        self.questions.give_up(error, &mut wakers);
        self.link = Link::Down;
        if let Some(early) = &mut self.early {
            // Of what was said, the agents are left.
            early.clear();
            let agents: Vec<_> =
                self.agents.iter().flat_map(|(index, _)| self.introduction(index)).collect();
            for message in agents {
                self.say(&message);
            }
        }
        wakers
    }

    /// Takes in what the daemon says. What concerns nobody any more crossed with its end.
    pub(super) fn take_in(&mut self, message: FromDaemon, wakers: &mut Vec<Waker>) {
        self.has_heard = true;
        match message {
            FromDaemon::Granted { request, token } => {
                self.answer(request, State::Held(token, Vec::new()), wakers);
                if self.terms.are_known() {
                    self.look_again(request);
                }
            }
            FromDaemon::Term { agent, ends } => self.set_term(agent, ends),
            FromDaemon::TermBounds { agent, heard, due, expires } => {
                self.set_bounds(agent, heard, due, expires);
            }
            FromDaemon::Unavailable { request } => {
                self.answer(request, State::Unavailable, wakers);
            }
            FromDaemon::Failed { request, failure } => {
                self.answer(request, State::Failed(failed(failure)), wakers);
            }
            FromDaemon::Lost { request, how } => {
                let stolen_by = match how {
                    navlock_wire::Lost::StolenBy(thief) => Some(ClientId::from_bytes(thief)),
                    _ => None,
                };
                let lost = match how {
                    navlock_wire::Lost::Stolen | navlock_wire::Lost::StolenBy(_) => Lost::Stolen,
                    navlock_wire::Lost::Terminated => Lost::Terminated,
                    navlock_wire::Lost::Closed => Lost::Closed,
                    navlock_wire::Lost::Reset => Lost::Reset,
                    navlock_wire::Lost::Removed => Lost::Removed,
                    _ => Lost::Disconnected,
                };
                if let Some(state) = self.state(request) {
                    let settled = state.end(lost.into(), lost, wakers);
                    if let State::Lost(_, by) = state {
                        *by = stolen_by;
                    }
                    self.waiting -= settled;
                }
            }
            FromDaemon::Snapshot { .. }
            | FromDaemon::Inspection { .. }
            | FromDaemon::Owned { .. }
            | FromDaemon::Position { .. }
            | FromDaemon::Status { .. }
            | FromDaemon::QueryFailed { .. } => self.questions.take_in(message, wakers),
            // Said before there was a session; twice changes nothing.
            _ => {}
        }
    }

    fn answer(&mut self, id: RequestId, answer: State, wakers: &mut Vec<Waker>) {
        let Some(request) = self.requests.get_mut(id.index()) else {
            return;
        };
        // Only who waits is answered: an agent that was terminated here holds nothing any more.
        if request.serial == id.serial() && matches!(request.state, State::Pending(_)) {
            request.since = clock::now();
            self.waiting -= 1;
            if let State::Pending(waker) = mem::replace(&mut request.state, answer) {
                wakers.push(waker);
            }
        }
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

pub(super) fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Terminated => Error::Terminated,
        Failure::Closed => Error::Unreachable("the broker is ending; try again".to_owned()),
        Failure::Refused(why) => Error::Refused(why),
        Failure::Other(why) => Error::Unreachable(why),
        _ => Error::Unreachable("the broker refused, in words of a later version".to_owned()),
    }
}
