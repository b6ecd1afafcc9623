//! The tasks of a realm: callbacks are called, queries answered, and what has failed or was lost is rejected.

use std::{
    mem,
    task::{Context, Poll},
};

use super::{
    Realm,
    ends::{Unwinding, exception, remove_algorithm, settle_with, stopped},
};
use crate::{
    Engine, RequestKey,
    state::{Begun, Failure, Polled, Request, Stage, Taken, Task, What},
    webidl,
};

impl<V: Clone, D> Realm<V, D> {
    /// Does one task, if there is one: calls a callback, answers a query, or rejects the promise of what
    /// failed or was lost. Returns whether there was one. The host must have the engine run its microtasks
    /// before the next task.
    ///
    /// # Errors
    ///
    /// Only an error that no script can catch. The request of this task has ended then: its lock is released,
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

    /// The task of a slot that was woken, if there is one. The request that was in the slot may be gone.
    fn next_task(&self, index: u32) -> Option<(RequestKey, Task<V, D>)> {
        // Taken out, because nothing may be borrowed during the poll: the poll may wake a host, and the host
        // may call the realm again. The waker is lent for the same reason.
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
}

/// Polls what was taken out of a slot.
fn poll(taken: Taken, context: &mut Context<'_>) -> Polled {
    let stage = match taken {
        Taken::Request(Stage::Waiting(mut future)) => {
            // From here on the slot is woken too if the granted lock is lost.
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
    // The same for a lock that was granted at once.
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

/// Calls the callback, and has the value that it returns settle the request.
fn call<E: Engine>(
    engine: &mut E,
    key: RequestKey,
    begun: Begun<E::Value>,
) -> Result<(), E::Error> {
    let Begun { callback, named, signal } = begun;
    // 2.14.1.1. The abort algorithm has done that, unless another listener has kept the abort from it.
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
        Some((name, mode)) => engine.lock(name, mode)?,
        None => engine.null(),
    };
    let returned = engine.call(&callback, lock)?;
    engine.react(returned, key)
}
