//! Being told when something is removed from a directory. Here nobody is: it is looked now and then.

use std::{convert::Infallible, ffi::OsString, path::Path};

/// Word of what is removed from a directory. Here there is none to be had.
#[derive(Debug)]
pub struct Watch(Infallible);

/// What has changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// Nothing but what was removed from the other directory: what had these names.
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

    #[allow(clippy::unused_async, reason = "as on Linux")]
    pub async fn changed(&mut self) -> Changed {
        match self.0 {}
    }
}
