//! What the tests are written with: contexts with locks, and what their scripts have said.

#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{sync::mpsc, thread, time::Duration};

use boa_engine::{Context, JsResult, JsValue, Source};
use navlock_boa::{
    Locks, LocksExtension,
    navlock::{LockManager, UserAgent},
};

/// A context with `navigator.locks`. Its scripts tell what happens by `log(...)`.
pub(crate) struct Page {
    pub(crate) context: Context,
    pub(crate) locks: Locks,
    deadline: Deadline,
}

const PRELUDE: &str = "
    globalThis.logged = [];
    globalThis.log = (...words) => void logged.push(words.map(String).join(' '));
    globalThis.settled = (promise, name = '') => promise.then(
        (value) => log(name, 'fulfilled', value), (reason) => log(name, 'rejected', reason?.name ?? reason));
";

impl Page {
    /// With locks that nobody else has.
    pub(crate) fn new() -> Self {
        Self::of(UserAgent::new().lock_manager("app"))
    }

    pub(crate) fn of(locks: LockManager) -> Self {
        Self::with(LocksExtension::new(locks), Context::default())
    }

    pub(crate) fn with(extension: LocksExtension, mut context: Context) -> Self {
        let deadline = within_deadline();
        let locks = extension.register(None, &mut context).unwrap();
        context.eval(Source::from_bytes(PRELUDE)).unwrap();
        Self { context, locks, deadline }
    }

    pub(crate) fn eval(&mut self, script: &str) -> JsResult<JsValue> {
        self.context.eval(Source::from_bytes(script))
    }

    /// Evaluates a script and runs all jobs. Returns what was logged meanwhile.
    #[track_caller]
    pub(crate) fn run(&mut self, script: &str) -> String {
        self.eval(script).unwrap();
        self.context.run_jobs().unwrap();
        self.logged()
    }

    /// The same of an expression.
    #[track_caller]
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression).unwrap();
        value.to_string(&mut self.context).unwrap().to_std_string_escaped()
    }

    /// What was logged since this was last asked.
    #[track_caller]
    pub(crate) fn logged(&mut self) -> String {
        self.text("logged.splice(0).join('; ')")
    }
}

/// Ends the process if the test hangs, which a test of one thread cannot do itself.
pub(crate) fn within_deadline() -> Deadline {
    let (test, ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        if ended.recv_timeout(Duration::from_mins(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a test has not ended in a minute");
            std::process::abort();
        }
    });
    Deadline(test)
}

pub(crate) struct Deadline(mpsc::Sender<()>);
