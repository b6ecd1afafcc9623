//! A realm: what one thread of JavaScript has.

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
    ptr,
    sync::Arc,
};

use navlock::{
    Error, LockOptions, Lost, Mode, ResourceName, UserAgent,
    host::{self, Term},
    look::LookOptions,
};

use napi_sys::{napi_env, napi_value};
use slab::Slab;

use crate::{
    inbox::{Inbox, LoopWaker},
    js::{Env, Failure, Weak},
    managers::Managers,
    protocol::{Answer, NOTHING, Status, answer, flag},
    reach,
    slots::{Deadlock, Failed, Slots},
};

/// One instance of the addon. Used by the realm's thread alone, except for its inbox.
pub(crate) struct Realm {
    inbox: Arc<Inbox>,
    /// `None` before the realm listens, and once it has ended.
    loop_waker: Cell<Option<LoopWaker>>,
    /// The function of JavaScript that takes news. Held weakly: it knows all that the realm has, and so
    /// would keep that for as long as the process lives.
    wake: Cell<Option<Weak>>,
    /// `None` once the realm has ended.
    state: RefCell<Option<State>>,
}

/// What has failed, as a script is told.
pub(crate) struct Told {
    /// The name of the `DOMException`.
    pub(crate) exception: &'static str,
    pub(crate) message: String,
    /// If it is a lock that was lost: how, in a word for programs.
    pub(crate) how_lost: Option<&'static str>,
    /// By whom it was stolen, if that is known.
    pub(crate) stolen_by: Option<String>,
}

struct State {
    user_agents: Slab<Arc<UserAgent>>,
    /// Together they are the realm's agent.
    managers: Managers,
    slots: Slots,
}

