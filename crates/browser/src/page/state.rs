//! The state of a page: its agents, their requests and locks, and what the browser is still to be told.
//!
//! Nothing in here calls the caller's code: it is borrowed while it changes.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    mem,
    task::Waker,
};

use js_sys::{Date, JsString};
use navlock_core::{
    Error, FencingToken, Lost, Mode,
    host::{AgentId, Answer, RequestKind},
};

use crate::native::{AbortController, Function, LockManager, LockOptions, Snapshot};

/// All that there is in this thread.
pub(super) struct Page {
    pub(super) locks: Option<LockManager>,
    pub(super) callbacks: Callbacks,
    pub(super) agents: HashMap<AgentId, Agent>,
    next_agent: u32,
    /// Requests and locks by their serial numbers, from the request until who asked is done with it.
    pub(super) requests: HashMap<u64, Request>,
    pub(super) queries: HashMap<u64, Query>,
    /// The next serial number, of a request or a query.
    next_serial: u64,
    last_token: u64,
    /// What the browser is to be told, in this order.
    pub(super) orders: VecDeque<Order>,
    /// What the browser was asked for and has not settled.
    unsettled: HashSet<u64>,
    /// Those that were let go of. Until they have settled, a new request would find their locks held.
    releasing: HashSet<u64>,
}

/// The functions that the browser calls. Each gets the serial number of its request or query.
pub(super) struct Callbacks {
    pub(super) granted: Function,
    pub(super) settled: Function,
    pub(super) failed: Function,
    pub(super) seen: Function,
    pub(super) not_seen: Function,
}

/// An agent, until it is closed.
#[derive(Default)]
pub(super) struct Agent {
    has_ended: bool,
    /// The agent's requests and locks, in the order in which they were requested.
    requests: BTreeSet<u64>,
}

/// A request, and the lock that it becomes.
pub(super) struct Request {
    agent: AgentId,
    kind: RequestKind,
    /// The name, until the browser has been told of the request.
    name: Option<JsString>,
    pub(super) state: State,
    pub(super) waker: Option<Waker>,
    /// Aborts the request, once the browser knows it.
    controller: Option<AbortController>,
    /// Releases the lock.
    release: Option<Function>,
}

/// What became of a request.
#[derive(Clone)]
pub(super) enum State {
    Pending,
    Answered(Answer),
    Failed(Error),
}

/// A question for what is held and what is pending.
#[derive(Default)]
pub(super) struct Query {
    pub(super) answer: Option<Result<Snapshot, Error>>,
    pub(super) waker: Option<Waker>,
}

/// What the browser is to be told.
pub(super) enum Order {
    Request(u64),
    Abort(AbortController),
    Release(u64, Function),
    Query(u64),
}

impl Page {
    pub(super) fn new(locks: Option<LockManager>, callbacks: Callbacks) -> Self {
        Self {
            locks,
            callbacks,
            agents: HashMap::new(),
            next_agent: 0,
            requests: HashMap::new(),
            queries: HashMap::new(),
            next_serial: 0,
            last_token: 0,
            orders: VecDeque::new(),
            unsettled: HashSet::new(),
            releasing: HashSet::new(),
        }
    }

    pub(super) fn open_agent(&mut self) -> AgentId {
        // Memory ends before there are 2^32 agents.
        let id = loop {
            let id = AgentId::from_index(self.next_agent);
            self.next_agent = self.next_agent.wrapping_add(1);
            if !self.agents.contains_key(&id) {
                break id;
            }
        };
        self.agents.insert(id, Agent::default());
        id
    }

    pub(super) fn next_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// Taken from the clock, because pages have no counter in common.
    fn next_token(&mut self) -> FencingToken {
        let clock = whole(Date::now()).saturating_mul(1000);
        self.last_token = clock.max(self.last_token + 1);
        FencingToken::new(self.last_token)
    }

    /// What may be told now: always the first order, and a request or a query only once all that
    /// the browser was told to release has settled. What stands behind one that waits, waits with
    /// it.
    pub(super) fn next_order(&mut self) -> Option<Order> {
        // An abort that is first does not wait for releases that the browser was told of: it would
        // grant what is to be aborted, and take it back only once it has heard that nobody wants
        // it. So it may do with an abort that stands behind a request; see `granted`.
        let is_end = matches!(self.orders.front()?, Order::Release(..) | Order::Abort(_));
        if !is_end && !self.releasing.is_empty() {
            return None;
        }
        let order = self.orders.pop_front()?;
        // A lock that was stolen meanwhile has settled.
        if let Order::Release(serial, _) = &order {
            if self.unsettled.contains(serial) {
                self.releasing.insert(*serial);
            }
        }
        Some(order)
    }

    pub(super) fn request(
        &mut self,
        agent: AgentId,
        name: JsString,
        kind: RequestKind,
        waker: &mut Option<Waker>,
    ) -> Result<u64, Error> {
        let serial = self.next_serial();
        let asks = self.agents.get_mut(&agent).filter(|agent| !agent.has_ended);
        asks.ok_or(Error::Terminated)?.requests.insert(serial);
        self.requests.insert(
            serial,
            Request {
                agent,
                kind,
                name: Some(name),
                state: State::Pending,
                waker: waker.take(),
                controller: None,
                release: None,
            },
        );
        self.orders.push_back(Order::Request(serial));
        Ok(serial)
    }

