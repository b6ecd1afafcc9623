//! The table of `navlock query`.

use navlock::AgentInfo;

use super::{QueryArgs, entry::Entry};
use crate::{
    remedy::purpose,
    text::{WIDEST_NAME, plain_name, printable, user_at_host},
    text_table::{Column, Fit, GOOD, POOR, render},
    time::elapsed,
};

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
    let user: fn(&Entry<'_>) -> Option<String> = if with_host {
        |entry| entry.agent().map(user_at_host)
    } else {
        |entry| Some(printable(&entry.agent()?.user))
    };
    let user = Column(if with_host { "USER@HOST" } else { "USER" }, Fit::Flexible(32), user);
    let mut columns = vec![
        Column("STATE", Fit::Fixed, |entry: &Entry<'_>| Some(entry.state.to_owned())),
        Column("NAME", Fit::Flexible(WIDEST_NAME), |it| Some(plain_name(&it.inspected.lock.name))),
        Column("MODE", Fit::Fixed, |entry| Some(entry.inspected.lock.mode.to_string())),
        Column("PID", Fit::Fixed, |entry| {
            Some(entry.agent()?.pid.to_string()).filter(|pid| pid != "0")
        }),
        Column("COMMAND", Fit::Flexible(48), |entry| Some(printable(&entry.agent()?.command))),
        user,
        Column("AGE", Fit::Fixed, |entry| entry.inspected.age.map(elapsed)),
        Column("WHY", Fit::Last(60), |entry| Some(entry.why())),
        Column("POSITION", Fit::Fixed, Entry::position),
        Column("CLIENT ID", Fit::Last(40), |entry| {
            Some(entry.inspected.lock.client_id.to_string())
        }),
    ];
    if args.all_buckets {
        columns.insert(1, Column("BUCKET", Fit::Flexible(24), |entry| entry.bucket.map(printable)));
    }
    let style = |entry: &Entry<'_>| if entry.state == "held" { GOOD } else { POOR };
    render(&columns, entries, style, size.map(|(columns, _)| columns), colours)
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
