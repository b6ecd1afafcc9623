//! What the program asks of an engine.

#[cfg(feature = "boa")]
mod boa;
#[cfg(feature = "quickjs")]
mod quickjs;

use std::{
    fmt,
    path::Path,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Poll},
};

use clap::ValueEnum;
use navlock::LockManager;

#[cfg(feature = "boa")]
pub(crate) use self::boa::Boa;
#[cfg(feature = "quickjs")]
pub(crate) use self::quickjs::QuickJs;

#[cfg(not(any(feature = "boa", feature = "quickjs")))]
compile_error!("navlock-js-run needs an engine: its feature boa or quickjs");

/// The engines that were built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    #[cfg(feature = "boa")]
    Boa,
    #[cfg(feature = "quickjs")]
    #[value(name = "quickjs")]
    QuickJs,
}

impl Engine {
    /// The engine for a command line that names none.
    pub(crate) fn first() -> Self {
        Self::value_variants()[0]
    }
}

/// A script whose value is a function `(global, native) => deliver`. What scripts find beyond the
/// language and `navigator.locks`, made of the functions of `native`.
pub(crate) const PRELUDE: &str = include_str!("../prelude.js");

/// A call of a script to the program, `native.host(op, text)`, and its answer. An error is thrown as an
/// `Error` with this message.
pub(crate) type Host = Rc<dyn Fn(&str, Option<&str>) -> Result<Option<String>, String>>;

/// The agent of a lock manager that a script opens, by kind and name: `native.openLocks(kind, name)`.
pub(crate) type Open = Rc<dyn Fn(&str, &str) -> Result<LockManager, String>>;

/// What a virtual machine is made of.
pub(crate) struct Setup {
    /// Of `navigator.locks`.
    pub(crate) locks: LockManager,
    pub(crate) host: Host,
    pub(crate) open: Open,
    /// Another thread sets this to stop the running script. The engine does so as soon as it can, if it can.
    pub(crate) stop: Arc<AtomicBool>,
}

/// Why a call into a virtual machine has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A script has thrown this, and nobody has caught it: the error and its stack.
    Uncaught(String),
    /// A promise was rejected with this, and nobody has handled it by the end of the task. The machine
    /// can go on.
    Rejected(String),
    /// The script was stopped.
    #[cfg_attr(not(feature = "quickjs"), expect(dead_code, reason = "Boa cannot be stopped"))]
    Stopped,
    /// Anything else, such as a module that is not there.
    Engine(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncaught(error) => write!(f, "uncaught: {error}"),
            Self::Rejected(error) => write!(f, "a rejection that nobody handles: {error}"),
            Self::Stopped => write!(f, "stopped"),
            Self::Engine(error) => write!(f, "{error}"),
        }
    }
}

/// A realm of an engine with `navigator.locks`, on the thread that has made it.
///
/// What runs scripts runs all microtasks before it returns, and fails with
/// [`Rejected`](Failure::Rejected) if a promise is rejected then that nobody handles. Dropping it ends
/// its agents.
///
/// `native` is an object with these functions:
///
/// | | |
/// |---|---|
/// | `host(op, text)` | [`Setup::host`]: the answer, or `undefined` |
/// | `openLocks(kind, name)` | a `LockManager` for the agent that [`Setup::open`] gives |
/// | `evaluate(source, name)` | runs a script in the global scope, and gives its completion value |
/// | `collectGarbage()` | |
/// | `newMemory(length)` | the number of so many bytes, which all threads can open |
/// | `openMemory(number)` | a `SharedArrayBuffer` of these |
pub(crate) trait Vm: Sized {
    /// Name and version.
    const ENGINE: &'static str;

    /// Has [`PRELUDE`] evaluated and called before it registers `navigator.locks`, which takes what there
    /// is of timers and of error reports by then.
    fn new(setup: Setup) -> Result<Self, Failure>;

    /// Runs a module, by its absolute path, with all that it imports. Its top level may be waiting on
    /// return.
    fn import(&mut self, file: &Path) -> Result<(), Failure>;

    /// Whether the top level of a module is still waiting.
    fn is_importing(&self) -> bool;

    /// Calls the function `deliver` of the prelude.
    fn deliver(&mut self, event: &str) -> Result<(), Failure>;

    /// Whether there is a task of a lock manager to run.
    fn poll_locks(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Runs one task of a lock manager.
    fn run_lock_task(&mut self) -> Result<(), Failure>;

    /// Whether a request or a query is not answered yet.
    fn is_waiting(&self) -> bool;
}
