//! Locks that are held.

use std::{
    mem,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
    task::{Context, Wake, Waker},
};

use navlock::{LockGuard, LockState, Mode, ResourceName, look::LockId};
use pyo3::{
    exceptions::{PyImportError, PyResourceWarning, PyRuntimeError},
    prelude::*,
    types::PyString,
};

use crate::{
    changed::LastTokens,
    error::LockLost,
    names,
    own::{Own, lock},
    wake::waker,
};

/// What is said of a lock in a process that was forked from the one that holds the lock.
const FORKED: &str =
    "the lock is held by the process that this one was forked from, and not by this one";

/// What one thread or one task holds: inside which locks it makes its requests.
#[pyclass(frozen, module = "navlock._navlock")]
#[derive(Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<Vec<Arc<Hold>>>>);

#[pymethods]
impl Holds {
    #[new]
    fn new() -> Self {
        Self::default()
    }
}

impl Holds {
    /// A lock that was granted, as an object of Python, and held by whoever these are the locks of.
    pub(crate) fn add(&self, guard: LockGuard, of: &Arc<LastTokens>) -> Lock {
        let hold = Arc::new(Hold {
            name: guard.name().clone(),
            mode: guard.mode(),
            token: guard.fencing_token().get(),
            tokens: Arc::clone(of),
            has_changed: OnceLock::new(),
            guard: Mutex::new(Some(Own::new(guard))),
            uses: AtomicUsize::new(1),
            ended: OnceLock::new(),
            among: Arc::downgrade(&self.0),
            watchers: Arc::default(),
        });
        lock(&self.0).push(Arc::clone(&hold));
        Lock { hold, is_released: AtomicBool::new(false) }
    }

    /// The lock of this name that is held here by this agent.
    pub(crate) fn find(&self, name: &ResourceName, of: &Arc<LastTokens>) -> Option<Arc<Hold>> {
        let holds = lock(&self.0);
        let mut same = holds.iter().filter(|hold| Arc::ptr_eq(&hold.tokens, of));
        same.find(|hold| hold.name == *name && hold.lost().is_none()).cloned()
    }

    /// The locks that are held here.
    pub(crate) fn ids(&self) -> Vec<LockId> {
        let holds: Vec<_> = lock(&self.0).clone();
        holds.iter().filter_map(|hold| hold.with_guard(LockGuard::id)).collect()
    }
}

/// A lock that is held, by one or several objects of Python.
#[derive(Debug)]
pub(crate) struct Hold {
    name: ResourceName,
    pub(crate) mode: Mode,
    token: u64,
    /// What the agent remembers of names. Each agent has its own.
    tokens: Arc<LastTokens>,
    /// What `changed` says once somebody has asked.
    has_changed: OnceLock<bool>,
    guard: Mutex<Option<Own<LockGuard>>>,
    /// How many objects of Python hold it.
    uses: AtomicUsize,
    /// How the lock was lost, once nobody holds it any more.
    ended: OnceLock<Option<String>>,
    among: Weak<Mutex<Vec<Arc<Hold>>>>,
    watchers: Arc<Watchers>,
}

/// Whoever wants to know of the loss of one lock.
#[derive(Debug, Default)]
struct Watchers(Mutex<Vec<Waker>>);

impl Wake for Watchers {
    fn wake(self: Arc<Self>) {
        let wakers = mem::take(&mut *lock(&self.0));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Hold {
    /// One more object by which the lock is held.
    pub(crate) fn again(self: Arc<Self>) -> Lock {
        self.uses.fetch_add(1, Relaxed);
        Lock { hold: self, is_released: AtomicBool::new(false) }
    }

    fn with_guard<T>(&self, ask: impl FnOnce(&LockGuard) -> T) -> Option<T> {
        lock(&self.guard).as_ref().and_then(Own::get).map(ask)
    }

    /// How the lock was lost, if it was.
    fn lost(&self) -> Option<String> {
        if let Some(lost) = self.ended.get() {
            return lost.clone();
        }
        match self.with_guard(LockGuard::state) {
            Some(LockState::Lost(lost)) => Some(lost.to_string()),
            Some(_) => None,
            None => Some(FORKED.to_owned()),
        }
    }

    /// One object holds the lock no more. Returns how the lock was lost, if it was.
    fn release(self: &Arc<Self>, has_failed: bool) -> Option<String> {
        if self.uses.fetch_sub(1, AcqRel) > 1 {
            return self.lost();
        }
        let guard = lock(&self.guard).take();
        // Whoever is woken by the release is Python's code, so no mutex is locked now.
        let lost = match guard.and_then(Own::take) {
            Some(guard) => guard.into_polled().release().map(|lost| lost.to_string()),
            None => Some(FORKED.to_owned()),
        };
        if let Some(among) = self.among.upgrade() {
            let mut holds = lock(&among);
            if let Some(at) = holds.iter().rposition(|hold| Arc::ptr_eq(hold, self)) {
                holds.remove(at);
            }
        }
        let knows = self.has_changed.get().is_some() && self.mode == Mode::Exclusive;
        if knows && !has_failed && lost.is_none() {
            self.tokens.note(&self.name, self.token);
        }
        self.ended.get_or_init(|| lost).clone()
    }
}

/// A lock that is held, until it is released or lost.
#[pyclass(frozen, weakref, generic, module = "navlock")]
#[derive(Debug)]
pub(crate) struct Lock {
    hold: Arc<Hold>,
    is_released: AtomicBool,
}

#[pymethods]
impl Lock {
    /// The name of the lock.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        names::to_python(py, &self.hold.name)
    }

    /// ``"exclusive"`` or ``"shared"``.
    #[getter]
    fn mode(&self) -> &'static str {
        mode(self.hold.mode)
    }

