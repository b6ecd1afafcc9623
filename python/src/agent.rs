//! Agents: who asks for locks.

use std::{
    future::IntoFuture,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use navlock::{LockManager, LockOptions, Mode, Project, ResourceName, this_process};
use pyo3::{IntoPyObjectExt, prelude::*};

use crate::{
    changed::LastTokens,
    error::DeadlockError,
    hold::{Hold, Holds, Lock},
    names,
    own::{Own, lock, notice_fork},
    pending::{Asked, Pending},
    reach::{Reach, user_agent},
};

/// Bits that say what is asked for.
const SHARED: u8 = 1;
const IF_AVAILABLE: u8 = 2;
const STEAL: u8 = 4;
const HAS_TIMEOUT: u8 = 8;
const REENTRANT: u8 = 16;
const ALL: u8 = 32;
const ANY: u8 = 64;

/// One agent in one bucket. A process that was forked has another one, made when it first asks for something.
#[pyclass(frozen, module = "navlock._navlock")]
#[derive(Debug)]
pub(crate) struct Agent {
    reach: Reach,
    #[pyo3(get)]
    bucket: String,
    tokens: Arc<LastTokens>,
    locks: Mutex<Option<Own<LockManager>>>,
}

#[pymethods]
impl Agent {
    /// The agent of a bucket; without one, of the bucket of the project that the folder is in.
    #[new]
    fn new(reach: Reach, bucket: Option<String>, folder: Option<PathBuf>) -> PyResult<Self> {
        let of_project = || {
            let folder = folder.unwrap_or_else(|| PathBuf::from("."));
            let said = |error: io::Error| {
                io::Error::new(error.kind(), format!("{error}: {}", folder.display()))
            };
            Project::of(&folder).map(|project| project.bucket().to_owned()).map_err(said)
        };
        let bucket = bucket.map_or_else(of_project, Ok)?;
        Ok(Self { reach, bucket, tokens: Arc::default(), locks: Mutex::new(None) })
    }

    /// What `query()` shows of this agent.
    #[getter]
    fn client_id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.locks(py)?.client_id().to_string())
    }

    /// Asks for a lock, or for several, as the bits say. Returns what the request gives if that is known at once,
    /// and otherwise a `Pending`.
    fn request(
        &self,
        py: Python<'_>,
        names: &Bound<'_, PyAny>,
        bits: u8,
        why: Option<String>,
        holds: Bound<'_, Holds>,
    ) -> PyResult<Py<PyAny>> {
        let has = |bit: u8| bits & bit != 0;
        let options = LockOptions {
            mode: if has(SHARED) { Mode::Shared } else { Mode::Exclusive },
            if_available: has(IF_AVAILABLE),
            steal: has(STEAL),
            signal: has(HAS_TIMEOUT),
        };
        let locks = self.locks(py)?;
        let asked = if has(ALL) || has(ANY) {
            let names = names::all_from_python(names)?;
            let is_any = has(ANY);
            let refused = names.iter().map(|name| self.refuse_nested(name, options, holds.get()));
            refused
                .reduce(|one, other| if is_any { one.or(other) } else { one.and(other) })
                .transpose()?;
            let request = if is_any {
                locks.lock_any(names).with_options(options)
            } else {
                locks.lock_all(names).with_options(options)
            };
            Asked::Several(request.why(why.unwrap_or_default()).into_future(), is_any)
        } else {
            let name = names::from_python(names)?;
            if has(REENTRANT) && !options.steal {
                if let Some(hold) = holds.get().find(&name, &self.tokens) {
                    return again(hold, &name, options)?.into_py_any(py);
                }
            } else {
                self.refuse_nested(&name, options, holds.get())?;
            }
            let request = locks.lock_with(name, options);
            Asked::One(match why {
                Some(why) => request.why(why).into_owned(),
                None => request.into_owned(),
            })
        };
        Pending::begin(asked, &self.tokens, holds)
    }

    /// What is held and what waits, as the specification shows it.
    fn query(&self, py: Python<'_>, holds: Bound<'_, Holds>) -> PyResult<Py<PyAny>> {
        let locks = self.locks(py)?;
        let asked = Asked::Query(Box::pin(async move { locks.query().await }));
        Pending::begin(asked, &self.tokens, holds)
    }

    /// What is held, what waits and what is owned, with what is known of whoever has it.
    fn inspect(
        &self,
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        holds: Bound<'_, Holds>,
    ) -> PyResult<Py<PyAny>> {
        let locks = self.locks(py)?;
        let name = name.map(names::from_python).transpose()?;
        let asked = Asked::Inspect(Box::pin(async move { locks.inspect(name).await }));
        Pending::begin(asked, &self.tokens, holds)
    }

    /// Ends the agent, with all that it holds and waits for.
    fn terminate(&self, py: Python<'_>) -> PyResult<()> {
        self.locks(py)?.terminate();
        Ok(())
    }
}

impl Agent {
    /// The lock manager, as this agent has it in this process.
    fn locks(&self, py: Python<'_>) -> PyResult<LockManager> {
        notice_fork();
        if let Some(locks) = lock(&self.locks).as_ref().and_then(Own::get) {
            return Ok(locks.clone());
        }
        // No mutex is locked while this waits.
        let made = user_agent(py, &self.reach)?.lock_manager(&self.bucket);
        made.describe(&this_process());
        let mut known = lock(&self.locks);
        // Another thread may have been faster.
        if let Some(locks) = known.as_ref().and_then(Own::get) {
            return Ok(locks.clone());
        }
        *known = Some(Own::new(made.clone()));
        Ok(made)
    }

    /// Refuses a request that would wait for a lock of the one who makes it, and so for ever, unless another thread
    /// is to release that. A request with a timeout waits.
    fn refuse_nested(
        &self,
        name: &ResourceName,
        options: LockOptions,
        holds: &Holds,
    ) -> PyResult<()> {
        let held = holds
            .find(name, &self.tokens)
            .filter(|_| !options.if_available && !options.steal && !options.signal);
        if held.is_none_or(|held| held.mode == Mode::Shared && options.mode == Mode::Shared) {
            return Ok(());
        }
        let why = "is held already by the one who asks for it, and would be waited for for ever; use \
                   reentrant=True, or ask once";
        Err(DeadlockError::new_err(format!("the lock {name:?} {why}")))
    }
}

/// A lock that is held is held once more.
fn again(hold: Arc<Hold>, name: &ResourceName, options: LockOptions) -> PyResult<Lock> {
    if hold.mode == Mode::Shared && options.mode == Mode::Exclusive {
        let why = "is held shared by the one who asks for it, and cannot become exclusive";
        return Err(DeadlockError::new_err(format!("the lock {name:?} {why}")));
    }
    Ok(hold.again())
}
