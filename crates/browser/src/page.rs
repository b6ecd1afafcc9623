//! What a page asks the browser, or a worker does, and what the browser answers.
//!
//! All of it belongs to the thread, as the values of JavaScript do; what leaves the thread are
//! numbers. Nothing in here calls the caller's code while it is borrowed: wakers are called, and
//! dropped, by whoever borrowed it, afterwards, and so are the browser's functions.

mod state;

use std::{
    cell::RefCell,
    mem,
    task::{Poll, Waker},
};

use navlock_core::{
    Error, Lost,
    host::{AgentId, Answer, RequestId, RequestKind, Ticket},
};
use wasm_bindgen::prelude::*;

use self::state::{Callbacks, Order, Page, Query, State, number, whole};
use crate::native::{self, Function, Promise, Snapshot};

#[cfg(target_feature = "atomics")]
compile_error!(
    "navlock-browser is for programs of one thread: build without the target feature `atomics`, and give each \
     worker an instance of its own; their locks are shared by the browser"
);

thread_local! {
    static PAGE: RefCell<Page> = RefCell::new(Page::new(native::lock_manager(), callbacks()));
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
        Error::refused(why)
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

/// Ends agents with all they have. Returns whom to wake.
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
    // The waker is left here if the request is refused.
    let mut waker = Some(waker.clone());
    let made = with(|page| page.request(agent, name, kind, &mut waker));
    drop(waker);
    let serial = made?;
    carry_out();
    Ok(Ticket { lane: 0, id: RequestId::from_parts(0, serial) })
}

/// The outcome of a request.
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

/// How the lock was lost, if it was.
pub(crate) fn lost(ticket: Ticket) -> Option<Lost> {
    with(|page| match page.requests.get(&ticket.id.serial()).map(|it| &it.state) {
        Some(State::Answered(_)) => None,
        Some(State::Failed(Error::Lost(lost))) => Some(*lost),
        _ => Some(Lost::Terminated),
    })
}

/// Has this waker called when the request is answered or the lock is lost.
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

/// Asks what is held and what is pending. Returns the number of the question.
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

/// The answer to this question. It is given once.
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

/// Tells the browser everything that it can be told now.
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

/// The callback of a request: it runs under the lock until the promise that it returns settles.
/// `lock` is null if the lock could not be had at once.
fn on_granted(serial: u64, lock: &JsValue) -> JsValue {
    let (promise, release) = Promise::pending();
    let (wanted, waker) = with(|page| page.granted(serial, lock.is_null(), release));
    if let Some(waker) = waker {
        waker.wake();
    }
    // A lock that nobody wants is released as soon as this returns.
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
        _ => Error::refused(format!("the browser refuses {what}: {name}: {message}")),
    }
}

/// The functions that the browser calls.
fn callbacks() -> Callbacks {
    fn callback(what: impl Fn(u64, JsValue) -> JsValue + 'static) -> Function {
        Function::forever(Closure::new(move |number, value| what(whole(number), value)))
    }
    fn done(what: impl Fn(u64, JsValue) + 'static) -> Function {
        callback(move |serial, value| {
            what(serial, value);
            JsValue::UNDEFINED
        })
    }
    Callbacks {
        granted: callback(|serial, lock| on_granted(serial, &lock)),
        settled: done(|serial, _| on_settled(serial)),
        failed: done(|serial, reason| on_failed(serial, &reason)),
        seen: done(|serial, snapshot| on_seen(serial, Ok(snapshot.unchecked_into()))),
        not_seen: done(|serial, reason| on_not_seen(serial, &reason)),
    }
}
