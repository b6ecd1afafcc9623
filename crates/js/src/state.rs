//! What the scripts of a realm have asked for.

use std::{
    future::{self, Future},
    mem,
    pin::Pin,
    sync::Arc,
    task::Waker,
};

use navlock_core::{
    Error, LockFuture, LockGuard, LockManagerSnapshot, Mode, ResourceName, host::PolledGuard,
};
use slab::Slab;

use crate::{RequestKey, inbox::Inbox};

/// Must not be borrowed while the engine runs, nor while anything is released: both may call the realm again.
pub(crate) struct State<V, D> {
    pub(crate) slots: Slab<Slot<V, D>>,
    /// The wakers of the slots, and some more. The next request in a slot can use the waker of the one
    /// before. `None` while the waker is [lent](Self::lend_waker).
    wakers: Vec<Option<Waker>>,
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
    /// `None` once the callback is called.
    pub(crate) callback: Option<V>,
    /// The signal and its abort algorithm, until the callback is called. Boxed, because few requests have a
    /// signal, and thousands may wait.
    pub(crate) signal: Option<Box<(V, V)>>,
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
    /// It can never be granted, or was stopped: a task is on its way.
    Failed(Failure),
}

/// Why the promise of a request is rejected, if no script has thrown.
pub(crate) enum Failure {
    Error(Error),
    /// What was to settle the request was stopped.
    Stopped,
}

/// What is to be done in a task. Small, because nearly every task calls a callback.
pub(crate) enum Task<V, D> {
    Begin(Begun<V>),
    Fail(Box<(Request<V, D>, Failure)>),
    Answer(Box<(D, Result<LockManagerSnapshot, Error>)>),
}

/// A callback that is to be called.
pub(crate) struct Begun<V> {
    pub(crate) callback: V,
    /// The name and mode of the lock, if there is one.
    pub(crate) named: Option<(ResourceName, Mode)>,
    /// As in [`Request`].
    pub(crate) signal: Option<Box<(V, V)>>,
}

/// What is taken out of a slot while it is polled.
pub(crate) enum Taken {
    Request(Stage),
    Query(Question),
}

/// What the poll has found.
pub(crate) enum Polled {
    /// Nothing yet.
    Waits(Taken),
    /// The callback is to be called, with the lock if there is one.
    Granted(Option<PolledGuard>),
    /// The request can never be granted, or was stopped, or its lock is lost.
    Failed(Failure),
    /// The answer to a query.
    Answered(Result<LockManagerSnapshot, Error>),
}

/// A realm that uses no slot keeps memory for as many as this.
const KEEP: usize = 1024;

impl<V, D> Default for State<V, D> {
    fn default() -> Self {
        Self { slots: Slab::new(), wakers: Vec::new(), serial: 0, waiting: 0 }
    }
}

impl<V, D> State<V, D> {
    pub(crate) fn enter(&mut self, what: What<V, D>) -> RequestKey {
        self.serial = self.serial.wrapping_add(1);
        self.waiting += 1;
        let serial = self.serial;
        let at = self.slots.insert(Slot { serial, what });
        let index = u32::try_from(at).expect("memory ends before 2^32 requests");
        RequestKey { index, serial }
    }

    /// Lends the waker of a slot for as long as the slot is polled.
    ///
    /// FAST: to count a reference up and down takes longer than to move the waker twice.
    pub(crate) fn lend_waker(&mut self, index: u32, inbox: &Arc<Inbox>) -> Waker {
        if self.wakers.len() <= index as usize {
            self.add_wakers(index, inbox);
        }
        let lent = self.wakers.get_mut(index as usize).and_then(Option::take);
        // The waker is lent already: the slot is polled within a poll of it.
        lent.unwrap_or_else(|| inbox.waker(index))
    }

