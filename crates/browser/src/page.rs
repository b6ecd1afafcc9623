//! What a page has, or a worker: its agents, their requests and locks, and what it has yet to tell the browser.
//!
//! All of it belongs to the thread, as the values of JavaScript do; what leaves the thread are numbers. Nothing in
//! here calls foreign code while it is borrowed: wakers are called, and dropped, by whoever borrowed it,
//! afterwards, and so are the browser's functions.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    mem,
    task::{Poll, Waker},
};

use js_sys::{Date, JsString};
use navlock_core::{
    Error, FencingToken, Lost, Mode,
    host::{AgentId, Answer, RequestId, RequestKind, Ticket},
};
use wasm_bindgen::prelude::*;

use crate::native::{self, AbortController, Function, LockManager, LockOptions, Promise, Snapshot};

#[cfg(target_feature = "atomics")]
compile_error!(
    "navlock-browser is for programs of one thread: build without the target feature `atomics`, and give each \
     worker an instance of its own; their locks are shared by the browser"
);

thread_local! {
    static PAGE: RefCell<Page> = RefCell::new(Page::new());
}

/// All that there is in this thread.
struct Page {
    locks: Option<LockManager>,
    callbacks: Callbacks,
    agents: HashMap<AgentId, Agent>,
    next_agent: u32,
    /// Requests and locks by their serial numbers, from the request until who asked is done with it.
    requests: HashMap<u64, Request>,
    queries: HashMap<u64, Query>,
    /// Of a request or a query.
    next_serial: u64,
    last_token: u64,
    /// What the browser is to be told, in this order.
    orders: VecDeque<Order>,
    /// What the browser was asked for and has not settled.
    unsettled: HashSet<u64>,
    /// Those of them that were let go of: until they settle, what is asked for next would find them held.
    releasing: HashSet<u64>,
}

/// What the browser calls. They are given the serial number of what it is about.
struct Callbacks {
    granted: Function,
    settled: Function,
    failed: Function,
    seen: Function,
    not_seen: Function,
}

#[derive(Default)]
struct Agent {
    has_ended: bool,
    /// What it has, in the order in which it asked.
    requests: BTreeSet<u64>,
}

/// A request, and the lock that it becomes.
struct Request {
    agent: AgentId,
    kind: RequestKind,
    /// As the browser is to be told, until it was.
    name: Option<JsString>,
    state: State,
    waker: Option<Waker>,
    /// By which it is aborted, once the browser knows it.
    controller: Option<AbortController>,
    /// By which the lock is released.
    release: Option<Function>,
}

/// What became of a request.
#[derive(Clone)]
enum State {
    Pending,
    Answered(Answer),
    Failed(Error),
}

#[derive(Default)]
struct Query {
    answer: Option<Result<Snapshot, Error>>,
    waker: Option<Waker>,
}

/// What the browser is to be told.
enum Order {
    Request(u64),
    Abort(AbortController),
    Release(u64, Function),
    Query(u64),
}

/// Borrows what there is.
fn with<T>(what: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(what)
}

/// Whether the browser has locks for this page.
///
/// # Errors
///
/// [`Error::Refused`] if it has none.
pub(crate) fn check() -> Result<(), Error> {
    let has_locks = with(|page| page.locks.is_some());
    has_locks.then_some(()).ok_or_else(|| {
        let why = "there is no `navigator.locks` here: browsers have it in pages and workers of secure contexts, \
                   which are those by https and those of localhost";
        Error::Refused(why.to_owned())
    })
}

/// A new agent.
pub(crate) fn open_agent() -> AgentId {
    with(Page::open_agent)
}

/// Forgets an agent.
pub(crate) fn close_agent(agent: AgentId) {
    with(|page| page.agents.remove(&agent));
}

/// Ends agents with all they have. Whom to wake.
pub(crate) fn terminate(agents: &[AgentId]) -> Vec<Waker> {
    let wakers = with(|page| page.terminate(agents));
    carry_out();
    wakers
}

/// Asks for a lock.
///
/// # Errors
///
/// [`Error::Terminated`].
pub(crate) fn request(
    agent: AgentId,
    name: &[u16],
    kind: RequestKind,
    waker: &Waker,
) -> Result<Ticket, Error> {
    let name = native::js_string(name);
    // Left here where the request is refused.
    let mut waker = Some(waker.clone());
    let made = with(|page| page.request(agent, name, kind, &mut waker));
    drop(waker);
    let serial = made?;
    carry_out();
    Ok(Ticket { lane: 0, id: RequestId::from_parts(0, serial) })
}

