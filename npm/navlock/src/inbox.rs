//! The slots of a realm that may have news, put there by other threads and by other locks.

use std::{
    collections::VecDeque,
    ffi::c_void,
    mem, ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Wake, Waker},
};

use napi_sys::{
    ThreadsafeFunctionCallMode, napi_threadsafe_function, napi_threadsafe_function_call_js,
};

use crate::js::{Env, Failure, ok};

/// The slots of a realm that may have news, and the way to wake the realm for them.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// `None` before the realm listens, and for ever after it has ended.
    ///
    /// FAST: this has a lock of its own. A realm that is woken may run at once, before the thread
    /// that wakes it goes on, and must not find the state locked.
    loop_waker: Mutex<Option<LoopWaker>>,
}

#[derive(Default)]
struct State {
    /// Slots that were woken, each to be looked at once.
    ready: VecDeque<u32>,
    /// The realm was woken or is taking news already, and takes all that is ready before it rests:
    /// nobody needs to wake it.
    ///
    /// While nothing is ready this is false, except during an [`attend`](Inbox::attend).
    awake: bool,
    /// The realm has ended.
    closed: bool,
}

/// Wakes the event loop of a realm: a function of Node-API that may be called from any thread, as long as the
/// realm lives.
#[derive(Clone, Copy)]
pub(crate) struct LoopWaker(napi_threadsafe_function);

// SAFETY: the function is made to be called from any thread. `Inbox::close` takes it away at the
// realm's end, under the lock under which it is called, so that nobody calls it after that.
unsafe impl Send for LoopWaker {}

impl LoopWaker {
    /// Says whether this alone keeps the realm's event loop running.
    ///
    /// # Safety
    ///
    /// To be called on the realm's thread, while the realm lives.
    pub(crate) unsafe fn keep_alive(self, env: Env, on: bool) -> Result<(), Failure> {
        // SAFETY: promised by the caller.
        let (call, status) = unsafe {
            if on {
                let status = napi_sys::napi_ref_threadsafe_function(env.raw(), self.0);
                ("napi_ref_threadsafe_function", status)
            } else {
                let status = napi_sys::napi_unref_threadsafe_function(env.raw(), self.0);
                ("napi_unref_threadsafe_function", status)
            }
        };
        ok(call, status)
    }

    /// Gives the function back to the runtime. Nobody may use this waker or a copy of it after that.
    ///
    /// # Safety
    ///
    /// To be called once, while the realm's environment lives, when the inbox is closed.
    pub(crate) unsafe fn give_back(self) {
        // SAFETY: promised by the caller.
        unsafe {
            napi_sys::napi_release_threadsafe_function(
                self.0,
                napi_sys::ThreadsafeFunctionReleaseMode::abort,
            );
        }
    }
}

impl Inbox {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A waker that has this slot looked at.
    pub(crate) fn waker(self: &Arc<Self>, slot: u32) -> Waker {
        Waker::from(Arc::new(SlotWaker { inbox: Arc::clone(self), slot }))
    }

    /// From now on `on_wake` is called with the environment and the realm, in a task of the realm,
    /// when a slot may have news. Returns the waker of the event loop, for the realm's own use.
    pub(crate) fn listen(
        &self,
        env: Env,
        realm: *mut c_void,
        on_wake: napi_threadsafe_function_call_js,
    ) -> Result<LoopWaker, Failure> {
        let name = env.string("navlock")?;
        let mut loop_waker = ptr::null_mut();
        // SAFETY: called on the realm's thread; no function of JavaScript, which would be kept for
        // ever; no queue limit, one thread, no data that would have to be freed.
        let status = unsafe {
            napi_sys::napi_create_threadsafe_function(
                env.raw(),
                ptr::null_mut(),
                ptr::null_mut(),
                name,
                0,
                1,
                ptr::null_mut(),
                None,
                realm,
                on_wake,
                &raw mut loop_waker,
            )
        };
        ok("napi_create_threadsafe_function", status)?;
        let loop_waker = LoopWaker(loop_waker);
        *self.loop_waker() = Some(loop_waker);
        Ok(loop_waker)
    }

    /// The realm has ended: nobody wakes it any more.
    pub(crate) fn close(&self) {
        *self.loop_waker() = None;
        let mut state = self.state();
        state.closed = true;
        state.ready = VecDeque::new();
    }

    /// The next slot that may have news, and whether there are more. If there are none, the realm
    /// is woken for the next slot that comes.
    pub(crate) fn next(&self) -> Option<(u32, bool)> {
        let mut state = self.state();
        let next = state.ready.pop_front();
        state.awake = !state.ready.is_empty();
        next.map(|slot| (slot, state.awake))
    }

    /// Whether slots are ready.
    pub(crate) fn has_news(&self) -> bool {
        !self.state().ready.is_empty()
    }

    /// Takes a slot out that was woken.
    pub(crate) fn forget(&self, slot: u32) {
        self.state().ready.retain(|ready| *ready != slot);
    }

    /// Runs `act`, which may cause news for the realm that runs it. Returns the result of `act`, and
    /// whether the realm has to take the news now. If the realm is taking older news already, it
    /// does not have to: that loop takes this news, too, and must not be entered a second time.
    ///
    /// FAST: for a realm to wake itself instead would cost about as much as ten requests.
    pub(crate) fn attend<T>(&self, act: impl FnOnce() -> T) -> (T, bool) {
        let was_awake = mem::replace(&mut self.state().awake, true);
        let done = act();
        let mut state = self.state();
        state.awake = !state.ready.is_empty();
        (done, state.awake && !was_awake)
    }

    fn push(&self, slot: u32) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.ready.push_back(slot);
        let was_awake = mem::replace(&mut state.awake, true);
        drop(state);
        if !was_awake {
            self.wake_loop();
        }
    }

    /// Wakes the realm, if it has not ended.
    pub(crate) fn wake_loop(&self) {
        if let Some(LoopWaker(loop_waker)) = *self.loop_waker() {
            // SAFETY: the realm has not ended, and cannot end while the waker is locked. This neither
            // blocks nor runs anything of the realm.
            unsafe {
                napi_sys::napi_call_threadsafe_function(
                    loop_waker,
                    ptr::null_mut(),
                    ThreadsafeFunctionCallMode::nonblocking,
                );
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements, so a panic leaves it usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loop_waker(&self) -> MutexGuard<'_, Option<LoopWaker>> {
        self.loop_waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has one slot looked at. A slot keeps its waker for the next request that it has: to look at a slot
/// once too often is harmless.
struct SlotWaker {
    inbox: Arc<Inbox>,
    slot: u32,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.inbox.push(self.slot);
    }
}
