//! A realm: the addon as one thread of JavaScript has it.

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

/// One instance of the addon. Only the realm's thread uses it, except for its inbox.
pub(crate) struct Realm {
    inbox: Arc<Inbox>,
    /// `None` before the realm listens, and once it has ended.
    loop_waker: Cell<Option<LoopWaker>>,
    /// The function of JavaScript that takes news. It is held weakly: it refers to everything that
    /// the realm has, and a strong reference would keep all of that for as long as the process
    /// lives.
    wake: Cell<Option<Weak>>,
    /// `None` once the realm has ended.
    state: RefCell<Option<State>>,
}

/// A failure, as a script is told.
pub(crate) struct Told {
    /// The name of the `DOMException`.
    pub(crate) exception: &'static str,
    pub(crate) message: String,
    /// For a lost lock: how it was lost, in a word for programs.
    pub(crate) how_lost: Option<&'static str>,
    /// The client that has stolen the lock, if that is known.
    pub(crate) stolen_by: Option<String>,
}

struct State {
    user_agents: Slab<Arc<UserAgent>>,
    /// Together these are the realm's agent.
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

    /// From now on `wake` is called when there is news. This does not keep the realm alive.
    pub(crate) fn listen(&self, env: Env, wake: napi_value) -> Result<(), Failure> {
        if self.loop_waker.get().is_some() {
            return Err(Failure::Own("this realm listens already".to_owned()));
        }
        self.wake.set(Some(env.weak(wake)?));
        let this = ptr::from_ref(self).cast_mut().cast();
        self.loop_waker.set(Some(self.inbox.listen(env, this, Some(on_wake))?));
        self.keep_alive(env, false)
    }

    /// Says whether the addon alone keeps the realm's event loop running.
    pub(crate) fn keep_alive(&self, env: Env, on: bool) -> Result<(), Failure> {
        match self.loop_waker.get() {
            // SAFETY: a realm is used by its own thread, and has no waker any more when it has ended.
            Some(loop_waker) => unsafe { loop_waker.keep_alive(env, on) },
            None => Ok(()),
        }
    }

    /// Wakes the realm, whether there is news or not. This needs no room on the realm's stack, so
    /// it can be called where the stack is full.
    pub(crate) fn wake_loop(&self) {
        self.inbox.wake_loop();
    }

    /// Opens the user agent of this process, or one that nobody else has. Returns its number.
    pub(crate) fn open_process(&self, is_private: bool) -> Result<u32, Failure> {
        let user_agent = if is_private { reach::private() } else { reach::process() };
        self.with(|state| Ok(add(&mut state.user_agents, user_agent)))
    }

    /// Opens the user agent of this machine's processes, by the broker at this socket. Returns its number.
    pub(crate) fn open_machine(
        &self,
        socket: Option<String>,
        program: Option<String>,
    ) -> Result<u32, Failure> {
        let user_agent = reach::machine(socket, program);
        let user_agent = user_agent.map_err(|error| Failure::Own(error.to_string()))?;
        self.with(|state| Ok(add(&mut state.user_agents, user_agent)))
    }

    /// Opens the user agent that several users of this machine share. Returns its number.
    pub(crate) fn open_system(&self) -> Result<u32, Failure> {
        let user_agent = reach::system().map_err(|error| Failure::Own(error.to_string()))?;
        self.with(|state| Ok(add(&mut state.user_agents, user_agent)))
    }

    /// Opens a lock manager of a bucket, with an agent of its own. Returns its number.
    pub(crate) fn open_manager(&self, user_agent: u32, bucket: &str) -> Result<u32, Failure> {
        self.with(|state| {
            let user_agent = state.user_agents.get(user_agent as usize);
            let user_agent = user_agent.ok_or_else(|| no_such("user agent"))?;
            Ok(state.managers.add(Arc::clone(user_agent), bucket))
        })
    }

