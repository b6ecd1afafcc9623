//! A realm: an agent whose locks scripts ask for.

use std::{
    cell::RefCell,
    fmt,
    future::{self, Future, IntoFuture},
    mem,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use navlock_core::{Error, LockGuard, LockManager, LockRequest, host};

use crate::{
    Engine, RequestKey,
    inbox::Inbox,
    state::{Begun, Failure, Polled, Question, Request, Stage, State, Taken, Task, What},
    webidl::{self, Arguments},
};

/// An agent of a JavaScript engine, with what its scripts have asked for: what the object
/// `navigator.locks` of a realm stands for.
///
/// Cheap to clone; the clones are the same. When the last one is dropped, or with [`end`](Self::end),
/// the agent ends: its requests are aborted, its locks released.
///
/// The method steps ([`request`](Self::request), [`query`](Self::query)) are what the functions of the
/// interface do once `this` is known to be a lock manager. They never run a callback. That is a task,
/// as is the answer to a query and the loss of a lock: the host is told by
/// [`poll_ready`](Self::poll_ready) that there is one, has it done by [`run_task`](Self::run_task), and
/// runs the engine's microtasks before it has the next one done.
///
/// `V` and `D` are the engine's [`Value`](Engine::Value) and [`Deferred`](Engine::Deferred).
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock-manager>
pub struct Realm<V, D>(Rc<Inner<V, D>>);

struct Inner<V, D> {
    locks: LockManager,
    inbox: Arc<Inbox>,
    state: RefCell<State<V, D>>,
}

impl<V: Clone, D> Realm<V, D> {
    /// The realm that is this agent.
    pub fn new(locks: LockManager) -> Self {
        let inbox = Arc::<Inbox>::default();
        let waker = inbox.end_waker();
        if host::poll_ended(&locks, &Context::from_waker(&waker)).is_ready() {
            inbox.over();
        }
        Self(Rc::new(Inner { locks, inbox, state: RefCell::default() }))
    }

    /// The agent.
    pub fn locks(&self) -> &LockManager {
        &self.0.locks
    }

    /// What `request()` does with these arguments. The promise that it answers with.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>
    ///
    /// # Errors
    ///
    /// Only what no script can catch. Everything else is a rejection.
    pub fn request<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        arguments: &[V],
    ) -> Result<V, E::Error> {
        // 10. Made first, so that everything that fails can reject it.
        let (promise, deferred) = engine.new_promise()?;
        // 1. and everything before it is Web IDL's.
        match self.check(engine, arguments) {
            Ok(request) => self.request_a_lock(engine, request, deferred)?,
            Err(error) => settle_with(engine, deferred, Err(error))?,
        }
        // 12.
        Ok(promise)
    }

    /// Whether a request with these arguments may be made.
    fn check<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        given: &[V],
    ) -> Result<Checked<'_, V>, E::Error> {
        let Arguments { name, options, signal, callback } = Arguments::convert(engine, given)?;
        // 2. to 8.
        let checked = host::check_environment(&self.0.locks)
            .and_then(|()| name.map_err(Error::from))
            .and_then(|name| options.kind().map(|_| name));
        let name = match checked {
            Ok(name) => name,
            Err(error) => return Err(exception(engine, &error)),
        };
        // 9.
        if let Some(signal) = &signal {
            if let Some(reason) = engine.abort_reason(signal)? {
                return Err(engine.throw(reason));
            }
        }
        let request = self.0.locks.lock_with(name, options);
        Ok(Checked { request, signal, callback })
    }

    /// Spec: <https://w3c.github.io/web-locks/#request-a-lock>
    fn request_a_lock<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        checked: Checked<'_, V>,
        promise: D,
    ) -> Result<(), E::Error> {
        let Checked { request, signal, callback } = checked;
        // 1.
        let made = Request { stage: Stage::New, callback: Some(callback), signal: None, promise };
        let Some(key) = self.enter(What::Request(made)) else { return Ok(()) };
        // 2.
        if let Some(signal) = signal {
            let unwinding = Unwinding { realm: self, key };
            let added = engine.add_abort_algorithm(&signal, key);
            mem::forget(unwinding);
            let algorithm = match added {
                Ok(algorithm) => algorithm,
                Err(error) => return self.give_up(engine, key, error),
            };
            // A signal that is not the adapter's own may run scripts: they may have aborted it.
            let mut state = self.0.state.borrow_mut();
            let Some(request) = state.request(key) else { return Ok(()) };
            request.signal = Some(Box::new((signal, algorithm)));
        }
        // 3. Its answer is never acted upon in this turn.
        let mut request = request.into_future();
        let polled = self.with_waker(key.index, |context| Pin::new(&mut request).poll(context));
        let stage = match polled {
            Poll::Ready(answer) => {
                self.0.inbox.push(key.index);
                Stage::of(answer)
            }
            Poll::Pending => Stage::Waiting(request.detach().expect("what waits was made")),
        };
        // What it replaces is nothing that could be released.
        if let Some(request) = self.0.state.borrow_mut().request(key) {
            request.stage = stage;
        }
        Ok(())
    }

    /// A request that cannot be made, as its signal takes no algorithm.
    fn give_up<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
        error: E::Error,
    ) -> Result<(), E::Error> {
        match self.leave(key) {
            Some(What::Request(request)) => settle_with(engine, request.promise, Err(error)),
            _ => engine.catch(error).map(drop),
        }
    }

    /// What `query()` does. The promise that it answers with.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-query>
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub fn query<E: Engine<Value = V, Deferred = D>>(&self, engine: &mut E) -> Result<V, E::Error> {
        // 4.
        let (promise, deferred) = engine.new_promise()?;
        // 1. to 3.
        if let Err(error) = host::check_environment(&self.0.locks) {
            let error = exception(engine, &error);
            settle_with(engine, deferred, Err(error))?;
            return Ok(promise);
        }
        // 5. Asked now, and not when the task comes: what is requested later is not in it.
        let locks = self.0.locks.clone();
        let mut answer: Question = Box::pin(async move { locks.query().await });
        let unasked = Box::pin(future::pending());
        let Some(key) = self.enter(What::Query { answer: unasked, promise: deferred }) else {
            return Ok(promise);
        };
        let polled = self.with_waker(key.index, |context| answer.as_mut().poll(context));
        if let Poll::Ready(told) = polled {
            answer = Box::pin(future::ready(told));
            self.0.inbox.push(key.index);
        }
        self.put_back(key, Taken::Query(answer));
        // 6.
        Ok(promise)
    }

    /// Ready when there is a task. Of the contexts given here, the last one is woken, from any thread;
    /// also when the agent has ended: so a host that stays until then looks at
    /// [`has_ended`](Self::has_ended) after this.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.inbox.poll(context)
    }

    /// How many tasks there are, at most: some may turn out to be none. For a host that has a task of
    /// someone else's event loop for each.
    pub fn tasks(&self) -> usize {
        self.0.inbox.len()
    }

    /// Does one task, if there is one: calls a callback, answers a query, or rejects the promise of what
    /// failed or was lost. Whether there was one. The host has the engine run its microtasks before the
    /// next.
    ///
    /// # Errors
    ///
    /// Only what no script can catch. The request that it concerns has ended then: its lock is released,
    /// and its promise rejected with an `AbortError` if the engine still can.
    pub fn run_task<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
    ) -> Result<bool, E::Error> {
        while let Some(index) = self.0.inbox.next() {
            if let Some((key, task)) = self.next_task(index) {
                self.run(engine, key, task)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is to be done about a slot that was woken. Whoever was in it may be gone.
    fn next_task(&self, index: u32) -> Option<(RequestKey, Task<V, D>)> {
        // Taken out, as nothing may be borrowed while it is polled: that may wake a host, and the host
        // come back here. The waker is lent for the same reason.
        let (key, taken, waker) = {
            let mut state = self.0.state.borrow_mut();
            let (key, taken) = state.take(index)?;
            (key, taken, state.lend_waker(index, &self.0.inbox))
        };
        let polled = poll(taken, &mut Context::from_waker(&waker));
        let mut state = self.0.state.borrow_mut();
        let spare = state.take_back_waker(index, waker);
        let (task, left) = match polled {
            Polled::Waits(taken) => (None, state.put_back(key, taken)),
            Polled::Granted(guard) => match state.begin(key, guard) {
                Ok(begun) => (Some(Task::Begin(begun)), None),
                Err(guard) => (None, Some(Taken::Request(Stage::Due(guard)))),
            },
            Polled::Failed(failure) => match state.remove(key) {
                Some(What::Request(request)) => {
                    (Some(Task::Fail(Box::new((request, failure)))), None)
                }
                _ => (None, None),
            },
            Polled::Answered(told) => match state.remove(key) {
                Some(What::Query { promise, .. }) => {
                    (Some(Task::Answer(Box::new((promise, told)))), None)
                }
                _ => (None, None),
            },
        };
        drop(state);
        drop((spare, left));
        task.map(|task| (key, task))
    }

    /// Polls something of a slot, with the waker that has the slot looked at.
    #[inline]
    fn with_waker<T>(&self, index: u32, poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // Lent, as nothing may be borrowed here either.
        let waker = self.0.state.borrow_mut().lend_waker(index, &self.0.inbox);
        let polled = poll(&mut Context::from_waker(&waker));
        let left = self.0.state.borrow_mut().take_back_waker(index, waker);
        drop(left);
        polled
    }

    /// What was taken out of a slot is dropped here if that is gone.
    fn put_back(&self, key: RequestKey, taken: Taken) {
        let left = self.0.state.borrow_mut().put_back(key, taken);
        drop(left);
    }

    fn run<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
        task: Task<V, D>,
    ) -> Result<(), E::Error> {
        match task {
            Task::Begin(begun) => self.begin(engine, key, begun),
            Task::Fail(failed) => {
                let (Request { stage, callback, signal, promise }, failure) = *failed;
                drop((stage, callback));
                let error = match failure {
                    Failure::Error(error) => exception(engine, &error),
                    Failure::Stopped => match stopped(engine) {
                        Ok(reason) => engine.throw(reason),
                        Err(error) => error,
                    },
                };
                settle_with(engine, promise, Err(error))?;
                remove_algorithm(engine, signal)
            }
            Task::Answer(answered) => {
                let (promise, told) = *answered;
                let answer = match told {
                    Ok(snapshot) => webidl::snapshot(engine, &snapshot),
                    Err(error) => Err(exception(engine, &error)),
                };
                settle_with(engine, promise, answer)
            }
        }
    }

    /// The task of a grant, or of a lock that is not available.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#process-the-lock-request-queue>, step 2.14.1;
    /// <https://w3c.github.io/web-locks/#request-a-lock>, step 3.5.1
    fn begin<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
        begun: Begun<V>,
    ) -> Result<(), E::Error> {
        self.attempt(engine, key, |engine| call(engine, key, begun))
    }

    /// Does something without which a request whose callback was called is never settled: the call itself,
    /// or what [`Engine::react`] has left to a job. If that fails, the request [fails](Self::fail) with it;
    /// if it panics, it is [stopped](Self::stop).
    ///
    /// # Errors
    ///
    /// As [`fail`](Self::fail).
    pub fn attempt<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
        attempted: impl FnOnce(&mut E) -> Result<(), E::Error>,
    ) -> Result<(), E::Error> {
        let unwinding = Unwinding { realm: self, key };
        let done = attempted(engine);
        mem::forget(unwinding);
        done.or_else(|error| self.fail(engine, key, error))
    }

    /// What was to settle a request whose callback was called has failed with this. Its lock is released, and
    /// its promise rejected: with what was thrown, or with an `AbortError` if no script can catch that.
    /// Nothing if it is settled already.
    ///
    /// # Errors
    ///
    /// Only what no script can catch. The lock is released all the same.
    #[cold]
    pub fn fail<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
        error: E::Error,
    ) -> Result<(), E::Error> {
        match engine.catch(error) {
            Ok(reason) => self.settle(engine, key, Err(reason)),
            Err(error) => {
                // As best it can: what is told is why the script was stopped.
                let _ = self.abandon(engine, key);
                Err(error)
            }
        }
    }

    /// What was to settle a request whose callback was called never will, and the engine cannot be asked for
    /// anything now: a panic goes through it, or a job was dropped. Its lock is released; its promise is
    /// rejected with an `AbortError` in a task. Nothing if it is settled already.
    #[cold]
    pub fn stop(&self, key: RequestKey) {
        let stage = {
            let mut state = self.0.state.borrow_mut();
            let Some(request) = state.request(key) else { return };
            mem::replace(&mut request.stage, Stage::Failed(Failure::Stopped))
        };
        // Before what that wakes, who may panic.
        self.0.inbox.push(key.index);
        drop(stage);
    }

    /// A callback that was stopped by what no script can catch.
    fn abandon<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
    ) -> Result<(), E::Error> {
        let Some(What::Request(Request { stage, promise, .. })) = self.leave(key) else {
            return Ok(());
        };
        drop(stage);
        let reason = stopped(engine)?;
        engine.reject(promise, reason)
    }

    /// What the callback returned is settled: the engine was asked for this by [`Engine::react`].
    ///
    /// Spec: <https://w3c.github.io/web-locks/#lock-concept-waiting-promise>
    ///
    /// # Errors
    ///
    /// Only what no script can catch. The lock is released all the same.
    pub fn settle<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
        outcome: Result<V, V>,
    ) -> Result<(), E::Error> {
        // It was lost, and the promise rejected, while the callback ran.
        let Some(What::Request(Request { stage, promise, .. })) = self.leave(key) else {
            return Ok(());
        };
        // 1. Released first: who hears of the promise finds the lock free.
        let lost = match stage {
            Stage::Held(Some(guard)) => guard.release(),
            _ => None,
        };
        // 2.
        match (lost, outcome) {
            // The task that was to say so has not come yet.
            (Some(lost), _) => {
                let error = exception(engine, &Error::Lost(lost));
                settle_with(engine, promise, Err(error))
            }
            (_, Ok(value)) => engine.resolve(promise, value),
            (_, Err(reason)) => engine.reject(promise, reason),
        }
    }

    /// The signal of a request has aborted, with this reason: the engine was asked for this by
    /// [`Engine::add_abort_algorithm`].
    ///
    /// Spec: <https://w3c.github.io/web-locks/#signal-to-abort-the-request>
    ///
    /// # Errors
    ///
    /// Only what no script can catch. The request is aborted all the same.
    pub fn abort<E: Engine<Value = V, Deferred = D>>(
        &self,
        engine: &mut E,
        key: RequestKey,
        reason: V,
    ) -> Result<(), E::Error> {
        let is_aborted = {
            let mut state = self.0.state.borrow_mut();
            let request = state.request(key);
            // The callback has begun, and the algorithm was to be removed: nothing aborts it now.
            request.is_some_and(|request| request.callback.is_some())
        };
        let left = if is_aborted { self.leave(key) } else { None };
        let Some(What::Request(Request { stage, promise, .. })) = left else { return Ok(()) };
        // 1. Out of the queue; or, if it has been granted and its callback not called, released.
        drop(stage);
        // 2.
        engine.reject(promise, reason)
    }

    /// Whether the script waits for anything that somebody else brings about: the host stays for it. A
    /// lock that is held is not that.
    pub fn is_waiting(&self) -> bool {
        self.0.state.borrow().waiting > 0
    }

    /// Whether the agent has ended: by [`end`](Self::end), or as any agent of Rust code does, by
    /// [`LockManager::terminate`] or [`UserAgent::close`](navlock_core::UserAgent::close). By these, what
    /// its scripts wait for and hold is rejected in tasks, as anything else that is lost.
    pub fn has_ended(&self) -> bool {
        self.0.inbox.has_ended()
    }

    /// Whether the agent has ended, and there is nothing left of what its scripts have asked for: nothing
    /// ever happens here again.
    pub fn is_over(&self) -> bool {
        self.has_ended() && self.0.state.borrow().slots.is_empty()
    }

    /// The agent ends: its requests are aborted, its locks released. Nothing is settled any more, and no
    /// callback called; what scripts ask for later is rejected.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub fn end(&self) {
        self.0.end();
    }

    /// Shows all values that are kept, each once: to an engine whose collector of garbage has to be told
    /// what an object of Rust's keeps. Shows none if that is asked while something is changed.
    pub fn trace(&self, mut value: impl FnMut(&V), mut deferred: impl FnMut(&D)) {
        let Ok(state) = self.0.state.try_borrow() else { return };
        state.trace(&mut value, &mut deferred);
    }

    /// `None` if the realm has ended, as it may have since that was checked: a signal may run scripts
    /// when it is asked whether it has aborted.
    fn enter(&self, what: What<V, D>) -> Option<RequestKey> {
        if self.0.inbox.is_closed() {
            return None;
        }
        Some(self.0.state.borrow_mut().enter(what))
    }

    /// What is dropped by the caller, when nothing is borrowed.
    fn leave(&self, key: RequestKey) -> Option<What<V, D>> {
        self.0.state.borrow_mut().remove(key)
    }
}

