//! One instance of the addon: a realm of `navlock-js`, and its tasks.

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
    ptr,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Wake, Waker},
};

use napi_sys::{ThreadsafeFunctionCallMode, napi_env, napi_threadsafe_function, napi_value};
use navlock::LockManager;
use navlock_js::Realm;

use crate::{
    engine::{Hooks, NodeApi},
    js::{Counts, Env, Failure, Local},
    value::{Call, Deferred, Value},
};

/// An instance. Its memory is never given back.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) counts: Counts,
    /// `None` before it is opened, and once it has ended.
    open: RefCell<Option<Rc<Open>>>,
    /// How many calls there were.
    calls: Cell<Call>,
    /// How many tasks are on their way.
    due: Cell<usize>,
}

struct Open {
    realm: Realm<Value, Deferred>,
    hooks: Hooks,
    loop_waker: Arc<LoopWaker>,
    waker: Waker,
    /// How many tasks the script that called us has to queue: a number that it sees.
    ///
    /// FAST: it looks after each call; a call of ours into it, to say so, would cost what ten looks do.
    wanted: *mut u32,
    /// The number's buffer.
    _kept: Value,
    is_kept_alive: Cell<bool>,
}

/// Wakes the realm when something is ready.
struct LoopWaker {
    /// Until the realm ends.
    function: Mutex<Option<Function>>,
    /// The realm's thread is in a call into us, and looks what is ready when that ends.
    is_attended: AtomicBool,
}

/// A function of Node-API that may be called from any thread, as long as the realm lives.
#[derive(Clone, Copy)]
struct Function(napi_threadsafe_function);

// SAFETY: to be called from any thread is what it is for; `LoopWaker::function` is emptied at the realm's end,
// under the lock under which it is called.
unsafe impl Send for Function {}

impl Host {
    /// Opens the realm. What both halves see of it.
    pub(crate) fn open(
        &'static self,
        env: Env,
        locks: LockManager,
        given: Local,
    ) -> Result<Local, Failure> {
        let call = self.next_call();
        let hooks = Hooks::take(env, call, given)?;
        let (wanted, place) = env.shared_number()?;
        // SAFETY: it was just made, of this size.
        unsafe { place.write(0) };
        let this: *mut c_void = ptr::from_ref(self).cast_mut().cast();
        let function = env.threadsafe_function(this, Some(on_wake))?;
        env.keep_alive(function, false)?;
        let loop_waker = Arc::new(LoopWaker {
            function: Mutex::new(Some(Function(function))),
            is_attended: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&loop_waker));
        *self.open.borrow_mut() = Some(Rc::new(Open {
            realm: Realm::new(locks),
            hooks,
            loop_waker,
            waker,
            wanted: place,
            _kept: Value::local(wanted, call).keep(env, call)?,
            is_kept_alive: Cell::new(false),
        }));
        env.on_cleanup(Some(end), this)?;
        Ok(wanted)
    }

    pub(crate) fn next_call(&self) -> Call {
        self.calls.set(self.calls.get() + 1);
        self.calls.get()
    }

    /// Does something with the realm, and then looks what is ready.
    pub(crate) fn enter<T>(
        &self,
        env: Env,
        act: impl FnOnce(&Realm<Value, Deferred>, &mut NodeApi<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Not borrowed while scripts run: they may come back here.
        let open = self.open.borrow().clone();
        let open = open.ok_or_else(|| Failure::Own("it is not open".to_owned()))?;
        let was_attended = open.loop_waker.is_attended.swap(true, SeqCst);
        let mut engine = NodeApi { env, call: self.next_call(), hooks: &open.hooks };
        let done = act(&open.realm, &mut engine);
        open.loop_waker.is_attended.store(was_attended, SeqCst);
        self.look(env, &open)?;
        done
    }

    /// Has tasks queued, or the event loop kept alive for what is waited for.
    fn look(&self, env: Env, open: &Open) -> Result<(), Failure> {
        let mut ready = open.realm.tasks();
        if ready == 0 && Self::is_ready(open) {
            // Others have pushed it between the two looks.
            ready = open.realm.tasks();
        }
        if ready > 0 {
            // The last task that is due looks again, so nobody needs to wake the realm until then.
            if let Some(more @ 1..) = ready.checked_sub(self.due.get()) {
                self.due.set(ready);
                // SAFETY: it is in the buffer that is kept, and both halves are on this thread.
                unsafe { *open.wanted += u32::try_from(more).unwrap_or(u32::MAX) };
            }
            return Ok(());
        }
        let is_waiting = open.realm.is_waiting();
        if is_waiting == open.is_kept_alive.get() || (is_waiting && self.due.get() > 0) {
            return Ok(());
        }
        let Some(Function(function)) = *open.loop_waker.lock() else { return Ok(()) };
        open.is_kept_alive.set(is_waiting);
        env.keep_alive(function, is_waiting)
    }

    /// Whether there is a task; if not, others wake the realm when there is one.
    fn is_ready(open: &Open) -> bool {
        open.realm.poll_ready(&mut Context::from_waker(&open.waker)).is_ready()
    }

    /// Does a task that was queued.
    pub(crate) fn run_task(&self, env: Env) -> Result<(), Failure> {
        self.due.set(self.due.get().saturating_sub(1));
        self.enter(env, |realm, engine| realm.run_task(engine).map(drop))
    }

    /// Others have woken us: their task will do for what is ready, if none is on its way.
    pub(crate) fn is_due(&self) -> bool {
        self.due.get() > 0
    }

    /// The agent's end: nothing of its scripts runs any more.
    fn end(&self) {
        let Some(open) = self.open.take() else { return };
        *open.loop_waker.lock() = None;
        open.realm.end();
    }
}

impl LoopWaker {
    fn lock(&self) -> MutexGuard<'_, Option<Function>> {
        self.function.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_attended.load(SeqCst) {
            return;
        }
        if let Some(Function(function)) = *self.lock() {
            // SAFETY: the realm has not ended, and cannot while this is locked.
            unsafe {
                napi_sys::napi_call_threadsafe_function(
                    function,
                    ptr::null_mut(),
                    ThreadsafeFunctionCallMode::nonblocking,
                );
            }
        }
    }
}

/// A task of the realm's thread, because it was woken.
unsafe extern "C" fn on_wake(
    raw: napi_env,
    _function: napi_value,
    host: *mut c_void,
    _data: *mut c_void,
) {
    if raw.is_null() {
        return;
    }
    // SAFETY: the runtime gives us the environment, on its thread, and the host that it was given, whose
    // memory is never given back.
    let (host, env) = unsafe {
        let host: &'static Host = &*host.cast::<Host>();
        (host, Env::new(raw, &host.counts))
    };
    let open = host.open.borrow().clone();
    let Some(open) = open else { return };
    let wake = open.hooks.wake.handle(env, host.next_call());
    if let Err(failure) = wake.and_then(|wake| env.call(wake, [])) {
        failure.throw(raw);
    }
}

/// Ends an instance, on its thread.
unsafe extern "C" fn end(host: *mut c_void) {
    // SAFETY: it was given to the hook as this.
    unsafe { &*host.cast::<Host>() }.end();
}
