//! What the program needs of an engine.

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
    /// The engine if the command line names none.
    pub(crate) fn first() -> Self {
        Self::value_variants()[0]
    }
}

/// A script whose value is a function `(global, native) => deliver`. From the functions of
/// `native`, that function makes what scripts find beyond the language and `navigator.locks`.
pub(crate) const PRELUDE: &str = include_str!("../prelude.js");

/// What answers a call `native.host(op, text)` of a script. An error is thrown as an `Error` with
/// this message.
pub(crate) type Host = Rc<dyn Fn(&str, Option<&str>) -> Result<Option<String>, String>>;

/// The agent of a lock manager that a script opens, by kind and name: `native.openLocks(kind, name)`.
pub(crate) type Open = Rc<dyn Fn(&str, &str) -> Result<LockManager, String>>;

/// What a virtual machine is made from.
pub(crate) struct Setup {
    /// The lock manager of `navigator.locks`.
    pub(crate) locks: LockManager,
    pub(crate) host: Host,
    pub(crate) open: Open,
    /// Another thread sets this to stop the running script. The engine stops the script as soon as
    /// it can, if it can stop scripts at all.
    pub(crate) stop: Arc<AtomicBool>,
}

/// Why a call into a virtual machine has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A script has thrown an error, and nobody has caught it: the error and its stack.
    Uncaught(String),
    /// A promise was rejected with this error, and no script has handled the rejection by the end
    /// of the task. The machine can go on.
    Rejected(String),
    /// The script was stopped.
    #[cfg_attr(not(feature = "quickjs"), expect(dead_code, reason = "Boa cannot be stopped"))]
    Stopped,
    /// Anything else, such as a module that does not exist.
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

/// A realm of an engine with `navigator.locks`. It stays on the thread that has made it.
///
/// A method that runs scripts runs all microtasks before it returns. It fails with
/// [`Rejected`](Failure::Rejected) if a promise is then rejected and no script handles the
/// rejection. Dropping the realm ends its agents.
///
/// `native` is an object with these functions:
///
/// | | |
/// |---|---|
/// | `host(op, text)` | [`Setup::host`]: the answer, or `undefined` |
/// | `openLocks(kind, name)` | a `LockManager` for the agent that [`Setup::open`] gives |
/// | `evaluate(source, name)` | runs a script in the global scope, and returns its completion value |
/// | `collectGarbage()` | |
/// | `newMemory(length)` | makes memory of this many bytes for all threads, and returns its number |
/// | `openMemory(number)` | a `SharedArrayBuffer` of this memory |
pub(crate) trait Vm: Sized {
    /// Name and version.
    const ENGINE: &'static str;

    /// Evaluates and calls [`PRELUDE`], and then registers `navigator.locks`. The registration uses
    /// the timers and the error reports that exist by then.
    fn new(setup: Setup) -> Result<Self, Failure>;

    /// Runs a module and its imports, by its absolute path. On return, the module's top level may
    /// still be waiting.
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