/// What a request is made of, when all checks are done.
struct Checked<'a, V> {
    request: LockRequest<'a, Option<LockGuard>>,
    signal: Option<V>,
    callback: V,
}

/// Stops a request when it is dropped: when a panic goes through what settles it.
struct Unwinding<'a, V: Clone, D> {
    realm: &'a Realm<V, D>,
    key: RequestKey,
}

impl<V: Clone, D> Drop for Unwinding<'_, V, D> {
    fn drop(&mut self) {
        self.realm.stop(self.key);
    }
}

impl<V, D> Inner<V, D> {
    fn end(&self) {
        self.inbox.close();
        // All at one moment, not one by one as they are dropped.
        self.locks.terminate();
        let ended = self.state.borrow_mut().take_all();
        drop(ended);
    }
}

impl<V, D> Drop for Inner<V, D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<V, D> Clone for Realm<V, D> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<V, D> fmt::Debug for Realm<V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realm").field("locks", &self.0.locks).finish_non_exhaustive()
    }
}

/// Polls what was taken out of a slot.
fn poll(taken: Taken, context: &mut Context<'_>) -> Polled {
    let stage = match taken {
        Taken::Request(Stage::Waiting(mut future)) => {
            // From here on the loss of a lock that was granted wakes the slot.
            return match future.poll_watched(context) {
                Poll::Ready(Ok(guard)) => Polled::Granted(guard),
                Poll::Ready(Err(error)) => Polled::Failed(Failure::Error(error)),
                Poll::Pending => Polled::Waits(Taken::Request(Stage::Waiting(future))),
            };
        }
        Taken::Query(mut answer) => {
            return match answer.as_mut().poll(context) {
                Poll::Ready(told) => Polled::Answered(told),
                Poll::Pending => Polled::Waits(Taken::Query(answer)),
            };
        }
        Taken::Request(stage) => stage,
    };
    // And so does that of one that was granted at once.
    let lost = match &stage {
        Stage::Due(Some(guard)) | Stage::Held(Some(guard)) => guard.poll_lost(context),
        _ => Poll::Pending,
    };
    match (lost, stage) {
        (Poll::Ready(lost), _) => Polled::Failed(Failure::Error(lost.into())),
        (_, Stage::Due(guard)) => Polled::Granted(guard),
        (_, Stage::Failed(failure)) => Polled::Failed(failure),
        (_, stage) => Polled::Waits(Taken::Request(stage)),
    }
}

