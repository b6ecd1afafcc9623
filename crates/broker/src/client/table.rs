//! What the client knows: its agents, its requests and its questions.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    task::Waker,
};

use navlock_core::{ClientId, Error, LockInfo, LockManagerSnapshot, Lost, backend::Answer};
use navlock_engine::{AgentId, FencingToken, RequestId};
use navlock_wire::{Failure, FromDaemon, Query, SnapshotEntry};
use slab::Slab;

/// The state of a connection.
#[derive(Default)]
pub(super) struct Table {
    agents: Slab<Agent>,
    requests: Slab<Request>,
    next_serial: u64,
    pub(super) questions: HashMap<Query, Question>,
    next_query: Query,
    /// Why the connection has ended, if it has.
    ended: Option<Error>,
}

#[derive(Default)]
struct Agent {
    terminated: bool,
    /// Which entries of the table's `requests` are its: to end it costs what it has, and not what
    /// all have.
    requests: BTreeSet<usize>,
}

struct Request {
    serial: u64,
    /// `None` once the agent has been terminated: its number may be another's by now.
    agent: Option<AgentId>,
    state: State,
}

/// Where a request or lock stands, as far as is known here.
pub(super) enum State {
    Pending(Waker),
    Held(FencingToken, Vec<Waker>),
    Unavailable,
    Failed(Error),
    Lost(Lost),
}

/// A question for a snapshot.
#[derive(Default)]
pub(super) struct Question {
    pub(super) snapshot: LockManagerSnapshot,
    pub(super) outcome: Option<Result<(), Error>>,
    pub(super) waker: Option<Waker>,
}

impl Table {
    pub(super) fn open_agent(&mut self) -> AgentId {
        let index = self.agents.insert(Agent::default());
        AgentId::from_index(u32::try_from(index).expect("memory ends before 2^32 agents"))
    }

    pub(super) fn close_agent(&mut self, agent: AgentId) {
        self.agents.try_remove(agent.index());
    }

