//! A line of the output of `navlock query`, as a row of its table and as JSON.

use std::{borrow::Cow, collections::HashMap};

use navlock::{Inspected, Inspection, Owned};

use crate::{
    args::QueryArgs,
    json::Object,
    remedy::purpose,
    table::{self, Column, Fit, GOOD, POOR},
    text::{WIDEST_NAME, plain_name, printable, user_at_host},
    time::{elapsed, millis},
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
    Column { title: "WHY", fit: Fit::Flexible(60) },
    Column { title: "POSITION", fit: Fit::Fixed },
    Column { title: "CLIENT ID", fit: Fit::Last },
];

/// A lock or a request, with its place in the queue; or a name that is owned.
pub(super) struct Entry<'a> {
    state: &'static str,
    inspected: Cow<'a, Inspected>,
    /// The place in the queue; 1 is the next.
    position: Option<usize>,
    /// How often an owner has taken the name without asking.
    taken: Option<u64>,
    /// The bucket, if several are shown.
    pub(super) bucket: Option<&'a str>,
}

/// The part of an entry that does not change while the lock or request stays where it is.
pub(super) type Told = (&'static str, Inspected, Option<usize>);

impl<'a> Entry<'a> {
    fn new(state: &'static str, inspected: &'a Inspected, position: Option<usize>) -> Self {
        Self { state, inspected: Cow::Borrowed(inspected), position, taken: None, bucket: None }
    }

    /// A name that nobody holds, and whose owner can take it without asking.
    fn owned(owned: &Owned) -> Self {
        let mut inspected = Inspected::new(owned.lock.clone());
        (inspected.agent, inspected.age) = (owned.agent.clone(), owned.age);
        let (inspected, taken) = (Cow::Owned(inspected), Some(owned.taken));
        Self { state: "owned", inspected, position: None, taken, bucket: None }
    }

    /// The entries that the arguments ask for, in the order in which they are shown. `with_owned`
    /// says whether owned names are included.
    pub(super) fn all(inspection: &'a Inspection, args: &QueryArgs, with_owned: bool) -> Vec<Self> {
        let held = inspection.held.iter();
        let mut entries: Vec<_> =
            held.map(|inspected| Self::new("held", inspected, None)).collect();
        let mut lengths = HashMap::<_, usize>::new();
        // If entries are left out, they may be anywhere in their queues.
        let is_whole = inspection.left_out == 0;
        entries.extend(inspection.pending.iter().map(|inspected| {
            let position = lengths.entry(&inspected.lock.name).or_default();
            *position += 1;
            Self::new("pending", inspected, is_whole.then_some(*position))
        }));
        entries.extend(inspection.owned.iter().filter(|_| with_owned).map(Self::owned));
        entries.retain(|entry| {
            let Inspected { lock, age, .. } = &*entry.inspected;
            let is_named = args.name.as_ref().is_none_or(|name| lock.name == *name);
            is_named && args.longer_than.is_none_or(|time| age.is_some_and(|age| age > time))
        });
        // The sort is stable: within a name, holders come before waiters, and waiters in the order
        // in which they will be served.
        entries.sort_by(|a, b| a.inspected.lock.name.cmp(&b.inspected.lock.name));
        entries
    }

    pub(super) fn told(&self) -> Told {
        let mut inspected = self.inspected.clone().into_owned();
        inspected.age = None;
        (self.state, inspected, self.position)
    }

    /// Whether the entry may be on another machine than this.
    fn is_elsewhere(&self, here: &str) -> bool {
        let host = self.inspected.agent.as_ref().map(|agent| &agent.host);
        host.is_some_and(|host| !host.is_empty() && host != here)
    }

    /// The row of the entry, with the host or without.
    fn row(&self, with_host: bool) -> table::Row {
        let Inspected { lock, agent, age, .. } = &*self.inspected;
        let agent = agent.as_deref();
        let taken = || self.taken.map(|taken| format!("taken {taken} times"));
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
                text(agent.map(purpose)),
                self.position.map(|position| position.to_string()).or_else(taken),
                Some(lock.client_id.to_string()),
            ];
        // Every cell has a word, so that scripts can split a line.
        let cells = cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        let style = if self.state == "held" { GOOD } else { POOR };
        table::Row { cells: cells.into(), style }
    }

    fn json(&self) -> Object {
        let Inspected { lock, agent, age, fencing_token, .. } = &*self.inspected;
        let object = Object::default().string("state", self.state);
        let object =
            self.bucket.into_iter().fold(object, |object, bucket| object.string("bucket", bucket));
        let mut object = object
            .name("name", &lock.name)
            .string("mode", lock.mode.as_str())
            .string("clientId", &lock.client_id.to_string());
        if let Some(agent) = agent {
            object = object.agent(agent);
        }
        if let Some(age) = age {
            object = object.number("ageMs", millis(*age));
        }
        if let Some(position) = self.position {
            object = object.number("position", position as u64);
        }
        if let Some(taken) = self.taken {
            object = object.number("taken", taken);
        }
        if let Some(token) = fencing_token {
            // The token is a string, because JavaScript's numbers have 53 bits.
            object = object.string("fencingToken", &token.to_string());
        }
        object
    }
}

pub(super) fn render(
    entries: &[Entry<'_>],
    args: &QueryArgs,
    size: Option<(usize, usize)>,
    colours: bool,
) -> String {
    if args.json {
        return entries.iter().map(|entry| entry.json().to_string() + "\n").collect();
    }
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
        columns.retain(|column| column.title != BUCKET);
        for row in &mut rows {
            row.cells.remove(1);
        }
    }
    table::render(&columns, &rows, size.map(|(columns, _)| columns), colours)
}

#[cfg(test)]
mod tests;
