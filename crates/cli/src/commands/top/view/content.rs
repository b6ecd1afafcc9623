//! The part of the screen that differs from view to view.

use navlock::look::LockName;

use super::line::Line;

/// What a view shows. Lines are made when they are shown.
pub(in crate::commands::top) struct Body<'a> {
    /// The title of the view.
    pub(super) title: String,
    /// The row above the lines.
    pub(super) head: Line,
    /// How many lines there are.
    pub(in crate::commands::top) count: usize,
    /// The line that is chosen.
    pub(in crate::commands::top) chosen: usize,
    pub(super) line: Box<dyn Fn(usize) -> Line + 'a>,
    /// The name that a line is about.
    pub(in crate::commands::top) subject: Box<dyn Fn(usize) -> Option<LockName> + 'a>,
    /// More about the chosen line.
    pub(super) details: Box<dyn Fn(usize) -> Vec<Line> + 'a>,
    /// The text that is shown if there are no lines.
    pub(super) empty: String,
}