/// What became of a request.
pub(crate) fn poll_request(ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
    let state = with(|page| page.requests.get(&ticket.id.serial()).map(|it| it.state.clone()));
    match state {
        None => Poll::Ready(Err(Error::Terminated)),
        Some(State::Answered(answer)) => Poll::Ready(Ok(answer)),
        Some(State::Failed(error)) => Poll::Ready(Err(error)),
        Some(State::Pending) => {
            wait(ticket, waker);
            Poll::Pending
        }
    }
}

/// How a lock was lost, if it is.
pub(crate) fn lost(ticket: Ticket) -> Option<Lost> {
    with(|page| match page.requests.get(&ticket.id.serial()).map(|it| &it.state) {
        Some(State::Answered(_)) => None,
        Some(State::Failed(Error::Lost(lost))) => Some(*lost),
        _ => Some(Lost::Terminated),
    })
}

/// Has this waker called when something becomes of the request or lock.
pub(crate) fn wait(ticket: Ticket, waker: &Waker) {
    let mut waker = Some(waker.clone());
    with(|page| {
        if let Some(request) = page.requests.get_mut(&ticket.id.serial()) {
            mem::swap(&mut request.waker, &mut waker);
        }
    });
    // The one from before, or this one if there is no such request.
    drop(waker);
}

/// Aborts a request or releases a lock, and forgets it.
pub(crate) fn finish(ticket: Ticket) {
    let forgotten = with(|page| page.finish(ticket.id.serial()));
    carry_out();
    drop(forgotten);
}

/// Asks what is held and what is pending. The number of the question.
pub(crate) fn query() -> u64 {
    let serial = with(|page| {
        let serial = page.next_serial();
        page.queries.insert(serial, Query::default());
        page.orders.push_back(Order::Query(serial));
        serial
    });
    carry_out();
    serial
}

/// The answer, once.
pub(crate) fn poll_query(serial: u64, waker: &Waker) -> Poll<Result<Snapshot, Error>> {
    let mut waker = Some(waker.clone());
    let answer = with(|page| {
        let query = page.queries.get_mut(&serial)?;
        mem::swap(&mut query.waker, &mut waker);
        query.answer.take()
    });
    // The one from before, or this one if nobody waits for this answer.
    drop(waker);
    answer.map_or(Poll::Pending, Poll::Ready)
}

/// Nobody waits for the answer any more.
pub(crate) fn forget_query(serial: u64) {
    let forgotten = with(|page| page.queries.remove(&serial));
    drop(forgotten);
}

/// Tells the browser what it can be told now.
fn carry_out() {
    while let Some(order) = with(Page::next_order) {
        match order {
            Order::Request(serial) => make(serial),
            Order::Abort(controller) => controller.abort(),
            Order::Release(_, release) => release.call(),
            Order::Query(serial) => ask(serial),
        }
    }
}

/// Makes a request of the browser, if it is still wanted.
fn make(serial: u64) {
    let Some((locks, name, options, callbacks)) = with(|page| page.prepare(serial)) else { return };
    let [granted, settled, failed] = callbacks;
    match locks.request(&name, &options, &granted) {
        Ok(promise) => drop(promise.then(&settled, &failed)),
        Err(reason) => on_failed(serial, &reason),
    }
}

fn ask(serial: u64) {
    let number = number(serial);
    let (locks, seen, not_seen) = with(|page| {
        let Callbacks { seen, not_seen, .. } = &page.callbacks;
        (page.locks.clone(), seen.with(number), not_seen.with(number))
    });
    match locks.map(|locks| locks.query()) {
        Some(Ok(promise)) => drop(promise.then(&seen, &not_seen)),
        Some(Err(reason)) => on_not_seen(serial, &reason),
        None => on_seen(serial, Err(Error::Unobtainable)),
    }
}

/// The callback of a request: it runs under the lock until the promise that it returns settles. `lock` is null
/// if the lock could not be had at once.
fn on_granted(serial: u64, lock: &JsValue) -> JsValue {
    let (promise, release) = Promise::pending();
    let (wanted, waker) = with(|page| page.granted(serial, lock.is_null(), release));
    if let Some(waker) = waker {
        waker.wake();
    }
    // What nobody wants is released as soon as this returns.
    if wanted { promise.into() } else { JsValue::UNDEFINED }
}

/// The request has settled: its lock is released.
fn on_settled(serial: u64) {
    with(|page| page.settled(serial));
    carry_out();
}

