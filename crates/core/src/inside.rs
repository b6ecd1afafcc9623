//! Finds out which requests are made inside which locks, for programs that do not say so.
//!
//! A request is inside a lock if the lock's callback waits for the request. The future of a callback waits
//! for whatever it polls while it is polled itself. So a request that has to wait notes itself here. If the
//! future of a callback was being polled at that moment, and has to wait after this poll, the callback says
//! that the request is inside its lock. No executor has to take part in this. A task that a callback spawns
//! is inside nothing.
//!
//! FAST: a callback that does not wait reads one number of its thread, and a request that does not wait reads
//! none.

#[cfg(not(shuttle))]
pub(crate) use self::here::{Polling, note, wake_when_known};
#[cfg(shuttle)]
pub(crate) use self::nowhere::{Polling, note, wake_when_known};

#[cfg(not(shuttle))]
mod here {
    use std::{
        cell::{Cell, RefCell},
        collections::VecDeque,
        mem,
        task::Waker,
    };

    use crate::{
        agent_ref::AgentRef,
        backend::PackedTicket,
        look::LockId,
        sync::{Arc, Weak},
    };

    /// How many requests are noted at most. Only the last ones stay noted: of older requests, a
    /// callback cannot say any more that they are inside its lock. Mostly a callback has polled just
    /// one request a moment ago.
    const MOST: usize = 256;

    /// A request that had to wait when it was noted. It may be over by now.
    struct Noted {
        agent: Weak<AgentRef>,
        ticket: PackedTicket,
        /// Wakes the request's task once the request was said to be inside a lock. The request itself
        /// keeps the waker alive, so that nothing of a task is kept here after the task has ended.
        waker: Weak<Waker>,
    }

    thread_local! {
        /// How many requests have been noted in this thread.
        static COUNT: Cell<u64> = const { Cell::new(0) };

        /// The last requests that were noted.
        static NOTED: RefCell<VecDeque<Noted>> = const { RefCell::new(VecDeque::new()) };
    }

    /// A poll of a callback's future, from [`begin`](Self::begin) on.
    #[derive(Clone, Copy)]
    pub(crate) struct Polling {
        /// How many requests had been noted before the poll.
        count: u64,
    }

    impl Polling {
        #[inline]
        pub(crate) fn begin() -> Self {
            Self { count: COUNT.get() }
        }

        /// To be called if the future has to wait after the poll: the requests that were noted
        /// during the poll are inside its locks.
        #[inline]
        pub(crate) fn waits(self, locks: impl FnMut(&mut dyn FnMut(LockId))) {
            // FAST: mostly the future waits for something else than a request.
            if COUNT.get() != self.count {
                self.put_inside(locks);
            }
        }

        #[cold]
        fn put_inside(self, mut locks: impl FnMut(&mut dyn FnMut(LockId))) {
            let more = usize::try_from(COUNT.get() - self.count).unwrap_or(MOST);
            // The notes are out of the thread-local while wakers are called, because wakers are
            // the caller's code.
            let noted = NOTED.try_with(|noted| mem::take(&mut *noted.borrow_mut()));
            let Ok(mut noted) = noted else { return };
            let first = noted.len().saturating_sub(more);
            for Noted { agent, ticket, waker } in noted.iter().skip(first) {
                let Some(agent) = agent.upgrade() else { continue };
                locks(&mut |lock| agent.backend().put_inside(ticket.unpack(), lock));
                if let Some(waker) = waker.upgrade() {
                    waker.wake_by_ref();
                }
            }
            let _ = NOTED.try_with(|place| {
                let since = mem::take(&mut *place.borrow_mut());
                noted.extend(since);
                *place.borrow_mut() = noted;
            });
        }
    }

    /// Notes a request that has to wait.
    pub(crate) fn note(agent: &Arc<AgentRef>, ticket: PackedTicket) {
        let old = NOTED.try_with(|all| {
            let mut all = all.borrow_mut();
            let mut old = if all.len() >= MOST { all.pop_front() } else { None };
            // FAST: mostly the oldest note, which is removed to make room, is of the same agent, so
            // its `Weak` is used again.
            let agent = match &mut old {
                Some(old) if old.agent.as_ptr() == Arc::as_ptr(agent) => mem::take(&mut old.agent),
                _ => Arc::downgrade(agent),
            };
            all.push_back(Noted { agent, ticket, waker: Weak::new() });
            old
        });
        if let Ok(old) = old {
            drop(old);
            COUNT.set(COUNT.get() + 1);
        }
    }

    /// Lets this waker be called whenever the request that was noted last is said to be inside a lock,
    /// for as long as the caller keeps the waker alive.
    pub(crate) fn wake_when_known(waker: &Arc<Waker>) {
        let waker = Arc::downgrade(waker);
        let _ = NOTED.try_with(|all| {
            if let Some(noted) = all.borrow_mut().back_mut() {
                noted.waker = waker;
            }
        });
    }
}

/// Does nothing: the threads of the model checker are not those of the system, which the code above
/// counts by.
#[cfg(shuttle)]
mod nowhere {
    use std::task::Waker;

    use crate::{agent_ref::AgentRef, backend::PackedTicket, look::LockId, sync::Arc};

    #[derive(Clone, Copy)]
    pub(crate) struct Polling;

    impl Polling {
        pub(crate) fn begin() -> Self {
            Self
        }

        pub(crate) fn waits(self, _locks: impl FnMut(&mut dyn FnMut(LockId))) {}
    }

    pub(crate) fn note(_agent: &Arc<AgentRef>, _ticket: PackedTicket) {}

    pub(crate) fn wake_when_known(_waker: &Arc<Waker>) {}
}
