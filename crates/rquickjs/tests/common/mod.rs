//! A runtime with a context for tests. QuickJS aborts the process if the runtime leaks anything.
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

/// A deadline for steps that take no time unless the machine is slow.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes QuickJS abort the process if an object, a string or an atom of this runtime is left when
/// the runtime ends.
pub(crate) fn abort_on_leaks(ctx: &Ctx<'_>) {
    // rquickjs's bindings lack this constant.
    const JS_ABORT_ON_LEAKS: u64 = 0x0010_C000;
    // SAFETY: the runtime is locked, because this context of the runtime is in use.
    unsafe { qjs::JS_SetDumpFlags(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), JS_ABORT_ON_LEAKS) };
}

/// A runtime with a context that has `navigator.locks`.
pub(crate) struct Program {
    pub(crate) context: Context,
    pub(crate) runtime: Runtime,
    pub(crate) deadline: Deadline,
}

/// The program of an agent that shares locks with no other agent.
pub(crate) fn alone() -> Program {
    program(UserAgent::new().lock_manager("app"))
}

/// The program of this agent.
pub(crate) fn program(locks: LockManager) -> Program {
    let runtime = Runtime::new().unwrap();
    let context = context(&runtime, locks);
    Program { context, runtime, deadline: within_deadline() }
}

/// Ends the process if the test hangs. A test with one thread cannot do that itself.
pub(crate) fn within_deadline() -> Deadline {
    let (test, ended) = channel::<()>();
    thread::spawn(move || {
        if ended.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a test takes for ever");
            std::process::abort();
        }
    });
    Deadline(test)
}

/// The test has ended when this is dropped.
pub(crate) struct Deadline(Sender<()>);

/// A context of this runtime, with `navigator.locks` for this lock manager.
pub(crate) fn context(runtime: &Runtime, locks: LockManager) -> Context {
    let context = Context::full(runtime).unwrap();
    context.with(|ctx| {
        abort_on_leaks(&ctx);
        let _ = register(&ctx, locks).catch(&ctx).unwrap();
        define_kit(&ctx);
    });
    context
}

/// Defines what the scripts of tests use.
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
    /// Evaluates a script, and runs nothing else.
    pub(crate) fn eval<T: for<'js> FromJs<'js>>(&self, script: &str) -> T {
        eval(&self.context, script)
    }

    /// Evaluates a script, and runs everything that follows from it.
    pub(crate) fn run(&self, script: &str) {
        self.eval::<()>(script);
        run(&self.context).unwrap();
    }

    /// Takes the notes of the scripts, in their order.
    pub(crate) fn log(&self) -> String {
        log(&self.context)
    }

    /// Evaluates a script, runs everything that follows from it, and takes the notes.
    pub(crate) fn told(&self, script: &str) -> String {
        self.run(script);
        self.log()
    }

    /// Runs all tasks and microtasks that there are. It waits for nothing.
    pub(crate) fn step(&self) {
        step(&self.context);
    }
}

/// Evaluates a script. The test fails if the script throws.
pub(crate) fn eval<T: for<'js> FromJs<'js>>(context: &Context, script: &str) -> T {
    context.with(|ctx| {
        let value = ctx.eval::<T, _>(script).catch(&ctx);
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    })
}

/// Takes the notes of the scripts, in their order.
pub(crate) fn log(context: &Context) -> String {
    eval(context, "log.splice(0).join(', ')")
}

/// Runs all tasks and microtasks that there are. It waits for nothing.
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

/// Waits until the condition is true.
pub(crate) fn until(mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < TIMEOUT, "it takes for ever");
        thread::yield_now();
    }
}