/// The request has failed, or its lock was stolen.
fn on_failed(serial: u64, reason: &JsValue) {
    let is_abort = native::thrown(reason).0 == "AbortError";
    let error = failure(reason, "the lock");
    let waker = with(|page| {
        page.settled(serial);
        page.failed(serial, error, is_abort)
    });
    carry_out();
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn on_seen(serial: u64, answer: Result<Snapshot, Error>) {
    let waker = with(|page| {
        let query = page.queries.get_mut(&serial)?;
        query.answer = Some(answer);
        query.waker.take()
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn on_not_seen(serial: u64, reason: &JsValue) {
    on_seen(serial, Err(failure(reason, "to say what is held and what is pending")));
}

/// What the browser rejects with, in our words; with what it was asked for.
fn failure(reason: &JsValue, what: &str) -> Error {
    let (name, message) = native::thrown(reason);
    match &*name {
        "InvalidStateError" => Error::NotFullyActive,
        "SecurityError" => Error::Unobtainable,
        _ => Error::Refused(format!("the browser refuses {what}: {name}: {message}")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "no page lives for 2^53 requests")]
fn number(serial: u64) -> f64 {
    serial as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a serial number, or a time after 1970"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

impl Page {
    fn new() -> Self {
        Self {
            locks: native::lock_manager(),
            callbacks: Callbacks::new(),
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

    fn open_agent(&mut self) -> AgentId {
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

    fn next_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// Of the clock: pages have nothing else in common that counts.
    fn next_token(&mut self) -> FencingToken {
        let clock = whole(Date::now()).saturating_mul(1000);
        self.last_token = clock.max(self.last_token + 1);
        FencingToken::new(self.last_token)
    }

    /// What may be told now: always the first order, and a request or a query only once all that the browser was
    /// told to release has settled. What stands behind one that waits, waits with it.
    fn next_order(&mut self) -> Option<Order> {
        // An abort that is first does not wait for releases that the browser was told of: it would grant what is to
        // be aborted, and take it back only once it has heard that nobody wants it. So it may do with an abort that
        // stands behind a request; see `granted`.
        let is_end = matches!(self.orders.front()?, Order::Release(..) | Order::Abort(_));
        if !is_end && !self.releasing.is_empty() {
            return None;
        }
        let order = self.orders.pop_front()?;
        // One that was stolen meanwhile has settled.
        if let Order::Release(serial, _) = &order {
            if self.unsettled.contains(serial) {
                self.releasing.insert(*serial);
            }
        }
        Some(order)
    }

    fn request(
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

    /// What the browser gets, and by which functions it answers. `None` if the request is not wanted any more.
    fn prepare(
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

    fn settled(&mut self, serial: u64) {
        self.unsettled.remove(&serial);
        self.releasing.remove(&serial);
    }

    /// Whether somebody wants it, and whom to wake.
    fn granted(
        &mut self,
        serial: u64,
        is_unavailable: bool,
        release: Option<Function>,
    ) -> (bool, Option<Waker>) {
        let token = self.next_token();
        let request = self.requests.get_mut(&serial);
        let Some(request) = request.filter(|it| matches!(it.state, State::Pending)) else {
            // It was aborted, and the browser has not been told yet, or could not be: it has the lock until it
            // settles, and nobody here is to see that.
            self.releasing.insert(serial);
            return (false, None);
        };
        let answer = if is_unavailable { Answer::Unavailable } else { Answer::Granted(token) };
        request.state = State::Answered(answer);
        request.controller = None;
        request.release = release.filter(|_| !is_unavailable);
        (!is_unavailable, request.waker.take())
    }

    /// Whom to wake.
    fn failed(&mut self, serial: u64, error: Error, is_abort: bool) -> Option<Waker> {
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

    fn finish(&mut self, serial: u64) -> Option<Request> {
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
        // What cannot be aborted is answered at once, and released when it is.
        let is_pending = matches!(request.state, State::Pending);
        let can_be_aborted = matches!(request.kind, RequestKind::Wait(_));
        if is_pending && !can_be_aborted && self.unsettled.contains(&serial) {
            self.releasing.insert(serial);
        }
    }

    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    fn terminate(&mut self, agents: &[AgentId]) -> Vec<Waker> {
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

impl Callbacks {
    fn new() -> Self {
        fn callback(what: impl Fn(u64, JsValue) -> JsValue + 'static) -> Function {
            Function::forever(Closure::new(move |number, value| what(whole(number), value)))
        }
        fn done(what: impl Fn(u64, JsValue) + 'static) -> Function {
            callback(move |serial, value| {
                what(serial, value);
                JsValue::UNDEFINED
            })
        }
        Self {
            granted: callback(|serial, lock| on_granted(serial, &lock)),
            settled: done(|serial, _| on_settled(serial)),
            failed: done(|serial, reason| on_failed(serial, &reason)),
            seen: done(|serial, snapshot| on_seen(serial, Ok(snapshot.unchecked_into()))),
            not_seen: done(|serial, reason| on_not_seen(serial, &reason)),
        }
    }
}