    /// What the browser gets, and by which functions it answers. `None` if the request is not
    /// wanted any more.
    pub(super) fn prepare(
        &mut self,
        serial: u64,
    ) -> Option<(LockManager, JsString, LockOptions, [Function; 3])> {
        let request = self.requests.get_mut(&serial)?;
        if !matches!(request.state, State::Pending) {
            return None;
        }
        let options = LockOptions::empty();
        if request.kind.mode() == Mode::Shared {
            options.set_mode("shared");
        }
        match request.kind {
            // Only what waits may have a signal.
            RequestKind::Wait(_) => {
                let controller = AbortController::new();
                options.set_signal(&controller.signal());
                request.controller = Some(controller);
            }
            RequestKind::IfAvailable(_) => options.set_if_available(true),
            RequestKind::Steal => options.set_steal(true),
        }
        let Callbacks { granted, settled, failed, .. } = &self.callbacks;
        let callbacks = [granted, settled, failed].map(|callback| callback.with(number(serial)));
        let prepared = (self.locks.clone()?, request.name.take()?, options, callbacks);
        self.unsettled.insert(serial);
        Some(prepared)
    }

    pub(super) fn settled(&mut self, serial: u64) {
        self.unsettled.remove(&serial);
        self.releasing.remove(&serial);
    }

    /// Notes that a request was granted. Returns whether somebody wants the lock, and whom to wake.
    pub(super) fn granted(
        &mut self,
        serial: u64,
        is_unavailable: bool,
        release: Option<Function>,
    ) -> (bool, Option<Waker>) {
        let token = self.next_token();
        let request = self.requests.get_mut(&serial);
        let Some(request) = request.filter(|it| matches!(it.state, State::Pending)) else {
            // It was aborted, and the browser has not been told yet, or could not be: it has the
            // lock until it settles, and nobody here is to see that.
            self.releasing.insert(serial);
            return (false, None);
        };
        let answer = if is_unavailable { Answer::Unavailable } else { Answer::Granted(token) };
        request.state = State::Answered(answer);
        request.controller = None;
        request.release = release.filter(|_| !is_unavailable);
        (!is_unavailable, request.waker.take())
    }

    /// Notes that a request has failed or lost its lock. Returns whom to wake.
    pub(super) fn failed(&mut self, serial: u64, error: Error, is_abort: bool) -> Option<Waker> {
        let request = self.requests.get_mut(&serial)?;
        request.state = State::Failed(match request.state {
            State::Failed(_) => return None,
            // Whoever has a lock cannot be aborted any more, so this is a theft.
            State::Answered(Answer::Granted(_)) if is_abort => Error::Lost(Lost::Stolen),
            State::Answered(_) | State::Pending => error,
        });
        request.controller = None;
        request.release = None;
        request.waker.take()
    }

    pub(super) fn finish(&mut self, serial: u64) -> Option<Request> {
        let mut request = self.requests.remove(&serial)?;
        if let Some(agent) = self.agents.get_mut(&request.agent) {
            agent.requests.remove(&serial);
        }
        self.end(serial, &mut request);
        Some(request)
    }

    /// Has the browser be told that a request or lock has ended here.
    fn end(&mut self, serial: u64, request: &mut Request) {
        if let Some(controller) = request.controller.take() {
            self.orders.push_back(Order::Abort(controller));
        }
        if let Some(release) = request.release.take() {
            self.orders.push_back(Order::Release(serial, release));
        }
        // A request that does not wait cannot be aborted. It is answered at once, and released then.
        let is_pending = matches!(request.state, State::Pending);
        if is_pending && !request.kind.waits() && self.unsettled.contains(&serial) {
            self.releasing.insert(serial);
        }
    }

    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub(super) fn terminate(&mut self, agents: &[AgentId]) -> Vec<Waker> {
        let mut serials = BTreeSet::new();
        for agent in agents {
            if let Some(agent) = self.agents.get_mut(agent) {
                agent.has_ended = true;
                serials.append(&mut mem::take(&mut agent.requests));
            }
        }
        let mut wakers = Vec::new();
        // Requests first, then locks.
        for locks in [false, true] {
            for serial in &serials {
                let Some(mut request) = self.requests.remove(serial) else { continue };
                let ends = match &request.state {
                    State::Pending => (!locks).then_some(Error::Terminated),
                    State::Answered(Answer::Granted(_)) => {
                        locks.then_some(Error::Lost(Lost::Terminated))
                    }
                    _ => None,
                };
                if let Some(error) = ends {
                    self.end(*serial, &mut request);
                    request.state = State::Failed(error);
                    wakers.extend(request.waker.take());
                }
                self.requests.insert(*serial, request);
            }
        }
        wakers
    }
}

#[expect(clippy::cast_precision_loss, reason = "no page lives for 2^53 requests")]
pub(super) fn number(serial: u64) -> f64 {
    serial as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a serial number, or a time after 1970"
)]
pub(super) fn whole(number: f64) -> u64 {
    number as u64
}
