//! The method steps of `request()` and `query()`: what happens before they return their promises.

use std::{
    future::{self, Future, IntoFuture},
    mem,
    pin::Pin,
    task::Poll,
};

use navlock_core::{Error, LockGuard, LockRequest, host};

use super::{
    Realm,
    ends::{Unwinding, exception, settle_with},
};
use crate::{
    Engine, RequestKey,
    state::{Question, Request, Stage, Taken, What},
    webidl::Arguments,
};

impl<V: Clone, D> Realm<V, D> {
    /// Runs the steps of `request()` with these arguments. Returns the promise that `request()` answers with.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>
    ///
    /// # Errors
    ///
    /// Only an error that no script can catch. Any other error rejects the promise.
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
            // A signal that is not the adapter's own may have run scripts, and they may have aborted it.
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
        // The stage that this replaces has nothing to release.
        if let Some(request) = self.0.state.borrow_mut().request(key) {
            request.stage = stage;
        }
        Ok(())
    }

    /// Rejects a request that cannot be made, because its signal takes no algorithm.
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

    /// Runs the steps of `query()`. Returns the promise that `query()` answers with.
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
        // 5. Asked now, and not when the task comes: the answer does not include later requests.
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
}

/// What a request is made of, when all checks are done.
struct Checked<'a, V> {
    request: LockRequest<'a, Option<LockGuard>>,
    signal: Option<V>,
    callback: V,
}