impl Realm {
    pub(crate) fn new() -> Self {
        let inbox = Inbox::new();
        let slots = Slots::new(Arc::clone(&inbox));
        let state = State { user_agents: Slab::new(), managers: Managers::default(), slots };
        Self {
            inbox,
            loop_waker: Cell::new(None),
            wake: Cell::new(None),
            state: RefCell::new(Some(state)),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> Result<T, Failure>) -> Result<T, Failure> {
        match &mut *self.state.borrow_mut() {
            Some(state) => act(state),
            None => Err(Failure::Own("this realm has ended".to_owned())),
        }
    }

    /// From now on `wake` is called when there is news. Does not keep the realm alive.
    pub(crate) fn listen(&self, env: Env, wake: napi_value) -> Result<(), Failure> {
        if self.loop_waker.get().is_some() {
            return Err(Failure::Own("this realm listens already".to_owned()));
        }
        self.wake.set(Some(env.weak(wake)?));
        let this = ptr::from_ref(self).cast_mut().cast();
        self.loop_waker.set(Some(self.inbox.listen(env, this, Some(on_wake))?));
        self.keep_alive(env, false)
    }

    /// Whether the realm's event loop goes on only because of us.
    pub(crate) fn keep_alive(&self, env: Env, on: bool) -> Result<(), Failure> {
        match self.loop_waker.get() {
            // SAFETY: a realm is used by its own thread, and has no waker any more when it has ended.
            Some(loop_waker) => unsafe { loop_waker.keep_alive(env, on) },
            None => Ok(()),
        }
    }

    /// Has the realm woken although there may be nothing. It needs no room on the realm's stack, and
    /// so can be asked for where there is none left.
    pub(crate) fn wake_loop(&self) {
        self.inbox.wake_loop();
    }

    /// A user agent of this process, or one that nobody else has. Its number.
    pub(crate) fn open_process(&self, is_private: bool) -> Result<u32, Failure> {
        let user_agent = if is_private { reach::private() } else { reach::process() };
        self.with(|state| Ok(add(&mut state.user_agents, user_agent)))
    }

    /// The user agent of this machine's processes, by the broker at this socket. Its number.
    pub(crate) fn open_machine(
        &self,
        socket: Option<String>,
        program: Option<String>,
    ) -> Result<u32, Failure> {
        let user_agent = reach::machine(socket, program);
        let user_agent = user_agent.map_err(|error| Failure::Own(error.to_string()))?;
        self.with(|state| Ok(add(&mut state.user_agents, user_agent)))
    }

    /// A lock manager of a bucket, with an agent of its own. Its number.
    pub(crate) fn open_manager(&self, user_agent: u32, bucket: &str) -> Result<u32, Failure> {
        self.with(|state| {
            let user_agent = state.user_agents.get(user_agent as usize);
            let user_agent = user_agent.ok_or_else(|| no_such("user agent"))?;
            Ok(state.managers.add(Arc::clone(user_agent), bucket))
        })
    }

    /// Forgets a user agent. What was asked of its lock managers goes on, unless all of it is to end.
    pub(crate) fn close_user_agent(&self, user_agent: u32, ends: bool) -> Result<(), Failure> {
        let closed = self.with(|state| Ok(state.user_agents.try_remove(user_agent as usize)))?;
        // What ends may have news for this very realm.
        if let Some(closed) = closed.filter(|_| ends) {
            closed.close();
        }
        Ok(())
    }

    /// Forgets a lock manager. What was asked of it goes on.
    pub(crate) fn close_manager(&self, manager: u32) -> Result<(), Failure> {
        self.with(|state| {
            state.managers.forget(manager);
            Ok(())
        })
    }

    pub(crate) fn client_id(&self, manager: u32) -> Result<String, Failure> {
        self.with(|state| state.managers.client_id(manager))
    }

    pub(crate) fn bucket(&self, manager: u32) -> Result<String, Failure> {
        self.with(|state| Ok(state.managers.bucket(manager)?.to_owned()))
    }

    pub(crate) fn has_lease(&self, manager: u32) -> Result<bool, Failure> {
        self.with(|state| Ok(state.managers.term(manager).is_some()))
    }

    /// What has failed, and why.
    pub(crate) fn failure(&self, id: u32) -> Result<Told, Failure> {
        self.with(|state| {
            let failed = state.slots.failure(id).ok_or_else(|| no_such("failure"))?;
            let Failed { manager, error, stolen_by } = failed;
            let bucket = state.managers.bucket(manager)?;
            Ok(Told {
                exception: error.dom_exception_name(),
                message: format!("{error} (bucket {bucket:?})"),
                how_lost: how_lost(error, || state.managers.term(manager)),
                stolen_by: stolen_by.map(|client_id| client_id.to_string()),
            })
        })
    }

    pub(crate) fn request(
        &self,
        manager: u32,
        name: ResourceName,
        flags: u32,
    ) -> Result<Answer, Failure> {
        let mut options = LockOptions::default();
        if flags & flag::SHARED != 0 {
            options.mode = Mode::Shared;
        }
        options.if_available = flags & flag::IF_AVAILABLE != 0;
        options.steal = flags & flag::STEAL != 0;
        options.signal = flags & flag::SIGNAL != 0;
        let deadlock = Deadlock {
            fails: flags & flag::FAILS_ON_DEADLOCK != 0,
            tells: flags & flag::TELLS_DEADLOCK != 0,
        };
        self.with(|state| {
            let locks = state.managers.enter(manager)?;
            let is_theft = options.steal;
            let request = || state.slots.request(manager, locks, name, options, deadlock);
            // The victims may be our own.
            let (asked, has_more) =
                if is_theft { self.inbox.attend(request) } else { (request(), false) };
            Ok(answer(asked, has_more))
        })
    }

    /// A request was made inside a lock. It may be told of in this turn's news, and not in this call.
    pub(crate) fn put_inside(&self, request: u32, holder: u32) -> Result<(), Failure> {
        self.with(|state| {
            state.slots.put_inside(request, holder);
            Ok(())
        })
    }

    pub(crate) fn query(&self, manager: u32) -> Result<Answer, Failure> {
        self.with(|state| {
            let locks = state.managers.enter(manager)?;
            Ok(answer(state.slots.query(manager, locks), false))
        })
    }

    pub(crate) fn query_holder(&self, manager: u32, name: ResourceName) -> Result<Answer, Failure> {
        self.with(|state| {
            let locks = state.managers.enter(manager)?;
            Ok(answer(state.slots.query_holder(manager, locks, name), false))
        })
    }

    /// Begins to look at the bucket of a lock manager, or at all of its user agent, and asks for the first news.
    pub(crate) fn look_at(
        &self,
        manager: u32,
        name: Option<ResourceName>,
        all_buckets: bool,
    ) -> Result<Answer, Failure> {
        self.with(|state| {
            let (user_agent, bucket) = state.managers.enter_unopened(manager)?;
            let mut options = name.into_iter().fold(LookOptions::default(), LookOptions::name);
            if !all_buckets {
                options = options.bucket(bucket);
            }
            // Of one that is closed there is nothing to see, and never will be.
            let looker = if host::is_closed(user_agent) {
                Err(Failure::Own(Error::Closed.to_string()))
            } else {
                user_agent.look(options).ok_or_else(|| no_such("look"))
            };
            let begun = looker.and_then(|looker| {
                let id = state.slots.look(manager, looker)?;
                Ok(answer((id, Status::Pending), false))
            });
            if begun.is_err() {
                state.managers.leave(manager);
            }
            begun
        })
    }

    /// The next thing of which there is news.
    pub(crate) fn next(&self) -> Result<Answer, Failure> {
        self.with(|state| {
            while let Some((id, has_more)) = self.inbox.next() {
                // It may have been woken for whoever was in the slot before.
                if let Some(status) = state.slots.news(id) {
                    return Ok(answer((id, status), has_more));
                }
            }
            Ok(NOTHING)
        })
    }

    /// Forgets something. The first news that this has brought about.
    pub(crate) fn release(&self, id: u32) -> Result<Answer, Failure> {
        let released = self.with(|state| {
            let released = state.slots.release(id);
            if let Some((manager, _)) = &released {
                state.managers.leave(*manager);
            }
            Ok(released)
        })?;
        let ((), has_news) = self.inbox.attend(|| drop(released));
        if has_news { self.next() } else { Ok(NOTHING) }
    }

    /// Looks at a slot.
    pub(crate) fn look<T>(
        &self,
        look: impl FnOnce(&Slots) -> Option<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.with(|state| look(&state.slots).unwrap_or_else(|| Err(no_such("thing"))))
    }

    /// Calls the function that takes news.
    fn wake(&self, env: Env) -> Result<(), Failure> {
        match self.wake.get().map(|wake| env.get(wake)).transpose()?.flatten() {
            Some(wake) => env.call(wake),
            // It was collected, and so nobody is there for news.
            None => Ok(()),
        }
    }

    /// Nobody can use the realm any more: what had its functions was collected, be it the context of a
    /// test file or a copy of the module. So it has ended. Whether it had not before.
    ///
    /// # Errors
    ///
    /// If Node-API refuses to take back what it gave. The realm has ended then, too.
    pub(crate) fn collected(&self, env: Env) -> Result<bool, Failure> {
        // None if it ended before: with its environment, which takes all of it back.
        let Some(loop_waker) = self.loop_waker.get() else {
            return Ok(false);
        };
        self.end();
        // SAFETY: the inbox is closed, and nobody else has the waker; we are called by the
        // environment.
        unsafe { loop_waker.give_back() };
        self.wake.take().map_or(Ok(()), |wake| env.forget(wake))?;
        Ok(true)
    }

    /// The realm has ended, and nothing of it runs any more: its requests leave their queues, its
    /// locks are released.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub(crate) fn end(&self) {
        self.inbox.close();
        self.loop_waker.set(None);
        let Some(state) = self.state.take() else {
            return;
        };
        // All at one moment for each bucket, not one by one as they are dropped.
        for manager in state.managers.iter() {
            manager.terminate();
        }
    }
}

