//! Requests that wait.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use navlock::{
    Error, FencingToken, Inspected, Inspection, LockAllFuture, LockFuture, LockGuard, LockInfo,
    LockManagerSnapshot, host::poll_inside,
};
use pyo3::{IntoPyObjectExt, exceptions::PyRuntimeError, prelude::*, types::PyDict};

use crate::{
    changed::LastTokens,
    error::{raise, raise_all},
    hold::{Holds, mode},
    names,
    own::{Own, lock},
    wake::waker,
};

type Answered<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// What was asked for.
pub(crate) enum Asked {
    One(LockFuture<'static, Option<LockGuard>>),
    /// Several locks, or any one of several.
    Several(LockAllFuture<Option<Vec<LockGuard>>>, bool),
    Query(Answered<LockManagerSnapshot>),
    Inspect(Answered<Inspection>),
}

/// A request without an answer yet. If nobody has it any more, the request is aborted.
#[pyclass(frozen, module = "navlock._navlock")]
pub(crate) struct Pending {
    /// Taken out while it is polled, because no mutex is locked while Python's code may run.
    asked: Mutex<Option<Own<Asked>>>,
    /// What the agent remembers of names.
    tokens: Arc<LastTokens>,
    holds: Py<Holds>,
}

#[pymethods]
impl Pending {
    /// Asks for the answer. If there is none yet, returns this object, and calls `wake` when it is worth asking
    /// again.
    fn poll(slf: &Bound<'_, Self>, wake: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let pending = slf.get();
        let asked = lock(&pending.asked).take();
        let Some(mut asked) = asked.and_then(Own::take) else {
            let why = "the request has been answered or aborted, or another thread polls it, or it was made by the \
                       process that this one was forked from";
            return Err(PyRuntimeError::new_err(why));
        };
        let of = (&pending.tokens, pending.holds.get());
        if let Some(answer) = asked.poll(slf.py(), of, &waker(wake))? {
            return Ok(answer);
        }
        *lock(&pending.asked) = Some(Own::new(asked));
        Ok(slf.clone().into_any().unbind())
    }

    /// Aborts the request. A lock that was granted meanwhile is released.
    fn abort(&self) {
        let asked = lock(&self.asked).take();
        drop(asked);
    }

    /// Aborts the request because it has taken too long. Raises an exception that says who holds the lock.
    fn time_out(&self, py: Python<'_>) -> PyResult<()> {
        let asked = lock(&self.asked).take();
        match asked.and_then(Own::take) {
            Some(Asked::One(future)) => Err(raise(&py.detach(|| future.time_out()))),
            Some(Asked::Several(future, _)) => Err(raise_all(&py.detach(|| future.time_out()))),
            _ => Err(raise(&Error::TimedOut("there is no answer in the time given".to_owned()))),
        }
    }
}

impl Pending {
    /// Makes a request: its answer if it has one at once, or else the request itself.
    pub(crate) fn begin(
        mut asked: Asked,
        tokens: &Arc<LastTokens>,
        holds: Bound<'_, Holds>,
    ) -> PyResult<Py<PyAny>> {
        let py = holds.py();
        if let Some(answer) = asked.poll(py, (tokens, holds.get()), Waker::noop())? {
            return Ok(answer);
        }
        let asked = Mutex::new(Some(Own::new(asked)));
        let pending = Self { asked, tokens: Arc::clone(tokens), holds: holds.unbind() };
        pending.into_py_any(py)
    }
}

impl Asked {
    /// The answer, as an object of Python; `None` if it is not there yet.
    fn poll(
        &mut self,
        py: Python<'_>,
        (tokens, holds): (&Arc<LastTokens>, &Holds),
        waker: &Waker,
    ) -> PyResult<Option<Py<PyAny>>> {
        let context = &mut Context::from_waker(waker);
        let lock = |guard| holds.add(guard, tokens);
        // Whoever holds these locks waits for this request.
        let inside = || holds.ids();
        match self {
            Self::One(future) => match poll_inside(inside, || pin!(future).poll(context)) {
                Poll::Ready(Ok(guard)) => guard.map(lock).into_py_any(py),
                Poll::Ready(Err(error)) => Err(raise(&error)),
                Poll::Pending => return Ok(None),
            },
            Self::Several(future, is_any) => {
                match poll_inside(inside, || pin!(future).poll(context)) {
                    Poll::Ready(Ok(guards)) => {
                        let locks = guards.map(|guards| guards.into_iter().map(lock));
                        match locks {
                            Some(mut locks) if *is_any => locks.next().into_py_any(py),
                            locks => locks.map(Vec::from_iter).into_py_any(py),
                        }
                    }
                    Poll::Ready(Err(failed)) => Err(raise_all(&failed)),
                    Poll::Pending => return Ok(None),
                }
            }
            Self::Query(future) => match future.as_mut().poll(context) {
                Poll::Ready(Ok(LockManagerSnapshot { held, pending, .. })) => {
                    let all = |infos: Vec<_>| list(&infos, |info| described(py, info));
                    (all(held)?, all(pending)?).into_py_any(py)
                }
                Poll::Ready(Err(error)) => Err(raise(&error)),
                Poll::Pending => return Ok(None),
            },
            Self::Inspect(future) => match future.as_mut().poll(context) {
                Poll::Ready(Ok(Inspection { held, pending, owned, .. })) => {
                    let all = |entries: Vec<_>| list(&entries, |entry| inspected_as(py, entry));
                    (all(held)?, all(pending)?, all(owned)?).into_py_any(py)
                }
                Poll::Ready(Err(error)) => Err(raise(&error)),
                Poll::Pending => return Ok(None),
            },
        }
        .map(Some)
    }
}

fn list<T, U>(all: &[T], of: impl Fn(&T) -> PyResult<U>) -> PyResult<Vec<U>> {
    all.iter().map(of).collect()
}

/// What `query()` shows of a lock or a request, as keyword arguments.
fn described<'py>(py: Python<'py>, info: &LockInfo) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("name", names::to_python(py, &info.name)?)?;
    entry.set_item("mode", mode(info.mode))?;
    entry.set_item("client_id", info.client_id.to_string())?;
    Ok(entry)
}

/// What `inspect()` shows of a lock or a request, as keyword arguments.
fn inspected_as<'py>(py: Python<'py>, inspected: &Inspected) -> PyResult<Bound<'py, PyDict>> {
    let entry = described(py, &inspected.lock)?;
    entry.set_item("age", inspected.age.map(|age| age.as_secs_f64()))?;
    entry.set_item("fencing_token", inspected.fencing_token.map(FencingToken::get))?;
    let agent = inspected.agent.as_deref();
    entry.set_item("pid", agent.map(|agent| agent.pid))?;
    entry.set_item("command", agent.map(|agent| &*agent.command))?;
    entry.set_item("user", agent.map(|agent| &*agent.user))?;
    entry.set_item("host", agent.map(|agent| &*agent.host))?;
    entry.set_item("why", agent.map(|agent| &*agent.why))?;
    Ok(entry)
}
