//! JSON objects, one a line, with their members in the order in which they were added.

pub(crate) use navlock::host::Object;