/// In a task of the realm: has it take its news.
unsafe extern "C" fn on_wake(
    env: napi_env,
    _function: napi_value,
    realm: *mut c_void,
    _data: *mut c_void,
) {
    // At the realm's end there is nothing to be called.
    if env.is_null() {
        return;
    }
    // SAFETY: the runtime gives us the environment, on its thread, and the realm that the inbox was
    // given, which is never given back.
    let (js, realm) = unsafe { (Env::new(env), &*realm.cast::<Realm>()) };
    // What the function throws is for the runtime to report.
    let _ = realm.wake(js);
}

/// How a lock was lost, if that is what has happened: the codes of the face's documentation.
fn how_lost(error: &Error, term: impl FnOnce() -> Option<Term>) -> Option<&'static str> {
    let Error::Lost(lost) = error else {
        return None;
    };
    Some(match lost {
        Lost::Stolen => "STOLEN",
        Lost::Terminated => "TERMINATED",
        Lost::Closed => "CLOSED",
        Lost::Reset => "RESET",
        Lost::Removed => "REMOVED",
        // Where locks are held for a time, that is over when they are lost so.
        _ if term().is_some_and(|term| term.now >= term.ends) => "LEASE_ENDED",
        _ => "DISCONNECTED",
    })
}

fn add<T>(all: &mut Slab<T>, one: T) -> u32 {
    u32::try_from(all.insert(one)).expect("memory ends before 2^32 handles")
}

fn no_such(thing: &str) -> Failure {
    Failure::Own(format!("there is no such {thing}"))
}
