//! The host's handle of an agent.

use std::{
    fmt,
    rc::Rc,
    task::{Context, Poll},
};

use navlock::LockManager;
use rquickjs::{Ctx, Exception, Object, Result};

use crate::{
    agent::Agent,
    class::Classes,
    engine::Quick,
    home::{Home, HomeObject, ManagerObject},
    interfaces,
    raw::Bare,
};

/// The host's handle of an agent of a context. The host runs the agent's tasks, and can end the agent.
///
/// A task is the call of a callback, the answer to a `query()`, or the rejection for a lock that
/// was lost. One of these runs the tasks: a future of the runtime (`spawn()`, feature `futures`),
/// [`run`](crate::run), or the host's own loop:
///
/// 1. As long as there are jobs, it runs them (`Runtime::execute_pending_job`).
/// 2. It runs one task ([`run_task`](Self::run_task)). If there was one, it goes on with 1.
/// 3. It waits for [`poll_ready`](Self::poll_ready), and for its own events. If it has none, it
///    waits only while the agent [is waiting](Self::is_waiting).
///
/// The handle is valid within one `Context::with`. [`Locks::of`] returns it again.
///
/// ```
/// use std::task::{Context as TaskContext, Waker};
///
/// use navlock_rquickjs::{navlock, register};
/// use rquickjs::{Context, Runtime};
///
/// let runtime = Runtime::new()?;
/// let context = Context::full(&runtime)?;
/// context.with(|ctx| {
///     let locks = register(&ctx, navlock::in_process().lock_manager("my-app"))?;
///     ctx.eval::<(), _>("navigator.locks.request('db', () => { globalThis.done = true; })")?;
///     // Pass the waker of your loop: navlock wakes it, from any thread, when there is a task.
///     let mut wakes_the_loop = TaskContext::from_waker(Waker::noop());
///     while locks.is_waiting() {
///         if locks.poll_ready(&mut wakes_the_loop).is_ready() {
///             locks.run_task()?;
///             while ctx.execute_pending_job() {}
///         }
///     }
///     assert!(ctx.globals().get::<_, bool>("done")?);
///     Ok::<(), rquickjs::Error>(())
/// })?;
/// # Ok::<(), rquickjs::Error>(())
/// ```
#[must_use = "callbacks are called by what drives the agent: `spawn()`, `run()`, or `run_task()`"]
pub struct Locks<'js> {
    home: HomeObject<'js>,
    /// The agent's place in its home.
    number: usize,
    agent: Rc<Agent<'js>>,
}

impl<'js> Locks<'js> {
    /// The agent of `navigator.locks`, if that was registered in this context.
    pub fn of(ctx: &Ctx<'js>) -> Option<Self> {
        let home = Home::find(ctx)?;
        let number = home.navigator.get()?.number;
        let agent = home.agent(number)?;
        Some(Self { home, number, agent })
    }

    /// The agent of this object, if it has the interface `LockManager`, and the agent has not ended.
    pub fn of_object(object: &Object<'js>) -> Option<Self> {
        let classes = Classes::of(object.ctx()).ok()?;
        let object = Bare::of(object);
        let manager = ManagerObject::of(classes, &object)?;
        let agent = manager.home.agent(manager.number)?;
        Some(Self { home: manager.home.clone(), number: manager.number, agent })
    }

    /// The agents of this context: the agent of `navigator.locks`, and all agents that were
    /// [opened](Self::open). An agent that has ended is among them until its scripts have been told
    /// of the end.
    pub fn all(ctx: &Ctx<'js>) -> impl Iterator<Item = Self> + use<'js> {
        let home = Home::find(ctx);
        let agents = home.as_ref().map(|home| home.agents()).unwrap_or_default();
        let agents = agents.into_iter().filter(|(_, agent)| !agent.realm.is_over());
        agents.zip(home.into_iter().cycle()).map(|((number, agent), home)| Self {
            home,
            number,
            agent,
        })
    }

    /// Makes another agent of this context. This is for a host that gives scripts several lock
    /// managers, such as those of several storage buckets. The host gives scripts the agent's
    /// [`object`](Self::object). This also defines the global interfaces `LockManager` and `Lock`,
    /// if they are not there yet.
    ///
    /// ```
    /// use navlock_rquickjs::{Locks, navlock, run};
    /// use rquickjs::{Context, Runtime};
    ///
    /// let context = Context::full(&Runtime::new()?)?;
    /// context.with(|ctx| {
    ///     let inbox = Locks::open(&ctx, navlock::in_process().lock_manager("inbox"))?;
    ///     ctx.globals().set("inbox", inbox.object())?;
    ///     ctx.eval::<(), _>("inbox.request('db', () => { globalThis.done = true; })")
    /// })?;
    /// run(&context)?;
    /// assert!(context.with(|ctx| ctx.globals().get::<_, bool>("done"))?);
    /// # Ok::<(), rquickjs::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`register`](crate::register), but a context can have several such agents.
    pub fn open(ctx: &Ctx<'js>, locks: LockManager) -> Result<Self> {
        let home = home_with_interfaces(ctx)?;
        let (number, agent) = home.enter(locks)?;
        Ok(Self { home, number, agent })
    }

    pub(crate) fn register(ctx: &Ctx<'js>, locks: LockManager) -> Result<Self> {
        if Self::of(ctx).is_some() {
            let message = "navigator.locks is registered in this context already";
            return Err(Exception::throw_type(ctx, message));
        }
        let registered = Self::open(ctx, locks)?;
        let Self { home, number, agent } = &registered;
        if let Err(error) = interfaces::define_navigator(home, &agent.object, *number) {
            registered.end();
            return Err(error);
        }
        Ok(registered)
    }

    fn engine(&self) -> Quick<'_, 'js> {
        Quick { home: &self.home, number: self.number }
    }

    /// The object with the interface `LockManager`.
    pub fn object(&self) -> Object<'js> {
        self.agent.object(&self.home.ctx)
    }