    /// Forgets a user agent. Requests and locks of its lock managers go on, unless `ends` is set.
    pub(crate) fn close_user_agent(&self, user_agent: u32, ends: bool) -> Result<(), Failure> {
        let closed = self.with(|state| Ok(state.user_agents.try_remove(user_agent as usize)))?;
        // The requests and locks that end may cause news for this realm.
        if let Some(closed) = closed.filter(|_| ends) {
            closed.close();
        }
        Ok(())
    }

    /// Forgets a lock manager. Its requests and locks go on.
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

    /// Why the request of this slot has failed, or how its lock was lost.
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
        why: Option<String>,
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
            let request = || state.slots.request(manager, locks, name, options, deadlock, why);
            // The locks that were stolen may be this realm's own.
            let (asked, has_more) =
                if is_theft { self.inbox.attend(request) } else { (request(), false) };
            Ok(answer(asked, has_more))
        })
    }

    /// Notes that a request was made inside a lock. News that this causes goes into the inbox, and is
    /// not returned by this call.
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

    /// Begins to look at the bucket of a lock manager, or at all buckets of its user agent, and
    /// asks for the first news.
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
            // There is nothing to be seen of a closed user agent, and there never will be.
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

    /// The next slot that has news.
    pub(crate) fn next(&self) -> Result<Answer, Failure> {
        self.with(|state| {
            while let Some((id, has_more)) = self.inbox.next() {
                // The slot may have been woken for the request that was in it before.
                if let Some(status) = state.slots.news(id) {
                    return Ok(answer((id, status), has_more));
                }
            }
            Ok(NOTHING)
        })
    }

    /// Forgets what is in a slot. Returns the first news that this has caused.
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

    /// Reads something of the slots. Fails if `read` returns `None`.
    pub(crate) fn read_slots<T>(
        &self,
        read: impl FnOnce(&Slots) -> Option<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.with(|state| read(&state.slots).unwrap_or_else(|| Err(no_such("thing"))))
    }

    /// Calls the function that takes news.
    fn wake(&self, env: Env) -> Result<(), Failure> {
        match self.wake.get().map(|wake| env.get(wake)).transpose()?.flatten() {
            Some(wake) => env.call(wake),
            // The function was collected, so nobody takes news any more.
            None => Ok(()),
        }
    }

    /// Ends the realm because nobody can use it any more: everything that had its functions was
    /// collected, be it the context of a test file or a copy of the module. Returns whether the
    /// realm had not ended before.
    ///
    /// # Errors
    ///
    /// If Node-API refuses to take back what it gave. The realm has ended then, too.
    pub(crate) fn collected(&self, env: Env) -> Result<bool, Failure> {
        // `None` if the realm has ended before, with its environment. Then the runtime takes
        // everything back.
        let Some(loop_waker) = self.loop_waker.get() else {
            return Ok(false);
        };
        self.end();
        // SAFETY: the inbox is closed, and nobody else has the waker. The environment calls us, so it lives.
        unsafe { loop_waker.give_back() };
        self.wake.take().map_or(Ok(()), |wake| env.forget(wake))?;
        Ok(true)
    }

    /// Ends the realm, of which nothing runs any more: its requests leave their queues, and its
    /// locks are released.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub(crate) fn end(&self) {
        self.inbox.close();
        self.loop_waker.set(None);
        let Some(state) = self.state.take() else {
            return;
        };
        // All locks of a bucket end at one moment. If they were only dropped, they would end one by
        // one.
        for manager in state.managers.iter() {
            manager.terminate();
        }
    }
}

/// Has the realm take its news, in a task of the realm.
unsafe extern "C" fn on_wake(
    env: napi_env,
    _function: napi_value,
    realm: *mut c_void,
    _data: *mut c_void,
) {
    // At the realm's end there is no environment to call.
    if env.is_null() {
        return;
    }
    // SAFETY: the runtime gives us the environment, on its thread, and the realm that `listen` was
    // given. That realm is never given back.
    let (js, realm) = unsafe { (Env::new(env), &*realm.cast::<Realm>()) };
    // If the function of JavaScript throws, the runtime reports the error.
    let _ = realm.wake(js);
}

/// How a lock was lost, if the error says so: a code of the package's documentation.
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
        // A lock that has a lease is lost in this way when its lease is over.
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
