//! Errors as exceptions of Python.

use navlock::{Error, LockAllError};
use pyo3::{PyErr, Python, import_exception, type_object::PyTypeInfo};

import_exception!(navlock._errors, DeadlockError);
import_exception!(navlock._errors, InvalidStateError);
import_exception!(navlock._errors, LockLost);
import_exception!(navlock._errors, LockTimeout);
import_exception!(navlock._errors, NotSupportedError);
import_exception!(navlock._errors, QuotaExceededError);
import_exception!(navlock._errors, SecurityError);
import_exception!(navlock._errors, UnreachableError);

/// Imports the exceptions, which cannot be done any more when the interpreter ends.
pub(crate) fn load(py: Python<'_>) {
    let all = [
        DeadlockError::type_object,
        InvalidStateError::type_object,
        LockLost::type_object,
        LockTimeout::type_object,
        NotSupportedError::type_object,
        QuotaExceededError::type_object,
        SecurityError::type_object,
        UnreachableError::type_object,
    ];
    for of in all {
        of(py);
    }
}

/// This error as an exception.
pub(crate) fn raise(error: &Error) -> PyErr {
    raise_as(error, error.to_string())
}

/// This error as an exception, which says which of several names it is about.
pub(crate) fn raise_all(failed: &LockAllError) -> PyErr {
    raise_as(&failed.error, failed.to_string())
}

fn raise_as(error: &Error, message: String) -> PyErr {
    match error {
        Error::Lost(_) => LockLost::new_err(message),
        Error::TimedOut(_) => LockTimeout::new_err(message),
        Error::Deadlock(_) => DeadlockError::new_err(message),
        Error::Refused(_) => QuotaExceededError::new_err(message),
        Error::NotFullyActive | Error::Terminated | Error::Closed => {
            InvalidStateError::new_err(message)
        }
        Error::Unobtainable => SecurityError::new_err(message),
        Error::Unreachable(_) => UnreachableError::new_err(message),
        _ => NotSupportedError::new_err(message),
    }
}
