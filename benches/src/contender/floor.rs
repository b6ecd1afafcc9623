//! Floors: the work that a case cannot do without, as one would write it with `std`. No floor is a lock by
//! name, and none is the least possible: another hash, for example, would make the map's floor cheaper.

use std::{
    collections::HashSet,
    future::{self, Future},
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use slab::Slab;

use super::{Class, Contender};

/// A mutex around a count of holders: what a program would use that knew its one name beforehand. It never
/// waits.
#[derive(Default)]
pub(crate) struct Slot(Mutex<usize>);

/// A mutex around a standard hash set, in which a name comes and goes. It never waits.
#[derive(Default)]
pub(crate) struct InsertRemove(Mutex<HashSet<String>>);

/// A first-come, first-served mutex whose waiters are linked through a slab: no names.
#[derive(Default)]
pub(crate) struct Fifo(Mutex<Queue>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Contender for Slot {
    const NAME: &'static str = "mutex + slot";
    const CLASS: Class = Class::Floor;

    type Guard<'a> = SlotGuard<'a>;

    #[inline]
    fn acquire<'a>(&'a self, _name: &'a str) -> impl Future<Output = SlotGuard<'a>> + Send {
        *lock(&self.0) += 1;
        future::ready(SlotGuard(self))
    }
}

pub(crate) struct SlotGuard<'a>(&'a Slot);

impl Drop for SlotGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        *lock(&self.0.0) -= 1;
    }
}

impl Contender for InsertRemove {
    const NAME: &'static str = "mutex + map insert + remove";
    const CLASS: Class = Class::Floor;

    type Guard<'a> = Inserted<'a>;

    #[inline]
    fn acquire<'a>(&'a self, name: &'a str) -> impl Future<Output = Inserted<'a>> + Send {
        lock(&self.0).insert(name.to_owned());
        future::ready(Inserted { map: self, name })
    }
}

pub(crate) struct Inserted<'a> {
    map: &'a InsertRemove,
    name: &'a str,
}

impl Drop for Inserted<'_> {
    #[inline]
    fn drop(&mut self) {
        lock(&self.map.0).remove(self.name);
    }
}

struct Queue {
    held: bool,
    waiters: Slab<Waiter>,
    first: usize,
    last: usize,
}

struct Waiter {
    waker: Waker,
    granted: bool,
    previous: usize,
    next: usize,
}

/// No waiter.
const NONE: usize = usize::MAX;

impl Default for Queue {
    fn default() -> Self {
        Self { held: false, waiters: Slab::new(), first: NONE, last: NONE }
    }
}

impl Queue {
    fn push(&mut self, waker: Waker) -> usize {
        let waiter = Waiter { waker, granted: false, previous: self.last, next: NONE };
        let key = self.waiters.insert(waiter);
        match self.last {
            NONE => self.first = key,
            last => self.waiters[last].next = key,
        }
        self.last = key;
        key
    }

    fn unlink(&mut self, key: usize) {
        let Waiter { previous, next, .. } = self.waiters[key];
        match previous {
            NONE => self.first = next,
            previous => self.waiters[previous].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.waiters[next].previous = previous,
        }
    }

    /// Gives the lock to the first waiter. The caller has to wake it.
    fn release(&mut self) -> Option<Waker> {
        let first = self.first;
        if first == NONE {
            self.held = false;
            return None;
        }
        self.unlink(first);
        let waiter = &mut self.waiters[first];
        waiter.granted = true;
        Some(std::mem::replace(&mut waiter.waker, Waker::noop().clone()))
    }
}

impl Contender for Fifo {
    const NAME: &'static str = "FIFO mutex in a slab";
    const CLASS: Class = Class::Floor;

    type Guard<'a> = FifoGuard<'a>;

    #[inline]
    fn acquire<'a>(&'a self, _name: &'a str) -> impl Future<Output = FifoGuard<'a>> + Send {
        Acquire { fifo: self, key: NONE }
    }
}

pub(crate) struct FifoGuard<'a>(&'a Fifo);

impl Drop for FifoGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let next = lock(&self.0.0).release();
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

struct Acquire<'a> {
    fifo: &'a Fifo,
    /// Its waiter, if it has one.
    key: usize,
}

impl<'a> Future for Acquire<'a> {
    type Output = FifoGuard<'a>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FifoGuard<'a>> {
        let mut queue = lock(&self.fifo.0);
        if self.key == NONE {
            if queue.held {
                let key = queue.push(context.waker().clone());
                drop(queue);
                self.key = key;
                return Poll::Pending;
            }
            queue.held = true;
        } else if queue.waiters[self.key].granted {
            queue.waiters.remove(self.key);
        } else {
            queue.waiters[self.key].waker.clone_from(context.waker());
            return Poll::Pending;
        }
        drop(queue);
        self.key = NONE;
        Poll::Ready(FifoGuard(self.fifo))
    }
}

impl Drop for Acquire<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.key == NONE {
            return;
        }
        let mut queue = lock(&self.fifo.0);
        let next = if queue.waiters[self.key].granted {
            queue.release()
        } else {
            queue.unlink(self.key);
            None
        };
        let waiter = queue.waiters.remove(self.key);
        drop(queue);
        drop(waiter);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}
