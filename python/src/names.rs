//! Names: strings of Python, which may contain lone surrogates as those of JavaScript may.

use navlock::ResourceName;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBytes, PyString},
};

use crate::error::raise;

/// The name that this string is.
pub(crate) fn from_python(name: &Bound<'_, PyAny>) -> PyResult<ResourceName> {
    let Ok(name) = name.cast::<PyString>() else {
        let kind = name.get_type().name()?;
        return Err(PyTypeError::new_err(format!("the name of a lock is a str, not {kind}")));
    };
    // FAST: nearly every string can be had as UTF-8.
    if let Ok(text) = name.to_str() {
        return ResourceName::try_from(text).map_err(|reserved| raise(&reserved.into()));
    }
    let bytes = name.call_method1("encode", ("utf-16-le", "surrogatepass"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    let units: Vec<_> =
        bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    ResourceName::from_utf16(&units).map_err(|reserved| raise(&reserved.into()))
}

/// The names in this sequence.
pub(crate) fn all_from_python(names: &Bound<'_, PyAny>) -> PyResult<Vec<ResourceName>> {
    if names.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("the names are a list of str, not one str"));
    }
    names.try_iter()?.map(|name| from_python(&name?)).collect()
}

/// The string that this name is.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    name: &ResourceName,
) -> PyResult<Bound<'py, PyString>> {
    if let Some(text) = name.as_str() {
        return Ok(PyString::new(py, text));
    }
    let bytes: Vec<_> = name.utf16().flat_map(u16::to_le_bytes).collect();
    let text = PyBytes::new(py, &bytes).call_method1("decode", ("utf-16-le", "surrogatepass"))?;
    Ok(text.cast_into::<PyString>()?)
}
