//! `navlock query --tree`: who waits for whom.

use std::{
    collections::HashSet,
    fmt::Write as _,
    io,
    process::ExitCode,
    time::{Duration, Instant},
};

use navlock::{
    Error, Look, LookOptions, News, Reason,
    look::{Deadlock, LockId, Overview, Root, Row, Watcher, tree},
};

use super::{super::Context, QueryArgs, left_out::tell_left_out};
use crate::{
    exit::{Failure, UNREACHABLE, answer},
    remedy::{Here, Remedy, Surroundings},
    terminal::{self, painted},
    text::{WIDEST_NAME, clipped, printable, short_name},
    text_table::{BAD, GOOD, PLAIN, POOR},
    time::elapsed,
    wait_tree::{branches, word},
};

/// How long a cycle has to last before it is shown.
const LASTING: Duration = Duration::from_secs(1);

/// How long the broker may take to send the overview.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) fn show(context: &Context, args: &QueryArgs) -> Result<ExitCode, Failure> {
    let look = look(context)?;
    let (overview, found, namespace) = &look;
    tell_left_out(context, overview.left_out, args);
    let here = Here::new(&context.place);
    let surroundings = here.see(overview, *namespace);
    let mut roots = tree(overview);
    roots.retain(|root| is_wanted(root, context, args));
    let now = Instant::now();
    let jams: Vec<_> = roots.iter().map(|root| Jam::new(root, found, &surroundings, now)).collect();
    let text: String = if args.json {
        jams.iter().map(|jam| jam.json().to_string() + "\n").collect()
    } else {
        let columns = terminal::size(&io::stdout()).map(|(columns, _)| columns);
        let colours = terminal::colours(context.colour);
        let texts: Vec<_> = jams.iter().map(|jam| jam.text(args, columns, colours)).collect();
        texts.join("\n")
    };
    if text.is_empty() && !args.json && io::IsTerminal::is_terminal(&io::stdout()) {
        context.verbosity.tell("nobody waits");
    }
    answer(text)
}

/// The overview, its deadlocks, and the PID namespace in which the broker sees processes. If there
/// seem to be deadlocks, this checks for a second whether they last, because the news of many
/// processes comes one after the other, and can look like a deadlock for a moment.
fn look(context: &Context) -> Result<(Overview, Vec<Deadlock>, Option<u64>), Failure> {
    let mut look = Look::new(context.place.clone(), LookOptions::default());
    let silent = || {
        let why =
            "the broker does not tell what there is; is it stopped? See 'navlock daemon status'";
        Failure::new(UNREACHABLE, why)
    };
    let deadline = Instant::now() + ANSWER;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match look.next(Some(left)).map_err(Error::from)? {
            Some(News::Events(_)) => {}
            Some(News::NoBroker) if context.place.is_of_system() => {
                return Err(Failure::new(UNREACHABLE, Reason::NoSystemBroker));
            }
            Some(_) => break,
            None => return Err(silent()),
        }
    }
    let mut watcher = Watcher::new(LASTING);
    watcher.look(look.overview(), Instant::now());
    // If more becomes known of a deadlock, it has to last anew. There is a limit, in case deadlocks
    // come and go.
    let end = Instant::now() + 3 * LASTING;
    while let Some(next) = watcher.next().filter(|next| *next < end) {
        let left = next.saturating_duration_since(Instant::now());
        look.next(Some(left)).map_err(Error::from)?;
        watcher.look(look.overview(), Instant::now());
    }
    let found = watcher.confirmed().cloned().collect();
    Ok((look.overview().clone(), found, look.pid_namespace()))
}

/// Whether the root has the bucket, the name and the time that were asked for.
fn is_wanted(root: &Root<'_>, context: &Context, args: &QueryArgs) -> bool {
    let now = Instant::now();
    let mut rows = root.rows.iter();
    let is_here = |row: &Row<'_>| {
        (args.all_buckets || *row.name.bucket == *context.bucket)
            && args.name.as_ref().is_none_or(|name| row.name.name == *name)
    };
    rows.any(is_here)
        && args
            .longer_than
            .is_none_or(|time| longest_wait(root, now).is_some_and(|wait| wait > time))
}

