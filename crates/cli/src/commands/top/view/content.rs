//! The part of the screen that differs from view to view.

use navlock::look::LockName;

use super::line::Line;

/// What a view shows. Lines are made when they are shown.
pub(in crate::commands::top) struct Body<'a> {
    /// What it is.
    pub(super) title: String,
    /// Above the lines.
    pub(super) head: Line,
    /// How many lines there are.
    pub(in crate::commands::top) count: usize,
    /// The line that is chosen.
    pub(in crate::commands::top) chosen: usize,
    pub(super) line: Box<dyn Fn(usize) -> Line + 'a>,
    /// The name that a line is about.
    pub(in crate::commands::top) subject: Box<dyn Fn(usize) -> Option<LockName> + 'a>,
    /// What there is to say about the chosen line besides.
    pub(super) details: Box<dyn Fn(usize) -> Vec<Line> + 'a>,
    /// What is said if there are no lines.
    pub(super) empty: String,
}
