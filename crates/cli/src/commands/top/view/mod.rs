//! What is drawn: a function of the model and the size, and of nothing else.

mod clients;
mod deadlocks;
mod frame;
mod line;
mod name;
pub(in crate::commands::top) mod names;
mod tree;

use navlock::look::LockName;

pub(super) use self::frame::draw;
use self::line::Line;
use super::model::{Model, View};

/// The part of the screen that differs from view to view. Lines are made when they are shown.
pub(super) struct Body<'a> {
    /// What it is.
    title: String,
    /// Above the lines.
    head: Line,
    /// How many lines there are.
    pub(super) count: usize,
    /// The line that is chosen.
    pub(super) chosen: usize,
    line: Box<dyn Fn(usize) -> Line + 'a>,
    /// The name that a line is about.
    pub(super) subject: Box<dyn Fn(usize) -> Option<LockName> + 'a>,
    /// What there is to say about the chosen line besides.
    details: Box<dyn Fn(usize) -> Vec<Line> + 'a>,
    /// What is said if there are no lines.
    empty: String,
}

/// What is looked at.
pub(super) fn body(model: &Model) -> Body<'_> {
    match &model.place().view {
        View::Names => names::body(model),
        View::Name(name) => name::body(model, name),
        View::Tree => tree::body(model),
        View::Clients => clients::body(model),
        View::Deadlocks => deadlocks::body(model),
    }
}
