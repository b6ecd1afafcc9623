//! Registration, and the handle that embedders have of it.

use std::{
    rc::Rc,
    task::{Context as TaskContext, Poll},
};

use boa_engine::{Context, JsNativeError, JsObject, JsResult, realm::Realm};
use navlock::{LockManager, UserAgent};

use crate::{
    agent::Agent,
    driver::{Driver, Jobs},
    home::Home,
    homes, interfaces,
};

/// Gives a realm `navigator.locks`, with the interfaces `Lock` and `LockManager`, and what it lacks of
/// `AbortController`, `AbortSignal`, `DOMException`, `Event` and `EventTarget`.
///
/// An extension as those of Boa's runtime are; with the feature `runtime` it is one.
///
/// ```
/// use boa_engine::{Context, Source};
/// use navlock_boa::LocksExtension;
///
/// let mut context = Context::default();
/// // Locks that no other realm has.
/// LocksExtension::default().register(None, &mut context)?;
/// context.eval(Source::from_bytes("navigator.locks.request('db', () => (globalThis.done = true))"))?;
/// context.run_jobs()?;
/// assert!(context.eval(Source::from_bytes("done"))?.to_boolean());
/// # Ok::<(), boa_engine::JsError>(())
/// ```
#[derive(Debug)]
pub struct LocksExtension {
    locks: LockManager,
    driver: Driver,
}

/// An embedder's handle to the agent behind a lock manager of scripts.
///
/// Cheap to clone; the clones are the same. It keeps nothing alive: when the context is dropped, the
/// agent ends.
#[derive(Debug, Clone)]
pub struct Locks(Rc<Agent>);

impl LocksExtension {
    /// An extension by which the scripts of a realm ask for locks as this agent.
    ///
    /// A realm is an agent, so each has a handle of its own: ask the bucket for another one with
    /// [`lock_manager`](navlock::Bucket::lock_manager), and do not give away a clone.
    pub fn new(locks: LockManager) -> Self {
        Self { locks, driver: Driver::Jobs(Jobs::default()) }
    }

    /// The embedder runs the tasks itself, by [`Locks::poll_ready`] and [`Locks::run_task`]. The context's
    /// job executor does not run them.
    #[must_use]
    pub fn driven_by_host(mut self) -> Self {
        self.driver = Driver::Host;
        self
    }

    /// Keeps the job that runs the tasks in the context's executor until the agent ends, and not only as long
    /// as a script waits for something. So scripts hear at once when others steal their locks. An executor
    /// that waits for all of its jobs, as Boa's own `run_jobs` does, then does not return.
    #[must_use]
    pub fn driven_until_end(mut self) -> Self {
        self.driver = Driver::Jobs(Jobs::until_end());
        self
    }

    /// Registers the extension in this realm, or in the context's current one.
    ///
    /// `navigator` is made if there is none. `AbortSignal.timeout` counts with the realm's `setTimeout`,
    /// if it has one by now, or else with timers of the context's job executor. From then on the realm
    /// lives as long as the context.
    ///
    /// # Errors
    ///
    /// The extension is registered in the realm already, or the realm has a global of the same name that
    /// cannot be replaced.
    pub fn register(self, realm: Option<Realm>, context: &mut Context) -> JsResult<Locks> {
        within(realm, context, |context| {
            if Locks::of(context).is_some() {
                let error = JsNativeError::typ()
                    .with_message("navigator.locks is registered in this realm already");
                return Err(error.into());
            }
            let locks = self.made_in(context)?;
            interfaces::install(locks.object(context)?, context)?;
            locks.0.is_navigators.set(true);
            Ok(locks)
        })
    }

    /// Makes a lock manager that is not `navigator.locks`; [`Locks::object`] returns it. With this a host can
    /// give scripts several lock managers, such as those of storage buckets. Defines the interfaces in the
    /// realm if they are not defined yet.
    ///
    /// ```
    /// use boa_engine::{Context, Source, js_string, property::Attribute};
    /// use navlock_boa::{LocksExtension, navlock};
    ///
    /// let mut context = Context::default();
    /// let inbox = navlock::in_process().lock_manager("inbox");
    /// let locks = LocksExtension::new(inbox).open(None, &mut context)?;
    /// let object = locks.object(&context)?;
    /// context.register_global_property(js_string!("inbox"), object, Attribute::all())?;
    /// context.eval(Source::from_bytes("inbox.request('db', () => (globalThis.done = true))"))?;
    /// context.run_jobs()?;
    /// assert!(context.eval(Source::from_bytes("done"))?.to_boolean());
    /// # Ok::<(), boa_engine::JsError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The realm has a global of the same name that cannot be replaced.
    pub fn open(self, realm: Option<Realm>, context: &mut Context) -> JsResult<Locks> {
        within(realm, context, |context| self.made_in(context))
    }

    fn made_in(self, context: &mut Context) -> JsResult<Locks> {
        let home = Home::of(context)?;
        let agent = Agent::new(self.locks, home, self.driver);
        homes::keep(&agent, context);
        agent.drive(context);
        Ok(Locks(agent))
    }
}

impl Default for LocksExtension {
    /// An extension with locks that no other realm has.
    fn default() -> Self {
        Self::new(UserAgent::new().lock_manager(""))
    }
}

