//! Rules 25 and 26: the end of agents.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use navlock_core::{Error, LockGuard, LockManager, Lost, UserAgent};

use super::{Waiting, agent, assert_nothing_is_left, exclusive, settle, shared, soon};

/// Rule 25: no request of the ending agent is granted on the way.
pub fn termination_ends_requests_then_locks_then_wakes(user_agent: &UserAgent) {
    let (dying, heir) = (agent(user_agent), agent(user_agent));
    let held = exclusive(&dying, "db");
    let own_request = Waiting::new(&dying, dying.lock("db"));
    let heirs_request = Waiting::new(&heir, heir.lock("db"));
    // Both agents hold the name shared. The ending agent's waiting writer keeps the heir's second
    // reader out.
    let (own_reader, _heirs_reader) = (shared(&dying, "log"), shared(&heir, "log"));
    let own_writer = Waiting::new(&dying, dying.lock("log"));
    let heirs_second_reader = Waiting::new(&heir, heir.lock("log").shared());

    dying.terminate();
    assert_eq!(own_request.failed(), Error::Terminated);
    assert_eq!(own_writer.failed(), Error::Terminated);
    assert_eq!(soon(held.lost()), Lost::Terminated);
    assert!(own_reader.is_lost());
    let heirs = heirs_request.granted();
    drop(heirs_second_reader.granted());

    // A guard that the ended agent drops later does not release the heir's lock.
    drop(held);
    assert!(!heirs.is_lost());
}

/// An agent that has ended.
pub fn a_terminated_agent_gets_nothing_any_more(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let clone = locks.clone();
    locks.terminate();
    locks.terminate();
    assert_eq!(soon(clone.lock("db")).unwrap_err(), Error::Terminated);
    assert_eq!(soon(clone.lock("-")).unwrap_err().dom_exception_name(), "InvalidStateError");
    assert_eq!(soon(clone.query()), Err(Error::Terminated));
    drop(exclusive(&locks.bucket().lock_manager(), "db"));
}

/// A guard from a temporary handle stays valid.
pub fn an_agent_lives_as_long_as_a_guard(user_agent: &UserAgent) {
    let guard = exclusive(&agent(user_agent), "db");
    let others = agent(user_agent);
    let mut waiter = Waiting::new(&others, others.lock("db"));
    assert!(!guard.is_lost());
    assert!(waiter.still(&others));
    drop(guard);
    drop(waiter.granted());
}

/// Rule 25: the same when a Rust program drops everything.
pub fn dropping_everything_frees_everything(user_agent: &UserAgent) {
    let (dying, heir) = (agent(user_agent), agent(user_agent));
    let held = exclusive(&dying, "db");
    let request = Waiting::new(&dying, dying.lock("db"));
    let heirs_request = Waiting::new(&heir, heir.lock("db"));
    drop(request);
    drop((dying, held));
    drop(heirs_request.granted());
    assert_nothing_is_left(&heir);
}

/// The end of a user agent.
pub fn closing_a_user_agent_ends_all_of_it(user_agent: &UserAgent) {
    let (a, b) = (agent(user_agent), user_agent.lock_manager("another bucket"));
    let held = exclusive(&a, "db");
    let waiting = Waiting::new(&a, a.lock("db"));
    let elsewhere = exclusive(&b, "db");

    user_agent.close();
    user_agent.close();
    assert_eq!(waiting.failed(), Error::Closed);
    assert_eq!(soon(held.lost()), Lost::Closed);
    assert_eq!(soon(elsewhere.lost()), Lost::Closed);
    for locks in [a, b, agent(user_agent), user_agent.lock_manager("a third")] {
        assert_eq!(soon(locks.lock("db")).unwrap_err(), Error::Closed);
        assert_eq!(soon(locks.query()), Err(Error::Closed));
    }
}