/// Calls the callback, and has what it returns settle the request.
fn call<E: Engine>(
    engine: &mut E,
    key: RequestKey,
    begun: Begun<E::Value>,
) -> Result<(), E::Error> {
    let Begun { callback, named, signal } = begun;
    // 2.14.1.1. The abort algorithm has done that, unless others have kept the abort from it.
    if let Some((signal, _)) = signal.as_deref() {
        if let Some(reason) = engine.abort_reason(signal)? {
            return Err(engine.throw(reason));
        }
    }
    // 2.14.1.2.
    if signal.is_some() {
        remove_algorithm(engine, signal)?;
    }
    // 2.14.1.3.
    let lock = match named {
        Some((name, mode)) => engine.lock(&name, mode)?,
        None => engine.null(),
    };
    let returned = engine.call(&callback, lock)?;
    engine.react(returned, key)
}

/// The error that it is to throw the exception that an error of ours is to scripts.
fn exception<E: Engine>(engine: &mut E, error: &Error) -> E::Error {
    match engine.dom_exception(error.dom_exception_name(), &error.to_string()) {
        Ok(exception) => engine.throw(exception),
        Err(error) => error,
    }
}

/// What the promise of a request is rejected with that was stopped.
fn stopped<E: Engine>(engine: &mut E) -> Result<E::Value, E::Error> {
    engine.dom_exception("AbortError", "the callback was stopped")
}

/// Settles a promise with what came of something.
///
/// # Errors
///
/// Only what no script can catch.
fn settle_with<E: Engine>(
    engine: &mut E,
    promise: E::Deferred,
    outcome: Result<E::Value, E::Error>,
) -> Result<(), E::Error> {
    match outcome {
        Ok(value) => engine.resolve(promise, value),
        Err(error) => {
            let reason = engine.catch(error)?;
            engine.reject(promise, reason)
        }
    }
}

fn remove_algorithm<E: Engine>(
    engine: &mut E,
    signal: Option<Box<(E::Value, E::Value)>>,
) -> Result<(), E::Error> {
    match signal.map(|signal| *signal) {
        Some((signal, algorithm)) => engine.remove_abort_algorithm(&signal, &algorithm),
        None => Ok(()),
    }
}