    /// FAST: as many again as there are, up to a number: each by itself would be made with all that is done
    ///       for a request in between, and what does that does not fit into a processor's first cache.
    #[cold]
    fn add_wakers(&mut self, index: u32, inbox: &Arc<Inbox>) {
        let len = u32::try_from(self.wakers.len()).unwrap_or(index);
        let end = index.saturating_add(1).max(len + len.min(64));
        self.wakers.extend((len..end).map(|index| Some(inbox.waker(index))));
    }

    /// Takes back a waker that was lent. Returns what is left over, which the caller drops when nothing is
    /// borrowed.
    pub(crate) fn take_back_waker(&mut self, index: u32, waker: Waker) -> Option<Waker> {
        match self.wakers.get_mut(index as usize) {
            Some(place @ None) => {
                *place = Some(waker);
                None
            }
            // The slot was polled within a poll of it, or the realm has used no slot since.
            _ => Some(waker),
        }
    }

    /// The callback of this request is called, with this lock. If the request is gone, or that was called,
    /// the lock is the caller's to drop, when nothing is borrowed.
    pub(crate) fn begin(
        &mut self,
        key: RequestKey,
        guard: Option<PolledGuard>,
    ) -> Result<Begun<V>, Option<PolledGuard>> {
        let request = self.request(key);
        let Some((request, callback)) =
            request.and_then(|request| request.callback.take().map(|callback| (request, callback)))
        else {
            return Err(guard);
        };
        let named = guard.as_ref().map(|guard| (guard.name().clone(), guard.mode()));
        // The request keeps the lock, so that whatever ends the request releases the lock.
        request.stage = Stage::Held(guard);
        let signal = request.signal.take();
        self.waiting -= 1;
        Ok(Begun { callback, named, signal })
    }

    /// Takes out all of it, which the caller drops when nothing is borrowed.
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
                    if let Some((signal, algorithm)) = request.signal.as_deref() {
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

    /// Takes out what is to be polled for this slot. The slot is without it until it is put back.
    pub(crate) fn take(&mut self, index: u32) -> Option<(RequestKey, Taken)> {
        let Slot { serial, what } = self.slots.get_mut(index as usize)?;
        let taken = match what {
            What::Request(request) => Taken::Request(mem::replace(&mut request.stage, Stage::New)),
            What::Query { answer, .. } => {
                Taken::Query(mem::replace(answer, Box::pin(future::pending())))
            }
        };
        Some((RequestKey { index, serial: *serial }, taken))
    }

    /// Puts back what was taken out. Returns what is left over, which the caller drops when nothing is
    /// borrowed.
    pub(crate) fn put_back(&mut self, key: RequestKey, taken: Taken) -> Option<Taken> {
        let slot = self.slots.get_mut(key.index as usize);
        match (slot.filter(|slot| slot.serial == key.serial).map(|slot| &mut slot.what), taken) {
            (Some(What::Request(request)), Taken::Request(stage)) => {
                request.stage = stage;
                None
            }
            (Some(What::Query { answer, .. }), Taken::Query(question)) => {
                *answer = question;
                None
            }
            (_, taken) => Some(taken),
        }
    }

    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<What<V, D>> {
        let at = key.index as usize;
        let slot = self.slots.get(at).filter(|slot| slot.serial == key.serial)?;
        self.waiting -= usize::from(slot.what.is_waiting());
        if self.slots.len() == 1 && self.wakers.len() > KEEP {
            // A peak of requests leaves nothing behind.
            self.wakers = Vec::new();
            return mem::take(&mut self.slots).try_remove(at).map(|slot| slot.what);
        }
        self.slots.try_remove(at).map(|slot| slot.what)
    }
}

impl<V, D> What<V, D> {
    /// Whether its script waits for what somebody else brings about.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Self::Request(request) => request.callback.is_some(),
            Self::Query { .. } => true,
        }
    }
}

impl Stage {
    pub(crate) fn of(answer: Result<Option<LockGuard>, Error>) -> Self {
        match answer {
            Ok(guard) => Self::Due(guard.map(LockGuard::into_polled)),
            Err(error) => Self::Failed(Failure::Error(error)),
        }
    }
}
