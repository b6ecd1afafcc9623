//! What is measured, one case per file.

// Before the cases, which use its macros.
#[macro_use]
mod cases;

mod callbacks;
mod cancel;
mod handles;
mod live_names;
mod one_name;
mod rotation;
mod shared;
mod tasks;
mod two_threads;
mod waiters;

use crate::harness::Row;

/// All rows, in the order of the report.
pub(crate) fn all() -> Vec<Row> {
    vec![
        one_name::row(),
        shared::row(),
        rotation::row(),
        live_names::row(),
        two_threads::row(),
        tasks::row(),
        waiters::row(),
        cancel::row(),
        callbacks::row(),
        handles::row(),
    ]
}
