//! How a request ends: settled, failed, stopped or aborted. Its lock is released first.

use std::mem;

use navlock_core::Error;

use super::Realm;
use crate::{
    Engine, RequestKey,
    state::{Failure, Request, Stage, What},
};

impl<V: Clone, D> Realm<V, D> {
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

/// The error that it is to throw the exception that an error of ours is to scripts.
pub(super) fn exception<E: Engine>(engine: &mut E, error: &Error) -> E::Error {
    match engine.dom_exception(error.dom_exception_name(), &error.to_string()) {
        Ok(exception) => engine.throw(exception),
        Err(error) => error,
    }
}

/// What the promise of a request is rejected with that was stopped.
pub(super) fn stopped<E: Engine>(engine: &mut E) -> Result<E::Value, E::Error> {
    engine.dom_exception("AbortError", "the callback was stopped")
}

/// Settles a promise with what came of something.
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