    /// Ends all that the agent has. Whom to wake.
    ///
    /// What the daemon says of these from here on is not heard any more.
    pub(super) fn terminate(&mut self, agent: AgentId) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(Agent { terminated, requests }) = self.agents.get_mut(agent.index()) else {
            return wakers;
        };
        *terminated = true;
        for index in mem::take(requests) {
            let request = &mut self.requests[index];
            request.agent = None;
            request.state.end(Error::Terminated, Lost::Terminated, &mut wakers);
        }
        wakers
    }

    /// Notes a request that is about to be made.
    pub(super) fn request(&mut self, agent: AgentId, waker: &Waker) -> Result<RequestId, Error> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        // Foreign code, so before anything is changed.
        let state = State::Pending(waker.clone());
        let requests = match self.agents.get_mut(agent.index()) {
            Some(agent) if !agent.terminated => &mut agent.requests,
            _ => return Err(Error::Terminated),
        };
        let serial = self.next_serial;
        self.next_serial += 1;
        let index = self.requests.insert(Request { serial, agent: Some(agent), state });
        requests.insert(index);
        let index = u32::try_from(index).expect("memory ends before 2^32 requests");
        Ok(RequestId::from_parts(index, serial))
    }

    /// Forgets a request. Its state, for the caller to drop elsewhere, if it was there.
    pub(super) fn forget(&mut self, id: RequestId) -> Option<State> {
        self.state(id)?;
        let request = self.requests.remove(id.index());
        if let Some(agent) = request.agent {
            self.agents[agent.index()].requests.remove(&id.index());
        }
        Some(request.state)
    }

    /// The state of a request that is not forgotten.
    pub(super) fn state(&mut self, id: RequestId) -> Option<&mut State> {
        let request = self.requests.get_mut(id.index())?;
        (request.serial == id.serial()).then_some(&mut request.state)
    }

    /// Notes a question that is about to be asked.
    pub(super) fn ask(&mut self) -> Query {
        let query = self.next_query;
        self.next_query += 1;
        let outcome = self.ended.clone().map(Err);
        self.questions.insert(query, Question { outcome, ..Question::default() });
        query
    }

    /// Takes in what the daemon says. What concerns nobody any more crossed with its end.
    pub(super) fn take_in(&mut self, message: FromDaemon, wakers: &mut Vec<Waker>) {
        match message {
            FromDaemon::Granted { request, token } => {
                self.answer(request, State::Held(token, Vec::new()), wakers);
            }
            FromDaemon::Unavailable { request } => {
                self.answer(request, State::Unavailable, wakers);
            }
            FromDaemon::Failed { request, failure } => {
                self.answer(request, State::Failed(failed(failure)), wakers);
            }
            FromDaemon::Lost { request, how } => {
                let lost = match how {
                    navlock_wire::Lost::Stolen => Lost::Stolen,
                    navlock_wire::Lost::Terminated => Lost::Terminated,
                    navlock_wire::Lost::Closed => Lost::Closed,
                    _ => Lost::Disconnected,
                };
                if let Some(state) = self.state(request) {
                    state.end(lost.into(), lost, wakers);
                }
            }
            FromDaemon::Snapshot { query, held, pending, last } => {
                if let Some(question) = self.questions.get_mut(&query) {
                    question.snapshot.held.extend(held.into_iter().map(info));
                    question.snapshot.pending.extend(pending.into_iter().map(info));
                    if last {
                        question.end(Ok(()), wakers);
                    }
                }
            }
            FromDaemon::QueryFailed { query, failure } => {
                if let Some(question) = self.questions.get_mut(&query) {
                    question.end(Err(failed(failure)), wakers);
                }
            }
            // Said before there was a session; twice changes nothing.
            _ => {}
        }
    }

    fn answer(&mut self, request: RequestId, answer: State, wakers: &mut Vec<Waker>) {
        // Only who waits is answered: an agent that was terminated here holds nothing any more.
        if let Some(state @ State::Pending(_)) = self.state(request) {
            if let State::Pending(waker) = mem::replace(state, answer) {
                wakers.push(waker);
            }
        }
    }

    /// The connection has ended: nobody waits for it any more. Whom to wake.
    pub(super) fn end(&mut self, error: Error) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for (_, request) in &mut self.requests {
            request.state.end(error.clone(), Lost::Disconnected, &mut wakers);
        }
        for question in self.questions.values_mut() {
            question.end(Err(error.clone()), &mut wakers);
        }
        self.ended = Some(error);
        wakers
    }
}

impl State {
    /// Ends what is pending with an error and what is held as lost; other ends stay as they are.
    fn end(&mut self, error: Error, lost: Lost, wakers: &mut Vec<Waker>) {
        let end = match self {
            Self::Pending(_) => Self::Failed(error),
            Self::Held(..) => Self::Lost(lost),
            _ => return,
        };
        match mem::replace(self, end) {
            Self::Pending(waker) => wakers.push(waker),
            Self::Held(_, watchers) => wakers.extend(watchers),
            _ => {}
        }
    }

    /// Whether the daemon knows of it too.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self, Self::Pending(_) | Self::Held(..))
    }

    /// The answer to the request, if it is there.
    pub(super) fn answer(&self) -> Option<Result<Answer, Error>> {
        match self {
            Self::Pending(_) => None,
            Self::Held(token, _) => Some(Ok(Answer::Granted(*token))),
            Self::Unavailable => Some(Ok(Answer::Unavailable)),
            Self::Failed(error) => Some(Err(error.clone())),
            Self::Lost(lost) => Some(Err((*lost).into())),
        }
    }
}

impl Question {
    fn end(&mut self, outcome: Result<(), Error>, wakers: &mut Vec<Waker>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            wakers.extend(self.waker.take());
        }
    }
}

fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Terminated => Error::Terminated,
        Failure::Closed => Error::Unreachable("the broker is ending; connect again".to_owned()),
        Failure::Refused(why) => Error::Refused(why),
        Failure::Other(why) => Error::Unreachable(why),
        _ => Error::Unreachable("the broker refused, in words of a later version".to_owned()),
    }
}

fn info(entry: SnapshotEntry) -> LockInfo {
    LockInfo::new(entry.name, entry.mode, ClientId::from_bytes(entry.client_id))
}