    /// The agent's lock manager for Rust code. It has the locks and requests of this agent, and
    /// scripts see its client id in snapshots.
    pub fn lock_manager(&self) -> LockManager {
        self.agent.realm.locks().clone()
    }

    /// Says whether the context is fully active. This is for hosts with documents that can be kept
    /// while they are not shown. While the context is not fully active, requests of its scripts are
    /// rejected with an `InvalidStateError`. Their locks and earlier requests stay as they are.
    pub fn set_fully_active(&self, is_fully_active: bool) {
        self.agent.realm.locks().set_fully_active(is_fully_active);
    }

    /// Ready when there is a task. Otherwise, this wakes the task of the last `Context` that it was
    /// given as soon as there is a task or the agent has ended. The wake may come from any thread.
    /// So a host that stays until the end checks [`has_ended`](Self::has_ended) after this call.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.agent.realm.poll_ready(context)
    }

    /// Runs one task, if there is one. Returns whether there was one. Before the next task, the
    /// host runs the jobs of the runtime.
    ///
    /// # Errors
    ///
    /// `Error::Exception`, with an exception that no script can catch, such as an interrupt. Then
    /// the request of the task has ended: its lock is released, and its promise is rejected with an
    /// `AbortError` if QuickJS can still do that.
    pub fn run_task(&self) -> Result<bool> {
        let mut engine = self.engine();
        self.agent.realm.run_task(&mut engine)
    }

    /// Whether a script waits for a lock or for the answer to a `query()`. While a script waits, a
    /// host should not end. A held lock is no reason to go on.
    pub fn is_waiting(&self) -> bool {
        self.agent.realm.is_waiting()
    }

    /// Ends the agent: its requests are aborted, its locks are released, and none of its callbacks
    /// is called any more. Later requests of its scripts are rejected.
    ///
    /// All agents of a context end in this way when the context is freed. QuickJS frees a context
    /// when it collects garbage after the last `Context` was dropped: in `Runtime::run_gc`, or at
    /// the latest with the runtime. A host that has several contexts in a runtime should end a
    /// context's agents before it drops the context.
    ///
    /// ```
    /// use navlock_rquickjs::{Locks, navlock, register, run};
    /// use rquickjs::{Context, Runtime};
    ///
    /// let context = Context::full(&Runtime::new()?)?;
    /// context.with(|ctx| {
    ///     let _ = register(&ctx, navlock::in_process().lock_manager("my-app"))?;
    ///     // The script holds the lock for ever.
    ///     ctx.eval::<(), _>("navigator.locks.request('db', () => new Promise(() => {}))")
    /// })?;
    /// run(&context)?;
    ///
    /// let others = navlock::in_process().lock_manager("my-app");
    /// assert!(others.lock("db").if_available().blocking().unwrap().is_none());
    /// context.with(|ctx| Locks::of(&ctx).expect("it is registered").end());
    /// assert!(others.lock("db").if_available().blocking().unwrap().is_some());
    /// # Ok::<(), rquickjs::Error>(())
    /// ```
    pub fn end(&self) {
        self.agent.realm.end();
    }

    /// Whether the agent has ended, by [`end`](Self::end), [`terminate`](LockManager::terminate) or
    /// [`close`](navlock::UserAgent::close). The last two end any agent of Rust code. After them,
    /// tasks reject the promises of the agent's requests and locks, as for any lost lock.
    pub fn has_ended(&self) -> bool {
        self.agent.realm.has_ended()
    }

    /// Spawns a future of the runtime that runs the tasks while `AsyncRuntime::drive`,
    /// `AsyncRuntime::idle` or anything else drives the runtime. The future lasts as long as the agent
    /// [is waiting](Self::is_waiting). So `AsyncRuntime::idle` waits for requests, but not for held locks.
    ///
    /// If the agent waits for nothing and one of its locks is lost, its scripts are told only at
    /// their next request. A host that stays anyway should use
    /// [`spawn_until_end`](Self::spawn_until_end).
    ///
    /// # Panics
    ///
    /// As `Ctx::spawn` does in a context of a `Runtime`, which has no futures.
    #[cfg(feature = "futures")]
    pub fn spawn(self) {
        self.agent.drive.spawns.set(true);
        self.engine().spawn();
    }

    /// Spawns a future that runs the tasks until the agent ends. Scripts are told at once when one
    /// of their locks is stolen or lost otherwise. `AsyncRuntime::idle` does not return before the
    /// agent ends. So this is for hosts that run `AsyncRuntime::drive` all the time.
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
    #[cfg(feature = "futures")]
    pub fn spawn_until_end(self) {
        self.agent.drive.stays.set(true);
        self.spawn();
    }
}

impl fmt::Debug for Locks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("lock_manager", &self.lock_manager()).finish_non_exhaustive()
    }
}

fn home_with_interfaces<'js>(ctx: &Ctx<'js>) -> Result<HomeObject<'js>> {
    if let Some(home) = Home::find(ctx) {
        return Ok(home);
    }
    let home = Home::make(ctx, Classes::of(ctx)?)?;
    if let Err(error) = interfaces::define(&home) {
        Home::forget(ctx);
        return Err(error);
    }
    Ok(home)
}
