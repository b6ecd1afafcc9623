//! How a request ends: settled, failed, stopped or aborted. Its lock is released first.

use std::mem;

use navlock_core::Error;

use super::Realm;
use crate::{
    Engine, RequestKey,
    state::{Failure, Request, Stage, What},
};

impl<V: Clone, D> Realm<V, D> {
    /// Fails a request whose callback was called, because what was to settle the request has failed with this
    /// error. Its lock is released. Its promise is rejected: with what was thrown, or with an `AbortError` if
    /// no script can catch that. Does nothing if the request is settled already.
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
                // The rejection may fail too. What the caller is told is why the script was stopped.
                let _ = self.abandon(engine, key);
                Err(error)
            }
        }
    }

    /// Stops a request whose callback was called and that nothing will settle. The engine cannot be asked for
    /// anything now: a panic goes through it, or a job was dropped. The lock is released; a task rejects the
    /// promise with an `AbortError`. Does nothing if the request is settled already.
    #[cold]
    pub fn stop(&self, key: RequestKey) {
        let stage = {
            let mut state = self.0.state.borrow_mut();
            let Some(request) = state.request(key) else { return };
            mem::replace(&mut request.stage, Stage::Failed(Failure::Stopped))
        };
        // Pushed before the stage is dropped: that wakes others, who may panic.
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

    /// Settles a request as what its callback returned is settled: the engine was asked for this by
    /// [`Engine::react`].
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
        // Otherwise the lock was lost, and the promise rejected, while the callback ran.
        let Some(What::Request(Request { stage, promise, .. })) = self.leave(key) else {
            return Ok(());
        };
        // 1. Released first, so that whoever hears of the promise finds the lock free.
        let lost = match stage {
            Stage::Held(Some(guard)) => guard.release(),
            _ => None,
        };
        // 2.
        match (lost, outcome) {
            // The lock was lost, and the task that was to say so has not run yet.
            (Some(lost), _) => {
                let error = exception(engine, &Error::Lost(lost));
                settle_with(engine, promise, Err(error))
            }
            (_, Ok(value)) => engine.resolve(promise, value),
            (_, Err(reason)) => engine.reject(promise, reason),
        }
    }

    /// Aborts a request because its signal has aborted, with this reason: the engine was asked for this by
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
            // Once the callback has begun, nothing aborts the request, even if the algorithm is still there.
            request.is_some_and(|request| request.callback.is_some())
        };
        let left = if is_aborted { self.leave(key) } else { None };
        let Some(What::Request(Request { stage, promise, .. })) = left else { return Ok(()) };
        // 1. Out of the queue; or, if it has been granted and its callback not called, released.
        drop(stage);
        // 2.
        engine.reject(promise, reason)
    }
}

/// Stops a request when it is dropped: when a panic goes through what settles it.
pub(super) struct Unwinding<'a, V: Clone, D> {
    pub(super) realm: &'a Realm<V, D>,
    pub(super) key: RequestKey,
}

impl<V: Clone, D> Drop for Unwinding<'_, V, D> {
    fn drop(&mut self) {
        self.realm.stop(self.key);
    }
}

/// The error that throws an error of ours as the exception that scripts see.
pub(super) fn exception<E: Engine>(engine: &mut E, error: &Error) -> E::Error {
    match engine.dom_exception(error.dom_exception_name(), &error.to_string()) {
        Ok(exception) => engine.throw(exception),
        Err(error) => error,
    }
}

/// The reason with which the promise of a stopped request is rejected.
pub(super) fn stopped<E: Engine>(engine: &mut E) -> Result<E::Value, E::Error> {
    engine.dom_exception("AbortError", "the callback was stopped")
}

/// Settles a promise with this outcome.
///
/// # Errors
///
/// Only what no script can catch.
pub(super) fn settle_with<E: Engine>(
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

pub(super) fn remove_algorithm<E: Engine>(
    engine: &mut E,
    signal: Option<Box<(E::Value, E::Value)>>,
) -> Result<(), E::Error> {
    match signal.map(|signal| *signal) {
        Some((signal, algorithm)) => engine.remove_abort_algorithm(&signal, &algorithm),
        None => Ok(()),
    }
}