/// The end of a user agent: all its agents end at one moment, so no agent is granted a lock that
/// another one held.
pub fn closing_grants_nothing_to_whom_it_closes(user_agent: &UserAgent) {
    /// Agents of one bucket. Each agent holds its own name and waits for the names of all others. So if
    /// one agent ended before the others, its name would be granted to another one.
    fn cycle(user_agent: &UserAgent, bucket: &str) -> (Vec<LockGuard>, Vec<Arc<Inline>>) {
        let agents: Vec<_> = (0..8).map(|_| user_agent.lock_manager(bucket)).collect();
        let name = |of: usize| format!("of agent {of}");
        let held = agents.iter().enumerate().map(|(nth, locks)| exclusive(locks, &name(nth)));
        let held = held.collect();
        let waits = |(nth, locks): (usize, &LockManager)| {
            let others = (0..8).filter(|other| *other != nth);
            others.map(|other| Inline::wait(locks, name(other))).collect::<Vec<_>>()
        };
        let waiting = agents.iter().enumerate().flat_map(waits).collect();
        agents.iter().for_each(settle);
        (held, waiting)
    }

    let (held, waiting): (Vec<_>, Vec<_>) =
        ["one", "two"].iter().map(|bucket| cycle(user_agent, bucket)).unzip();
    // A name may have several waiters, and its holder may be shared.
    let (a, b) = (agent(user_agent), agent(user_agent));
    let holder = shared(&a, "db");
    let others = [&a, &b, &b].map(|locks| Inline::wait(locks, "db"));

    user_agent.close();
    for waiting in waiting.iter().flatten().chain(&others) {
        assert_eq!(waiting.outcome(), Error::Closed);
    }
    for guard in held.iter().flatten().chain([&holder]) {
        assert_eq!(soon(guard.lost()), Lost::Closed);
    }
}

/// Nobody has held a lock whose grant no task has heard of: its request fails as one that waits.
pub fn a_grant_that_its_task_has_not_heard_of_fails_as_a_wait_does(user_agent: &UserAgent) {
    for (closes, expected) in [(false, Error::Terminated), (true, Error::Closed)] {
        let (holder, waiter) = (agent(user_agent), agent(user_agent));
        let held = exclusive(&holder, "db");
        let request = Waiting::new(&waiter, waiter.lock("db"));
        drop(held);
        // From here on the lock is granted, and the task has not been polled.
        settle(&waiter);
        if closes {
            user_agent.close();
        } else {
            waiter.terminate();
        }
        assert_eq!(request.failed(), expected);
    }
}

/// A request that is polled inside the call of its waker, as by an executor that runs tasks at
/// once. So it sees every state in between.
struct Inline {
    request: Mutex<Option<Request>>,
    woken: AtomicBool,
    outcome: Mutex<Option<Result<(), Error>>>,
}

type Request = Pin<Box<dyn Future<Output = Result<LockGuard, Error>> + Send>>;

impl Inline {
    fn wait(locks: &LockManager, name: impl Into<String>) -> Arc<Self> {
        let (locks, name) = (locks.clone(), name.into());
        let request: Request = Box::pin(async move { locks.lock(name).into_future().await });
        let inline = Arc::new(Self {
            request: Mutex::new(Some(request)),
            woken: AtomicBool::default(),
            outcome: Mutex::default(),
        });
        inline.wake_by_ref();
        inline
    }

    #[track_caller]
    fn outcome(&self) -> Error {
        soon(std::future::poll_fn(|context| {
            // The outcome counts, whether or not the request was woken for it.
            let outcome = self.outcome.lock().unwrap().take();
            if outcome.is_none() {
                context.waker().wake_by_ref();
            }
            outcome.map_or(Poll::Pending, Poll::Ready)
        }))
        .expect_err("nothing is granted")
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        // If the waker is called during a poll, by the poll itself or by another thread, the
        // request is polled again.
        while self.woken.load(Ordering::SeqCst) {
            let Ok(mut request) = self.request.try_lock() else { return };
            self.woken.store(false, Ordering::SeqCst);
            let Some(pending) = request.as_mut() else { return };
            let waker = Waker::from(Arc::clone(self));
            if let Poll::Ready(outcome) = pending.as_mut().poll(&mut Context::from_waker(&waker)) {
                *self.outcome.lock().unwrap() = Some(outcome.map(drop));
                *request = None;
            }
        }
    }
}
