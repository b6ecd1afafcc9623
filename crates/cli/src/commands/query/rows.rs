//! The table of `navlock query`.

use navlock::AgentInfo;

use super::{QueryArgs, entry::Entry};
use crate::{
    remedy::purpose,
    text::{WIDEST_NAME, plain_name, printable, user_at_host},
    text_table::{self, Column, Fit, GOOD, POOR},
    time::elapsed,
};

/// What an entry tells in a column, if it tells anything.
type Cell = fn(&Entry<'_>) -> Option<String>;

/// The entries as a table, in which a column that says nothing is left out.
pub(super) fn table(
    entries: &[Entry<'_>],
    args: &QueryArgs,
    size: Option<(usize, usize)>,
    colours: bool,
) -> String {
    if entries.is_empty() {
        return String::new();
    }
    // If only this machine shares the locks, there is no need to show the host.
    let here = navlock_broker::this_process().host;
    let is_elsewhere = |agent: &AgentInfo| !agent.host.is_empty() && agent.host != here;
    let with_host = entries.iter().any(|entry| entry.agent().is_some_and(is_elsewhere));
    let user: (_, Cell) = if with_host {
        ("USER@HOST", |entry| entry.agent().map(user_at_host))
    } else {
        ("USER", |entry| entry.agent().map(|agent| printable(&agent.user)))
    };
    let bucket: (_, _, Cell) =
        ("BUCKET", Fit::Flexible(24), |entry| Some(printable(entry.bucket?)));
    let mut columns: Vec<(_, _, Cell)> = vec![
        ("STATE", Fit::Fixed, |entry| Some(entry.state.to_owned())),
        ("NAME", Fit::Flexible(WIDEST_NAME), |entry| Some(plain_name(&entry.inspected.lock.name))),
        ("MODE", Fit::Fixed, |entry| Some(entry.inspected.lock.mode.to_string())),
        ("PID", Fit::Fixed, |entry| Some(entry.agent()?.pid.to_string()).filter(|pid| pid != "0")),
        ("COMMAND", Fit::Flexible(48), |entry| Some(printable(&entry.agent()?.command))),
        (user.0, Fit::Flexible(32), user.1),
        ("AGE", Fit::Fixed, |entry| entry.inspected.age.map(elapsed)),
        ("WHY", Fit::Last(60), |entry| Some(entry.why())),
        ("POSITION", Fit::Fixed, |entry| entry.position()),
        ("CLIENT ID", Fit::Last(40), |entry| Some(entry.inspected.lock.client_id.to_string())),
    ];
    if args.all_buckets {
        columns.insert(1, bucket);
    }
    let row = |entry: &Entry<'_>| {
        let cells = columns.iter().map(|(.., cell)| cell(entry).filter(|cell| !cell.is_empty()));
        // Every cell has a word, so that scripts can split a line.
        let cells = cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned())).collect();
        text_table::Row { cells, style: if entry.state == "held" { GOOD } else { POOR } }
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    let columns: Vec<_> = columns.iter().map(|&(title, fit, _)| Column { title, fit }).collect();
    text_table::render(&columns, &rows, size.map(|(columns, _)| columns), colours)
}

impl Entry<'_> {
    fn agent(&self) -> Option<&AgentInfo> {
        self.inspected.agent.as_deref()
    }

    /// Why it is held or waited for. That its process is stopped comes first, with the line that ends it.
    fn why(&self) -> String {
        let purpose = self.agent().map(purpose).filter(|why| !why.is_empty());
        let stopped = self.continues.as_ref().map(|line| format!("stopped ({line})"));
        [stopped, purpose].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The place in the queue or, of an owned name, how often it was taken.
    pub(super) fn position(&self) -> Option<String> {
        let taken = || self.taken().map(|taken| format!("taken {taken} times"));
        self.position.map(|position| position.to_string()).or_else(taken)
    }
}
