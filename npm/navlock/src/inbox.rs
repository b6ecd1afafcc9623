//! What other threads, and other locks, have for a realm.

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
    /// FAST: a lock of its own, for a realm that is woken runs at once, perhaps instead of whoever
    /// wakes it, and must not find its state locked.
    bell: Mutex<Option<Bell>>,
}

#[derive(Default)]
struct State {
    /// Slots that were woken, each to be looked at once.
    ready: VecDeque<u32>,
    /// The realm takes all that is ready before it rests, or was woken to do so: nobody need wake it.
    ///
    /// Never true while nothing is ready, but for the time of an [`attend`](Inbox::attend).
    awake: bool,
    /// The realm has ended.
    closed: bool,
}

/// A function of Node-API that may be called from any thread, as long as the realm lives.
#[derive(Clone, Copy)]
pub(crate) struct Bell(napi_threadsafe_function);

// SAFETY: to be called from any thread is what it is for; that it is not called after the realm's end is
// seen to by `Inbox::close`, under the lock under which it is called.
unsafe impl Send for Bell {}

impl Bell {
    /// Whether the realm's event loop goes on only because of this.
    ///
    /// # Safety
    ///
    /// To be called on the realm's thread, while the realm lives.
    pub(crate) unsafe fn keep_alive(self, env: Env, on: bool) -> Result<(), Failure> {
        // SAFETY: promised by the caller.
        let status = unsafe {
            if on {
                napi_sys::napi_ref_threadsafe_function(env.raw(), self.0)
            } else {
                napi_sys::napi_unref_threadsafe_function(env.raw(), self.0)
            }
        };
        ok("napi_ref_threadsafe_function", status)
    }

    /// Gives it back to the runtime. Nobody may use it any more.
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

    /// From now on this function is called with the environment and the realm, in a task of the
    /// realm, when there is something. What rings for that, for the realm itself.
    pub(crate) fn listen(
        &self,
        env: Env,
        realm: *mut c_void,
        on_ring: napi_threadsafe_function_call_js,
    ) -> Result<Bell, Failure> {
        let name = env.string("navlock")?;
        let mut bell = ptr::null_mut();
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
                on_ring,
                &raw mut bell,
            )
        };
        ok("napi_create_threadsafe_function", status)?;
        let bell = Bell(bell);
        *self.bell() = Some(bell);
        Ok(bell)
    }

    /// The realm has ended: nobody wakes it any more.
    pub(crate) fn close(&self) {
        *self.bell() = None;
        let mut state = self.state();
        state.closed = true;
        state.ready = VecDeque::new();
    }

    /// The next slot that may have news, and whether there are more. If there are none, the realm
    /// is woken for the one after it.
    pub(crate) fn next(&self) -> Option<(u32, bool)> {
        let mut state = self.state();
        let next = state.ready.pop_front();
        state.awake = !state.ready.is_empty();
        next.map(|slot| (slot, state.awake))
    }

    /// Does something that may have news for the realm that does it. What came of it, and whether
    /// the realm has to take its news; if it is about to take what was there before, it has not,
    /// so that it does not begin again in the middle of it, and in the middle of that.
    ///
    /// FAST: to wake itself costs a realm about as much as ten requests.
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
            self.ring();
        }
    }

    /// Wakes the realm, if it has not ended.
    pub(crate) fn ring(&self) {
        if let Some(Bell(bell)) = *self.bell() {
            // SAFETY: the realm has not ended, and cannot while the bell is locked. This neither
            // blocks nor runs anything of the realm.
            unsafe {
                napi_sys::napi_call_threadsafe_function(
                    bell,
                    ptr::null_mut(),
                    ThreadsafeFunctionCallMode::nonblocking,
                );
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bell(&self) -> MutexGuard<'_, Option<Bell>> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has one slot looked at. A slot keeps its waker whoever is in it: to be looked at once too often
/// is harmless.
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
