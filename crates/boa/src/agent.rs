//! Agents: lock managers in a realm.

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::{Rc, Weak},
};

use boa_engine::{
    Finalize, JsNativeError, JsObject, JsResult, JsValue, Trace,
    builtins::promise::ResolvingFunctions,
};
use navlock::{LockManager, UserAgent};
use navlock_js::Realm;

use crate::{driver::Driver, home::Home};

/// An agent, with all that its scripts have asked for.
pub(crate) struct Agent {
    pub(crate) requests: Realm<JsValue, ResolvingFunctions>,
    /// `None` once its context has gone.
    home: RefCell<Option<Rc<Home>>>,
    pub(crate) driver: Driver,
    /// Whether the agent is behind `navigator.locks` of its realm.
    pub(crate) is_navigators: Cell<bool>,
    /// The `LockManager` of scripts. Made when it is first asked for.
    pub(crate) object: RefCell<Option<JsObject>>,
}

impl Agent {
    pub(crate) fn new(locks: LockManager, home: Rc<Home>, driver: Driver) -> Rc<Self> {
        Rc::new(Self {
            requests: Realm::new(locks),
            home: RefCell::new(Some(home)),
            driver,
            is_navigators: Cell::new(false),
            object: RefCell::default(),
        })
    }

    /// An agent that has ended. It stands in for an agent that nobody keeps any more.
    pub(crate) fn ended(home: Rc<Home>) -> Rc<Self> {
        let locks = UserAgent::new().lock_manager("");
        locks.terminate();
        Self::new(locks, home, Driver::Host)
    }

    /// Whether it is in this realm of its context.
    pub(crate) fn is_in(&self, realm: &boa_engine::realm::Realm) -> bool {
        self.home.borrow().as_ref().is_some_and(|home| home.realm == *realm)
    }

    /// Whether the agent has this home.
    pub(crate) fn is_at(&self, home: &Rc<Home>) -> bool {
        self.home.borrow().as_ref().is_some_and(|its| Rc::ptr_eq(its, home))
    }

    /// Whether the agent has ended: by its host, with its context, or as Rust code ends agents.
    pub(crate) fn has_ended(&self) -> bool {
        self.requests.has_ended()
    }

    pub(crate) fn home(&self) -> JsResult<Rc<Home>> {
        let gone = || JsNativeError::typ().with_message("the context of these locks is gone");
        self.home.borrow().clone().ok_or_else(|| gone().into())
    }

    pub(crate) fn end(&self) {
        // This wakes the agent's job.
        self.requests.end();
    }

    /// The agent's context is gone.
    pub(crate) fn leave(&self) {
        self.end();
        drop((self.home.take(), self.object.take()));
    }
}

/// A reference to an agent for objects that the engine collects. Such an object must not keep the agent
/// alive, nor be the last to drop it.
#[derive(Clone, Trace, Finalize)]
pub(crate) struct WeakAgent(#[unsafe_ignore_trace] Weak<Agent>);

impl WeakAgent {
    pub(crate) fn of(agent: &Rc<Agent>) -> Self {
        Self(Rc::downgrade(agent))
    }

    pub(crate) fn upgrade(&self) -> Option<Rc<Agent>> {
        self.0.upgrade()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("locks", self.requests.locks()).finish_non_exhaustive()
    }
}
