//! A runtime with a context for tests. QuickJS aborts the process if anything of it leaks.
#![allow(dead_code, reason = "each test has its own needs")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use navlock_rquickjs::{
    Locks,
    navlock::{LockManager, UserAgent},
    register, run,
};
use rquickjs::{CatchResultExt, Context, Ctx, FromJs, Runtime, qjs};

/// How long something may take that takes no time unless the machine is slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Has QuickJS abort the process if an object, a string or an atom of this runtime is left when it ends.
pub(crate) fn abort_on_leaks(ctx: &Ctx<'_>) {
    // Not among the bindings.
    const JS_ABORT_ON_LEAKS: u64 = 0x0010_C000;
    // SAFETY: the runtime is locked, as this is a context of it in use.
    unsafe { qjs::JS_SetDumpFlags(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), JS_ABORT_ON_LEAKS) };
}

/// A runtime with a context that has `navigator.locks`.
pub(crate) struct Program {
    pub(crate) context: Context,
    pub(crate) runtime: Runtime,
    pub(crate) deadline: Deadline,
}

/// The program of an agent that nobody else shares locks with.
pub(crate) fn alone() -> Program {
    program(UserAgent::new().lock_manager("app"))
}

/// The program of this agent.
pub(crate) fn program(locks: LockManager) -> Program {
    let runtime = Runtime::new().unwrap();
    let context = context(&runtime, locks);
    Program { context, runtime, deadline: within_deadline() }
}

/// Ends the process if the test hangs, which a test of one thread cannot do itself.
pub(crate) fn within_deadline() -> Deadline {
    let (test, ended) = channel::<()>();
    thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a test takes for ever");
            std::process::abort();
        }
    });
    Deadline(test)
}

/// Until it is dropped, the test has not ended.
pub(crate) struct Deadline(Sender<()>);

/// A context of this runtime with this agent.
pub(crate) fn context(runtime: &Runtime, locks: LockManager) -> Context {
    let context = Context::full(runtime).unwrap();
    context.with(|ctx| {
        abort_on_leaks(&ctx);
        let _ = register(&ctx, locks).catch(&ctx).unwrap();
        define_kit(&ctx);
    });
    context
}

/// What scripts of tests use.
pub(crate) fn define_kit(ctx: &Ctx<'_>) {
    let script = "globalThis.log = [];
        globalThis.note = (text) => { log.push(String(text)); };
        /** Notes how a promise is settled. */
        globalThis.follow = (name, promise) => {
            promise.then((value) => note(`${name}: ${String(value)}`), (error) => note(`${name} failed: ${String(error)}`));
        };";
    ctx.eval::<(), _>(script).unwrap();
}

impl Program {
    /// Evaluates a script, and does nothing else.
    pub(crate) fn eval<T: for<'js> FromJs<'js>>(&self, script: &str) -> T {
        eval(&self.context, script)
    }

    /// Evaluates a script, and does all that follows from it.
    pub(crate) fn run(&self, script: &str) {
        self.eval::<()>(script);
        run(&self.context).unwrap();
    }

    /// Runs what a script has noted: all there is, one after the other.
    pub(crate) fn log(&self) -> String {
        log(&self.context)
    }

    /// What the script has noted when all is done that follows from it.
    pub(crate) fn told(&self, script: &str) -> String {
        self.run(script);
        self.log()
    }

    /// Does the tasks that there are, and all microtasks. It waits for nothing.
    pub(crate) fn step(&self) {
        step(&self.context);
    }
}

/// Evaluates a script; what it throws is the test's failure.
pub(crate) fn eval<T: for<'js> FromJs<'js>>(context: &Context, script: &str) -> T {
    context.with(|ctx| {
        let value = ctx.eval::<T, _>(script).catch(&ctx);
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    })
}

/// What was noted, which is forgotten.
pub(crate) fn log(context: &Context) -> String {
    eval(context, "log.splice(0).join(', ')")
}

/// Does the tasks that there are, and all microtasks. It waits for nothing.
pub(crate) fn step(context: &Context) {
    context.with(|ctx| {
        loop {
            while ctx.execute_pending_job() {}
            if !Locks::of(&ctx).unwrap().run_task().unwrap() {
                return;
            }
        }
    });
}

/// Waits until this is true.
pub(crate) fn until(mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "it takes for ever");
        thread::yield_now();
    }
}