    /// A number that grows with each grant of this name. What the lock protects can refuse a smaller number than
    /// it has seen, and with it a holder that has lost the lock and does not know.
    #[getter]
    fn fencing_token(&self) -> u64 {
        self.hold.token
    }

    /// How the lock was lost, in words; ``None`` while it is held, and if it was held to the end.
    #[getter]
    fn lost(&self) -> Option<String> {
        self.hold.lost()
    }

    /// Whether anybody else may have held the name since this agent held it last. ``False`` proves that what the
    /// lock protects is as this agent has left it.
    #[getter]
    fn changed(&self) -> bool {
        let Hold { name, token, tokens, has_changed, .. } = &*self.hold;
        let is_leased = || self.hold.with_guard(|guard| guard.term().is_some()).unwrap_or(false);
        *has_changed.get_or_init(|| tokens.have_others_held(name, *token, is_leased))
    }

    /// Whether the lock was released through this object.
    #[getter]
    fn released(&self) -> bool {
        self.is_released.load(Relaxed)
    }

    /// Releases the lock. To release it again does nothing.
    ///
    /// Raises ``LockLost`` if the lock was lost before.
    fn release(&self) -> PyResult<()> {
        self.end(false).map_or(Ok(()), |lost| Err(LockLost::new_err(lost)))
    }

    fn __enter__(slf: Py<Self>) -> PyResult<Py<Self>> {
        let lock = slf.get();
        if lock.is_released.load(Relaxed) {
            let why = "the lock was released before; each `with` needs a request of its own";
            return Err(PyRuntimeError::new_err(why));
        }
        if lock.hold.lost().is_some() {
            lock.release()?;
        }
        Ok(slf)
    }

    fn __exit__(
        &self,
        kind: Option<&Bound<'_, PyAny>>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match self.end(kind.is_some()) {
            // What the body has raised tells more.
            Some(lost) if kind.is_none() => Err(LockLost::new_err(lost)),
            _ => Ok(()),
        }
    }

    /// Calls `wake` when the lock is lost. Returns whether it is lost already.
    fn _watch(&self, wake: Py<PyAny>) -> bool {
        lock(&self.hold.watchers.0).push(waker(wake));
        let context = Waker::from(Arc::clone(&self.hold.watchers));
        let context = &Context::from_waker(&context);
        self.hold.with_guard(|guard| guard.poll_lost(context).is_ready()).unwrap_or(true)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = self.name(py)?.repr()?;
        let state = match self.lost() {
            Some(_) => "lost",
            None if self.released() => "released",
            None => "held",
        };
        Ok(format!("<navlock.Lock {name} {} {state}>", self.mode()))
    }
}

impl Lock {
    /// Releases the lock, if this object has not done that before. Returns how the lock was lost, if it was.
    fn end(&self, has_failed: bool) -> Option<String> {
        if self.is_released.swap(true, AcqRel) { None } else { self.hold.release(has_failed) }
    }
}

impl Drop for Lock {
    /// A lock that was forgotten is released, and Python's developers are told where they asked for that.
    fn drop(&mut self) {
        if self.is_released.load(Relaxed) {
            return;
        }
        let _ = self.end(true);
        let _ = Python::try_attach(|py| {
            // An exception that is on its way goes on afterwards.
            let before = PyErr::take(py);
            // At its end, the interpreter cannot warn any more.
            match warn(py, &self.hold.name) {
                Err(error) if !error.is_instance_of::<PyImportError>(py) => {
                    error.write_unraisable(py, None);
                }
                _ => {}
            }
            if let Some(before) = before {
                before.restore(py);
            }
        });
    }
}

#[cold]
fn warn(py: Python<'_>, name: &ResourceName) -> PyResult<()> {
    let name = name.to_string_lossy();
    let message = format!("the lock {name:?} was never released; use `with`, or call release()");
    let category = py.get_type::<PyResourceWarning>();
    py.import("warnings")?.call_method1("warn", (message, category)).map(drop)
}

/// A mode as the specification spells it.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}
