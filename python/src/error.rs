//! Errors as exceptions of Python.

use navlock::{Error, LockAllError};
use pyo3::{PyErr, Python, import_exception, type_object::PyTypeInfo};

macro_rules! exceptions {
    ($($name:ident)*) => {
        $(import_exception!(navlock._errors, $name);)*

        /// Imports the exceptions, which cannot be done any more when the interpreter ends.
        pub(crate) fn load(py: Python<'_>) {
            $($name::type_object(py);)*
        }
    };
}

exceptions! {
    DeadlockError InvalidStateError LockLost LockTimeout
    NotSupportedError QuotaExceededError SecurityError UnreachableError
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
