//! Which requests are made inside which locks, as far as that is known without being said.
//!
//! A request is inside a lock if the lock's callback waits for it. What a callback's future polls while it
//! is polled itself, it waits for. So a request that has to wait notes itself here, and each callback whose
//! future was polled meanwhile, and waits as well, says afterwards that the request is inside its lock.
//! That is so whatever executor polls, and whatever was spawned elsewhere is inside nothing.
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
        backend::{Backend, PackedTicket},
        look::LockId,
        sync::{Arc, Weak},
    };

    /// Of so many requests that were noted last a callback can say that they are inside its lock. It has
    /// polled them a moment ago, mostly only one.
    const MOST: usize = 256;

    /// A request that has to wait. It may be over by now.
    struct Noted {
        agent: Weak<AgentRef>,
        ticket: PackedTicket,
        /// Who is to look again at what became of it, once it was said what it is inside of. The request
        /// has the other half, so that nothing of a task is kept when that has ended.
        waker: Weak<Waker>,
    }

    thread_local! {
        /// How many requests have been noted in this thread.
        static COUNT: Cell<u64> = const { Cell::new(0) };

        /// The last of them.
        static NOTED: RefCell<VecDeque<Noted>> = const { RefCell::new(VecDeque::new()) };
    }

    /// A callback's future is polled from here on.
    #[derive(Clone, Copy)]
    pub(crate) struct Polling {
        /// How many requests had been noted before.
        count: u64,
    }

    impl Polling {
        #[inline]
        pub(crate) fn begin() -> Self {
            Self { count: COUNT.get() }
        }

        /// The future waits: what it has asked for, and has to wait for as well, is inside its locks.
        #[inline]
        pub(crate) fn waits(self, locks: impl FnMut(&mut dyn FnMut(LockId))) {
            // FAST: mostly it waits for something else.
            if COUNT.get() != self.count {
                self.put_inside(locks);
            }
        }

        #[cold]
        fn put_inside(self, mut locks: impl FnMut(&mut dyn FnMut(LockId))) {
            let more = usize::try_from(COUNT.get() - self.count).unwrap_or(MOST);
            // Taken out meanwhile: what is called may be anybody's code.
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
            // FAST: mostly the one that makes room was of the same agent, and is counted there already.
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

    /// Has this waker called for the request that was noted last, whenever it is said inside what that is,
    /// for as long as there is somebody who has it.
    pub(crate) fn wake_when_known(waker: &Arc<Waker>) {
        let waker = Arc::downgrade(waker);
        let _ = NOTED.try_with(|all| {
            if let Some(noted) = all.borrow_mut().back_mut() {
                noted.waker = waker;
            }
        });
    }
}

/// The model checker's threads are none of the system's.
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
