//! The table of `navlock query`.

use navlock::Inspected;

use super::{QueryArgs, entry::Entry};
use crate::{
    remedy::purpose,
    text::{WIDEST_NAME, plain_name, printable, user_at_host},
    text_table::{self, Column, Fit, GOOD, POOR},
    time::elapsed,
};

const USER_AT_HOST: &str = "USER@HOST";

const BUCKET: &str = "BUCKET";

const COLUMNS: [Column; 11] = [
    Column { title: "STATE", fit: Fit::Fixed },
    Column { title: BUCKET, fit: Fit::Flexible(24) },
    Column { title: "NAME", fit: Fit::Flexible(WIDEST_NAME) },
    Column { title: "MODE", fit: Fit::Fixed },
    Column { title: "PID", fit: Fit::Fixed },
    Column { title: "COMMAND", fit: Fit::Flexible(48) },
    Column { title: USER_AT_HOST, fit: Fit::Flexible(32) },
    Column { title: "AGE", fit: Fit::Fixed },
    Column { title: "WHY", fit: Fit::Last(60) },
    Column { title: "POSITION", fit: Fit::Fixed },
    Column { title: "CLIENT ID", fit: Fit::Last(40) },
];

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
    let with_host = entries.iter().any(|entry| entry.is_elsewhere(&here));
    let mut columns = Vec::from(COLUMNS);
    if !with_host {
        for column in &mut columns {
            column.title = if column.title == USER_AT_HOST { "USER" } else { column.title };
        }
    }
    let mut rows: Vec<_> = entries.iter().map(|entry| entry.row(with_host)).collect();
    if !args.all_buckets {
        remove_column(BUCKET, &mut columns, &mut rows);
    }
    text_table::render(&columns, &rows, size.map(|(columns, _)| columns), colours)
}

/// Removes the column with this title, and its cell in each row.
fn remove_column(title: &str, columns: &mut Vec<Column>, rows: &mut [text_table::Row]) {
    if let Some(at) = columns.iter().position(|column| column.title == title) {
        columns.remove(at);
        for row in rows {
            row.cells.remove(at);
        }
    }
}

impl Entry<'_> {
    /// Whether the entry may be on another machine than this.
    fn is_elsewhere(&self, here: &str) -> bool {
        let host = self.inspected.agent.as_ref().map(|agent| &agent.host);
        host.is_some_and(|host| !host.is_empty() && host != here)
    }

    /// Why it is held or waited for. That its process is stopped comes first, with the line that ends it.
    fn why(&self) -> String {
        let purpose = self.inspected.agent.as_deref().map(purpose).filter(|why| !why.is_empty());
        let stopped = self.continues.as_ref().map(|line| format!("stopped ({line})"));
        [stopped, purpose].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The row of the entry, with the host or without.
    pub(super) fn row(&self, with_host: bool) -> text_table::Row {
        let Inspected { lock, agent, age, .. } = self.inspected;
        let agent = agent.as_deref();
        let taken = || self.taken().map(|taken| format!("taken {taken} times"));
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let cells =
            [
                Some(self.state.to_owned()),
                text(self.bucket.map(printable)),
                Some(plain_name(&lock.name)),
                Some(lock.mode.to_string()),
                agent.filter(|agent| agent.pid != 0).map(|agent| agent.pid.to_string()),
                text(agent.map(|agent| printable(&agent.command))),
                text(agent.map(|agent| {
                    if with_host { user_at_host(agent) } else { printable(&agent.user) }
                })),
                age.map(elapsed),
                text(Some(self.why())),
                self.position.map(|position| position.to_string()).or_else(taken),
                Some(lock.client_id.to_string()),
            ];
        // Every cell has a word, so that scripts can split a line.
        let cells = cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        let style = if self.state == "held" { GOOD } else { POOR };
        text_table::Row { cells: cells.into(), style }
    }
}