/// The longest time that a request of this tree has waited.
pub(super) fn longest_wait(root: &Root<'_>, now: Instant) -> Option<Duration> {
    let waiting = root.rows.iter().filter(|row| !row.is_held);
    waiting.map(|row| row.entry.age(now)).max()
}

/// A holder that holds others up, with everything that is shown of it.
pub(super) struct Jam<'a> {
    pub(super) root: &'a Root<'a>,
    /// The deadlock, if the jam is a deadlock that has lasted.
    pub(super) deadlock: Option<&'a Deadlock>,
    pub(super) surroundings: &'a Surroundings<'a>,
    pub(super) remedies: Vec<Remedy>,
    pub(super) now: Instant,
}

impl<'a> Jam<'a> {
    fn new(
        root: &'a Root<'a>,
        found: &'a [Deadlock],
        surroundings: &'a Surroundings<'a>,
        now: Instant,
    ) -> Self {
        let waiting: HashSet<LockId> =
            root.rows.iter().filter(|row| !row.is_held).map(|row| row.entry.id).collect();
        let deadlock =
            found.iter().find(|deadlock| root.is_cycle && waiting.contains(&deadlock.gives_way()));
        let top = &root.rows[0];
        let remedies = match deadlock {
            Some(deadlock) => surroundings.remedies_of(deadlock),
            None => surroundings.remedies(top.name, top.entry, top.is_held),
        };
        Self { root, deadlock, surroundings, remedies, now }
    }

    fn text(&self, args: &QueryArgs, columns: Option<usize>, colours: bool) -> String {
        let fit = |line: String| columns.map_or(line.clone(), |columns| clipped(&line, columns));
        let widest = columns.map_or(WIDEST_NAME, |columns| WIDEST_NAME.min(columns / 4));
        let mut text = String::new();
        if let Some(deadlock) = self.deadlock {
            let style = if deadlock.is_certain { BAD } else { POOR };
            text += &painted(&fit(deadlock.headline().to_owned()), style, colours);
            text.push('\n');
            for line in deadlock.lines(self.now) {
                text += &(fit(format!("  {line}")) + "\n");
            }
        } else if self.root.is_cycle {
            let line =
                "a cycle that may be passing: these wait for each other for less than a second";
            text += &(painted(&fit(line.to_owned()), POOR, colours) + "\n");
        }
        let branches = branches(&self.root.rows);
        for (row, branch) in self.root.rows.iter().zip(branches) {
            let style = match row.depth {
                0 => GOOD,
                _ if row.is_held => PLAIN,
                _ => POOR,
            };
            let line = fit(branch + &self.line(row, args.all_buckets, widest));
            text += &(painted(&line, style, colours) + "\n");
        }
        // The lines are written in full, however long they are, because people paste them.
        for (at, remedy) in self.remedies.iter().enumerate() {
            let or = if at == 0 { "" } else { "or " };
            let Remedy { line, does, .. } = remedy;
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {or}{line}    # {does}");
        }
        text
    }

    /// `hard  npm[4712] waits for db (exclusive) for 2m`.
    fn line(&self, row: &Row<'_>, with_bucket: bool, widest: usize) -> String {
        let id = row.entry.id.client_id;
        let who = self.surroundings.who(id);
        let why = self.surroundings.why(row.entry);
        let age = elapsed(row.entry.age(self.now));
        let verb = if row.is_held { "holds" } else { "waits for" };
        let bucket = if with_bucket {
            format!("{}/", clipped(&printable(&row.name.bucket), 24))
        } else {
            String::new()
        };
        let name = short_name(&row.name.name, widest);
        let how = row.why.map_or("", |why| word(why));
        let gap = if how.is_empty() { "" } else { "  " };
        let mut line =
            format!("{how}{gap}{who} {verb} {bucket}{name} ({}) for {age}{why}", row.entry.mode);
        if !self.surroundings.stopped(id).is_empty() {
            line += ", and is stopped";
        }
        if let Some(silent) = self.surroundings.silent(id, self.now) {
            let _ = write!(line, ", {silent}");
        }
        if row.depth == 0 && !self.root.is_cycle {
            let longest = longest_wait(self.root, self.now).unwrap_or_default();
            let wait = if self.root.blocks == 1 { "waits" } else { "wait" };
            let _ = write!(line, "; {} {wait}, for up to {}", self.root.blocks, elapsed(longest));
        }
        line
    }
}
