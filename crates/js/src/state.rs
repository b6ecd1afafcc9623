//! What the scripts of a realm have asked for.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use navlock_core::{Error, LockFuture, LockGuard, LockManagerSnapshot, host::PolledGuard};
use slab::Slab;

use crate::{RequestKey, inbox::Inbox};

/// Not borrowed while the engine runs, nor while anything is released: both may come back here.
pub(crate) struct State<V, D> {
    pub(crate) slots: Slab<Slot<V, D>>,
    /// Of each slot that was ever used: whoever comes into a slot next can have the same.
    pub(crate) wakers: Vec<Waker>,
    /// Grows with each request.
    pub(crate) serial: u32,
    /// How many requests and questions are not answered yet.
    pub(crate) waiting: usize,
}

pub(crate) struct Slot<V, D> {
    pub(crate) serial: u32,
    pub(crate) what: What<V, D>,
}

/// What a script has asked for.
pub(crate) enum What<V, D> {
    Request(Request<V, D>),
    Query { answer: Question, promise: D },
}

pub(crate) type Question = Pin<Box<dyn Future<Output = Result<LockManagerSnapshot, Error>>>>;

/// A lock request, later its lock: <https://w3c.github.io/web-locks/#concept-lock-request>.
pub(crate) struct Request<V, D> {
    pub(crate) stage: Stage,
    /// `None` once it is called.
    pub(crate) callback: Option<V>,
    /// The signal and its abort algorithm, until the callback is called.
    pub(crate) signal: Option<(V, V)>,
    /// What settles the lock's released promise.
    pub(crate) promise: D,
}

pub(crate) enum Stage {
    /// It is about to be made.
    New,
    /// It is in its queue.
    Waiting(LockFuture<'static, Option<LockGuard>>),
    /// The callback is to be called, with the lock if there is one: a task is on its way.
    Due(Option<PolledGuard>),
    /// The waiting promise is not settled yet.
    Held(Option<PolledGuard>),
    /// It can never be granted: a task is on its way.
    Failed(Error),
}

/// What is to be done in a task.
pub(crate) enum Task<V, D> {
    Begin(V, Option<PolledGuard>),
    Fail(Request<V, D>, Error),
    Answer(D, Result<LockManagerSnapshot, Error>),
}

/// For how many slots a realm that uses none keeps memory.
const KEEP: usize = 1024;

impl<V, D> Default for State<V, D> {
    fn default() -> Self {
        Self { slots: Slab::new(), wakers: Vec::new(), serial: 0, waiting: 0 }
    }
}

impl<V, D> State<V, D> {
    pub(crate) fn enter(&mut self, what: What<V, D>, inbox: &Arc<Inbox>) -> RequestKey {
        self.serial = self.serial.wrapping_add(1);
        self.waiting += 1;
        let serial = self.serial;
        let at = self.slots.insert(Slot { serial, what });
        let index = u32::try_from(at).expect("memory ends before 2^32 requests");
        while self.wakers.len() <= at {
            // Slots come one after the other.
            let slot = u32::try_from(self.wakers.len()).unwrap_or(index);
            self.wakers.push(inbox.waker(slot));
        }
        RequestKey { index, serial }
    }

    /// Forgets all of it, which the caller drops when nothing is borrowed.
    pub(crate) fn take_all(&mut self) -> impl Sized + use<V, D> {
        self.waiting = 0;
        mem::take(&mut self.slots)
    }

    /// Shows all values, each once.
    pub(crate) fn trace(&self, value: &mut impl FnMut(&V), deferred: &mut impl FnMut(&D)) {
        for (_, slot) in &self.slots {
            match &slot.what {
                What::Request(request) => {
                    request.callback.iter().for_each(&mut *value);
                    if let Some((signal, algorithm)) = &request.signal {
                        value(signal);
                        value(algorithm);
                    }
                    deferred(&request.promise);
                }
                What::Query { promise, .. } => deferred(promise),
            }
        }
    }

    pub(crate) fn request(&mut self, key: RequestKey) -> Option<&mut Request<V, D>> {
        match self.slots.get_mut(key.index as usize)? {
            Slot { serial, what: What::Request(request) } if *serial == key.serial => Some(request),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<What<V, D>> {
        let at = key.index as usize;
        if self.slots.get(at)?.serial != key.serial {
            return None;
        }
        let Slot { what, .. } = self.slots.remove(at);
        self.waiting -= usize::from(what.is_waiting());
        // A peak of requests leaves nothing behind.
        if self.slots.is_empty() && self.wakers.len() > KEEP {
            self.slots = Slab::new();
            self.wakers = Vec::new();
        }
        Some(what)
    }
}

impl<V: Clone, D> State<V, D> {
    /// What is to be done about a slot that was woken. Whoever was in it may be gone.
    pub(crate) fn next_task(&mut self, index: u32) -> Option<(RequestKey, Task<V, D>)> {
        let at = index as usize;
        let waker = self.wakers.get(at)?.clone();
        let mut context = Context::from_waker(&waker);
        let slot = self.slots.get_mut(at)?;
        let key = RequestKey { index, serial: slot.serial };
        let request = match &mut slot.what {
            What::Query { answer, .. } => {
                let Poll::Ready(told) = answer.as_mut().poll(&mut context) else { return None };
                let Some(What::Query { promise, .. }) = self.remove(key) else { return None };
                return Some((key, Task::Answer(promise, told)));
            }
            What::Request(request) => request,
        };
        if let Stage::Waiting(future) = &mut request.stage {
            let Poll::Ready(answer) = Pin::new(future).poll(&mut context) else { return None };
            request.stage = Stage::of(answer);
        }
        let lost = |guard: &PolledGuard| match guard.poll_lost(&context) {
            Poll::Ready(lost) => Some(Error::from(lost)),
            Poll::Pending => None,
        };
        // From here on the loss of the lock wakes the slot.
        let failed = match &mut request.stage {
            Stage::Failed(error) => Some(error.clone()),
            Stage::Due(Some(guard)) | Stage::Held(Some(guard)) => lost(guard),
            Stage::New | Stage::Waiting(_) | Stage::Due(None) | Stage::Held(None) => None,
        };
        if let Some(error) = failed {
            let Some(What::Request(request)) = self.remove(key) else { return None };
            return Some((key, Task::Fail(request, error)));
        }
        let Stage::Due(guard) = &mut request.stage else { return None };
        let guard = guard.take();
        let callback = request.callback.clone()?;
        Some((key, Task::Begin(callback, guard)))
    }
}

impl<V, D> What<V, D> {
    /// Whether its script waits for what somebody else brings about.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Self::Request(request) => !matches!(request.stage, Stage::Held(_)),
            Self::Query { .. } => true,
        }
    }
}

impl Stage {
    pub(crate) fn of(answer: Result<Option<LockGuard>, Error>) -> Self {
        match answer {
            Ok(guard) => Self::Due(guard.map(LockGuard::into_polled)),
            Err(error) => Self::Failed(error),
        }
    }
}