#[cfg(feature = "runtime")]
impl boa_runtime::RuntimeExtension for LocksExtension {
    fn register(self, realm: Option<Realm>, context: &mut Context) -> JsResult<()> {
        Self::register(self, realm, context).map(drop)
    }
}

/// Gives the context's current realm `navigator.locks`: short for
/// [`LocksExtension::new`] and [`register`](LocksExtension::register).
///
/// ```
/// use boa_engine::{Context, Source};
/// use navlock_boa::{navlock, register};
///
/// let mut context = Context::default();
/// register(&mut context, navlock::in_process().lock_manager("my-app"))?;
/// context.eval(Source::from_bytes("navigator.locks.request('db', () => (globalThis.done = true))"))?;
/// context.run_jobs()?;
/// assert!(context.eval(Source::from_bytes("done"))?.to_boolean());
/// # Ok::<(), boa_engine::JsError>(())
/// ```
///
/// # Errors
///
/// As [`LocksExtension::register`].
pub fn register(context: &mut Context, locks: LockManager) -> JsResult<Locks> {
    LocksExtension::new(locks).register(None, context)
}

impl Locks {
    /// The handle of the `navigator.locks` in the context's current realm, if it is registered.
    pub fn of(context: &Context) -> Option<Self> {
        homes::navigators(context).map(Self)
    }

    /// The handles of all lock managers of the context. Left out are those whose agent has ended and whose
    /// scripts have been told of that.
    pub fn all(context: &Context) -> Vec<Self> {
        let agents = homes::agents(context).into_iter();
        agents.filter(|agent| !agent.requests.is_over()).map(Self).collect()
    }

    /// The object with the interface `LockManager`. It is the same at each call.
    ///
    /// # Errors
    ///
    /// The context is not the agent's.
    pub fn object(&self, context: &Context) -> JsResult<JsObject> {
        homes::check(&self.0, context)?;
        self.0.object()
    }

    /// The agent, as Rust code knows it.
    pub fn lock_manager(&self) -> &LockManager {
        self.0.requests.locks()
    }

    /// Says whether the realm is fully active. While it is not, what its scripts ask for is rejected
    /// with an `InvalidStateError`.
    pub fn set_fully_active(&self, is_active: bool) {
        self.lock_manager().set_fully_active(is_active);
    }

    /// Ends the agent: its requests are aborted, its locks released. From then on no promise is settled and
    /// no callback called. What scripts ask for later is rejected with an `InvalidStateError`.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    ///
    /// ```
    /// use boa_engine::{Context, Source};
    /// use navlock_boa::{navlock, register};
    ///
    /// let mut context = Context::default();
    /// let locks = register(&mut context, navlock::in_process().lock_manager("my-app"))?;
    /// // The script holds the lock for ever.
    /// context.eval(Source::from_bytes("navigator.locks.request('db', () => new Promise(() => {}))"))?;
    /// context.run_jobs()?;
    ///
    /// let others = navlock::in_process().lock_manager("my-app");
    /// assert!(others.lock("db").if_available().blocking().unwrap().is_none());
    /// locks.end();
    /// assert!(others.lock("db").if_available().blocking().unwrap().is_some());
    /// # Ok::<(), boa_engine::JsError>(())
    /// ```
    pub fn end(&self) {
        self.0.end();
    }

    /// Whether the agent has ended: by [`end`](Self::end), with its context, or as any agent of Rust code
    /// does, by [`terminate`](LockManager::terminate) or [`close`](UserAgent::close). After the latter two,
    /// tasks reject what its scripts wait for and hold, as anything else that is lost.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Whether scripts wait for a lock, or for the answer to a query. A host should stay as long as they do.
    /// A script that only holds a lock does not wait.
    pub fn is_waiting(&self) -> bool {
        self.0.requests.is_waiting()
    }

    /// Ready when there is a task. The last of the contexts given here is woken, from any thread. It is also
    /// woken when the agent has ended; so a host that stays until then checks [`has_ended`](Self::has_ended)
    /// after this.
    ///
    /// For [hosts that drive](LocksExtension::driven_by_host) the agent.
    pub fn poll_ready(&self, context: &mut TaskContext<'_>) -> Poll<()> {
        self.0.requests.poll_ready(context)
    }

    /// Runs one task, if there is one: calls a callback, answers a query, or rejects the promise of what
    /// failed or was lost. Returns whether there was one. The host must then run all promise jobs before it
    /// runs the next task.
    ///
    /// # Errors
    ///
    /// An error that no script can catch, such as one of Boa's runtime limits: it has stopped the callback,
    /// whose lock is released, and whose promise is rejected with an `AbortError`. Also an error if the
    /// context is not the agent's.
    pub fn run_task(&self, context: &mut Context) -> JsResult<bool> {
        homes::check(&self.0, context)?;
        self.0.run_task(context)
    }

    /// Has the context's job executor look after the agent again. For embedders whose executor has
    /// dropped jobs: Boa's own drops all of them when one has failed, and when its future is dropped.
    /// The next request of a script does the same.
    pub fn resume(&self, context: &mut Context) {
        self.0.drive(context);
    }
}

fn within<T>(
    realm: Option<Realm>,
    context: &mut Context,
    call: impl FnOnce(&mut Context) -> JsResult<T>,
) -> JsResult<T> {
    let Some(realm) = realm else { return call(context) };
    let outer = context.enter_realm(realm);
    let result = call(context);
    context.enter_realm(outer);
    result
}
