//! Being told when something is removed from a directory. Here nobody is told: callers look now and then.

use std::{convert::Infallible, ffi::OsString, path::Path, sync::Arc};

use crate::descriptor::Descriptor;

/// Tells what is removed from a directory. Here there is no such watch to be had.
#[derive(Debug)]
pub struct Watch(Infallible);

/// What has changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// Files of these names were removed from the other directory, and nothing else has changed.
    Named(Vec<OsString>),
    /// Anything may have.
    Anything,
}

#[allow(missing_docs, reason = "as on Linux, where there is such")]
impl Watch {
    pub fn of(_: &Path) -> Option<Self> {
        None
    }

    pub fn name(&mut self, _: &Path) {
        match self.0 {}
    }

    pub fn names(&self) -> bool {
        match self.0 {}
    }

    pub fn events(&self) -> &Arc<Descriptor> {
        match self.0 {}
    }

    pub fn changed(&mut self) -> Option<Changed> {
        match self.0 {}
    }
}

/// `None`: there is no such watch here.
pub fn removal(_: &Path) -> Option<Descriptor> {
    None
}
