//! What a realm has asked for. Each request, query and look has a slot, whose number is its id.

use std::{
    future::{Future, IntoFuture, ready},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use navlock::{
    ClientId, Error, LockFuture, LockGuard, LockManager, LockManagerSnapshot, LockOptions,
    Position, ResourceName, host::PolledGuard, look::Looker,
};
use slab::Slab;

use crate::{
    inbox::Inbox,
    js::Failure,
    looking::Looking,
    protocol::{ID_END, Status},
};

/// What is in a slot.
enum Slot {
    Requested(LockFuture<'static, Option<LockGuard>>),
    Held(PolledGuard),
    Asked(Question),
    Answered(Told),
    Looks(Looking),
    Unavailable,
    Failed(Error),
    /// A lost lock. Its guard stays until the holder has released it.
    Lost(PolledGuard, Error),
}

type Question = Pin<Box<dyn Future<Output = Result<Told, Error>> + Send>>;

/// The answer to a query.
enum Told {
    Snapshot(LockManagerSnapshot),
    Position(Box<Position>),
}

/// A realm that uses no slot keeps memory for at most this many.
const KEEP: usize = 1024;

/// Why a request failed, or how a lock was lost.
pub(crate) struct Failed<'a> {
    /// The number of the lock manager.
    pub(crate) manager: u32,
    pub(crate) error: &'a Error,
    pub(crate) stolen_by: Option<ClientId>,
}

/// What a request does in a deadlock.
#[derive(Clone, Copy)]
pub(crate) struct Deadlock {
    pub(crate) fails: bool,
    /// The deadlock is news of the request, if the request does not fail in it.
    pub(crate) tells: bool,
}

/// What was asked for.
struct Entry {
    /// The number of its lock manager.
    manager: u32,
    /// Whether a deadlock is still to be told.
    tells_deadlock: bool,
    slot: Slot,
}

/// The slots of a realm.
pub(crate) struct Slots {
    entries: Slab<Entry>,
    /// The wakers of all slots that were ever used.
    ///
    /// FAST: a waker is an allocation, and the next request in a slot can have the same.
    wakers: Vec<Waker>,
    inbox: Arc<Inbox>,
}

impl Slots {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        Self { entries: Slab::new(), wakers: Vec::new(), inbox }
    }

    /// Requests a lock, which may be for a reason. Returns the id, and how the request stands at once.
    pub(crate) fn request(
        &mut self,
        manager: u32,
        locks: &LockManager,
        name: ResourceName,
        options: LockOptions,
        deadlock: Deadlock,
        why: Option<String>,
    ) -> (u32, Status) {
        let id = self.vacant();
        let mut context = Context::from_waker(&self.wakers[id as usize]);
        let request = locks.lock_with(name, options);
        let mut request = match (deadlock.fails, why) {
            (false, None) => request.into_future(),
            (true, None) => request.fail_on_deadlock().into_future(),
            (false, Some(why)) => request.why(why).into_future(),
            (true, Some(why)) => request.why(why).fail_on_deadlock().into_future(),
        };
        let slot = match Pin::new(&mut request).poll(&mut context) {
            Poll::Ready(answer) => Slot::answered(answer, &context),
            // The request was polled once and has not ended, so it is pending.
            Poll::Pending => request.detach().map_or(Slot::Unavailable, Slot::Requested),
        };
        let status = slot.status();
        self.entries.insert(Entry { manager, tells_deadlock: deadlock.tells, slot });
        (id, status)
    }

    /// Notes that a waiting request was made inside a held lock. There may be news of the request.
    pub(crate) fn put_inside(&self, request: u32, holder: u32) {
        let slot = |id: u32| self.entries.get(id as usize).map(|entry| &entry.slot);
        if let (Some(Slot::Requested(request_of_it)), Some(Slot::Held(guard))) =
            (slot(request), slot(holder))
        {
            request_of_it.put_inside(guard.id());
            self.wakers[request as usize].wake_by_ref();
        }
    }

    /// Asks what is held and what is pending in the bucket. Returns the id, and whether the answer
    /// is known at once.
    pub(crate) fn query(&mut self, manager: u32, locks: &LockManager) -> (u32, Status) {
        let locks = locks.clone();
        self.ask(manager, Box::pin(async move { Ok(Told::Snapshot(locks.query().await?)) }))
    }

    /// Asks who holds a name. Returns what [`query`](Self::query) returns.
    pub(crate) fn query_holder(
        &mut self,
        manager: u32,
        locks: &LockManager,
        name: ResourceName,
    ) -> (u32, Status) {
        let locks = locks.clone();
        let question = async move { Ok(Told::Position(Box::new(locks.position(name).await?))) };
        self.ask(manager, Box::pin(question))
    }

    /// Begins to look. Returns the id.
    pub(crate) fn look(&mut self, manager: u32, looker: Looker) -> Result<u32, Failure> {
        let id = self.vacant();
        let looking = Looking::begin(looker, self.wakers[id as usize].clone())?;
        self.entries.insert(Entry { manager, tells_deadlock: false, slot: Slot::Looks(looking) });
        Ok(id)
    }

    /// The look in this slot.
    pub(crate) fn looking(&self, id: u32) -> Option<&Looking> {
        match &self.entries.get(id as usize)?.slot {
            Slot::Looks(looking) => Some(looking),
            _ => None,
        }
    }

    fn ask(&mut self, manager: u32, question: Question) -> (u32, Status) {
        let id = self.vacant();
        let slot = Slot::Asked(question);
        let index = self.entries.insert(Entry { manager, tells_deadlock: false, slot });
        let status = self.news(id).unwrap_or(Status::Pending);
        if !self.inbox.has_news() {
            return (id, status);
        }
        // What is in the inbox is told before the answer, which may show that a lock was stolen.
        let slot = &mut self.entries[index].slot;
        *slot = match mem::replace(slot, Slot::Unavailable) {
            Slot::Answered(told) => Slot::Asked(Box::pin(ready(Ok(told)))),
            Slot::Failed(error) => Slot::Asked(Box::pin(ready(Err(error)))),
            asked => asked,
        };
        // The slot may still be in the inbox for what was in it before.
        self.inbox.forget(id);
        self.wakers[index].wake_by_ref();
        (id, Status::Pending)
    }

    /// How a slot stands, if that has changed since it was told last. The slot's waker is called
    /// when it changes again.
    pub(crate) fn news(&mut self, id: u32) -> Option<Status> {
        let index = id as usize;
        let Entry { slot, tells_deadlock, .. } = self.entries.get_mut(index)?;
        let mut context = Context::from_waker(&self.wakers[index]);
        let changed = match slot {
            Slot::Requested(request) => {
                let answer = Pin::new(&mut *request).poll(&mut context);
                if answer.is_pending() && *tells_deadlock && request.deadlock().is_some() {
                    *tells_deadlock = false;
                    return Some(Status::Pending);
                }
                answer.map(|answer| Slot::answered(answer, &context))
            }
            Slot::Asked(question) => question
                .as_mut()
                .poll(&mut context)
                .map(|answer| answer.map_or_else(Slot::Failed, Slot::Answered)),
            Slot::Looks(looking) => match looking.news()? {
                Ok(()) => return Some(Status::Granted),
                Err(error) => Poll::Ready(Slot::Failed(error)),
            },
            Slot::Held(guard) => guard.poll_lost(&context).map(|lost| {
                let Slot::Held(guard) = mem::replace(slot, Slot::Unavailable) else {
                    unreachable!("matched a line above")
                };
                Slot::Lost(guard, lost.into())
            }),
            _ => Poll::Pending,
        };
        let Poll::Ready(changed) = changed else {
            return None;
        };
        *slot = changed;
        Some(slot.status())
    }

    /// The text about the deadlock of which a request is part.
    pub(crate) fn deadlock(&self, id: u32) -> Option<String> {
        match &self.entries.get(id as usize)?.slot {
            Slot::Requested(request) => request.deadlock().map(|deadlock| deadlock.told),
            _ => None,
        }
    }

    /// Takes out what is in a slot, with the number of its lock manager.
    ///
    /// A request is aborted, and a lock released, when the result is dropped. This may cause news
    /// for this realm.
    pub(crate) fn release(&mut self, id: u32) -> Option<(u32, impl Sized + use<>)> {
        let released = self.entries.try_remove(id as usize);
        let released = released.map(|Entry { manager, slot, .. }| (manager, slot));
        // After a peak of requests, their memory is given back.
        if self.entries.is_empty() && self.wakers.len() > KEEP {
            self.entries = Slab::new();
            self.wakers = Vec::new();
        }
        released
    }

    /// The fencing token of a held lock.
    pub(crate) fn token(&self, id: u32) -> Option<u64> {
        match &self.entries.get(id as usize)?.slot {
            Slot::Held(guard) | Slot::Lost(guard, _) => Some(guard.fencing_token().get()),
            _ => None,
        }
    }

    /// Why a request failed, or how a lock was lost.
    pub(crate) fn failure(&self, id: u32) -> Option<Failed<'_>> {
        let Entry { manager, slot, .. } = self.entries.get(id as usize)?;
        let (error, guard) = match slot {
            Slot::Failed(error) => (error, None),
            Slot::Lost(guard, error) => (error, Some(guard)),
            _ => return None,
        };
        Some(Failed { manager: *manager, error, stolen_by: guard.and_then(PolledGuard::stolen_by) })
    }

    /// The answer to a query.
    pub(crate) fn snapshot(&self, id: u32) -> Option<&LockManagerSnapshot> {
        match &self.entries.get(id as usize)?.slot {
            Slot::Answered(Told::Snapshot(snapshot)) => Some(snapshot),
            _ => None,
        }
    }

    /// The answer to a query for the holder of a name.
    pub(crate) fn position(&self, id: u32) -> Option<&Position> {
        match &self.entries.get(id as usize)?.slot {
            Slot::Answered(Told::Position(position)) => Some(position),
            _ => None,
        }
    }

    /// The id of the next slot, with a waker.
    fn vacant(&mut self) -> u32 {
        let index = self.entries.vacant_key();
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        assert!(id < ID_END, "memory ends before there are as many requests");
        while self.wakers.len() <= index {
            // Slots are numbered one after the other.
            let slot = u32::try_from(self.wakers.len()).unwrap_or(id);
            self.wakers.push(self.inbox.waker(slot));
        }
        id
    }
}

impl Slot {
    /// What is in the slot of a request that was answered. A lock is watched from now on.
    fn answered(answer: Result<Option<LockGuard>, Error>, context: &Context<'_>) -> Self {
        match answer {
            Ok(Some(guard)) => {
                let guard = guard.into_polled();
                match guard.poll_lost(context) {
                    Poll::Ready(lost) => Self::Lost(guard, lost.into()),
                    Poll::Pending => Self::Held(guard),
                }
            }
            Ok(None) => Self::Unavailable,
            Err(error) => Self::Failed(error),
        }
    }

    fn status(&self) -> Status {
        match self {
            Self::Requested(_) | Self::Asked(_) | Self::Looks(_) => Status::Pending,
            Self::Held(_) | Self::Answered(_) => Status::Granted,
            Self::Unavailable => Status::Unavailable,
            Self::Failed(_) | Self::Lost(..) => Status::Failed,
        }
    }
}
