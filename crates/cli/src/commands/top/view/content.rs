//! The part of the screen that differs from view to view.

use std::rc::Rc;

use navlock::look::{Entry, LockName};

use super::line::{BOLD, DIM, Line, PLAIN};
use crate::commands::top::model::Model;

/// What a view shows.
pub(in crate::commands::top) struct Body<'a> {
    /// The title of the view.
    pub(super) title: String,
    /// The line above the rows.
    pub(super) head: Line,
    pub(in crate::commands::top) rows: Vec<Row<'a>>,
    /// The text that is shown if there are no rows.
    pub(super) empty: &'static str,
}

/// A row that can be chosen. Its line is made when it is shown.
pub(in crate::commands::top) struct Row<'a> {
    pub(super) line: Box<dyn Fn() -> Line + 'a>,
    /// The name that the row is about.
    pub(in crate::commands::top) name: Option<&'a LockName>,
    /// The lock or request of which more is told if the row is chosen, and whether it is held.
    pub(super) entry: Option<(&'a Entry, bool)>,
    /// What else is told if the row is chosen.
    pub(super) note: &'static [&'static str],
}

impl<'a> Row<'a> {
    pub(super) fn new(line: impl Fn() -> Line + 'a) -> Self {
        Self { line: Box::new(line), name: None, entry: None, note: &[] }
    }

    /// Rows of which nothing more is told.
    pub(super) fn all<T: 'a>(shown: Vec<T>, line: impl Fn(&T) -> Line + 'a) -> Vec<Self> {
        let line = Rc::new(line);
        let row = |one| {
            let line = Rc::clone(&line);
            Self::new(move || line(&one))
        };
        shown.into_iter().map(row).collect()
    }

    /// More about the row.
    pub(super) fn details(&self, model: &Model) -> Vec<Line> {
        let told = self.name.zip(self.entry);
        let told = told.map(|(name, (entry, is_held))| remedies(model, name, entry, is_held));
        let note = self.note.iter().map(|line| Line::new(*line, DIM));
        told.into_iter().flatten().chain(note).collect()
    }
}

impl Body<'_> {
    /// The row that is chosen.
    pub(in crate::commands::top) fn chosen(&self, model: &Model) -> usize {
        let is_chosen = |row: &Row<'_>| row.name == model.chosen.as_ref();
        let chosen = match (model.is_table(), &model.chosen) {
            (false, _) => model.place().line,
            (true, None) => 0,
            (true, Some(_)) => self.rows.iter().position(is_chosen).unwrap_or(model.place().line),
        };
        chosen.min(self.rows.len().saturating_sub(1))
    }
}

/// What can be done about a holder or waiter.
fn remedies(model: &Model, name: &LockName, entry: &Entry, is_held: bool) -> Vec<Line> {
    let seen = model.see();
    let who = seen.who(entry.id.client_id);
    let is = if seen.stopped(entry.id.client_id).is_empty() { "" } else { " is stopped" };
    let why = seen.why(entry);
    let silent = seen.silent(entry.id.client_id, model.data().now);
    let silent = silent.map_or_else(String::new, |silent| format!(", {silent}"));
    let mut lines = vec![Line::new(format!("{who}{why}{is}{silent}"), BOLD)];
    lines.extend(seen.remedies(name, entry, is_held).into_iter().map(|remedy| {
        Line::new(format!("  {}", remedy.line), PLAIN).add(format!("   {}", remedy.does), DIM)
    }));
    lines
}
