//! `navlock query`: who holds and who waits.

mod args;
mod entry;
mod json;
mod left_out;
mod rows;
mod tree;

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    mem,
    process::ExitCode,
    time::{Duration, Instant},
};

use navlock::{
    Inspected, Inspection, LockInfo, LockManager,
    blocking::block_on_timeout,
    look::{self, Overview},
};

pub(crate) use self::args::QueryArgs;
use self::{
    entry::{Entry, Told},
    left_out::{left_out_of, tell_left_out},
};
use super::{
    Context,
    meeting::{look_everywhere, tell_of_nothing},
};
use crate::{
    exit::{Failure, UNREACHABLE, answer},
    terminal::{self, reader_has_gone},
};

/// How often `--watch` looks.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the broker may take to answer. A broker that takes over from another one answers ten
/// seconds later at most. It then also answers clients that have begun to speak to it by that time.
const ANSWER: Duration = Duration::from_secs(25);

pub(super) fn query(context: &Context, args: &QueryArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    if args.tree {
        return tree::show(context, args);
    }
    let reach = context.connect(context.options().only_questions())?;
    let locks = context.lock_manager(&reach);
    let verbose = context.verbosity.is_verbose();
    if args.all_buckets {
        query_all(context, args)
    } else if args.watch {
        watch(context, &locks, args)
    } else {
        let inspection = inspect(&locks, args)?;
        tell_left_out(context, inspection.left_out, args);
        show(context, &Entry::all(&inspection, args, verbose), args)
    }
}

/// Shows the locks and requests of all buckets, wherever they live. Each broker's are of one moment.
fn query_all(context: &Context, args: &QueryArgs) -> Result<ExitCode, Failure> {
    let verbose = context.verbosity.is_verbose();
    let overviews = look_everywhere(context, args.name.as_ref())?;
    tell_left_out(context, overviews.iter().map(|overview| overview.left_out).sum(), args);
    let buckets: Vec<_> = overviews.iter().flat_map(by_bucket).collect();
    let entries = buckets.iter().flat_map(|(bucket, inspection)| {
        let mut entries = Entry::all(inspection, args, verbose);
        for entry in &mut entries {
            entry.bucket = Some(bucket);
        }
        entries
    });
    show(context, &entries.collect::<Vec<_>>(), args)
}

/// Writes these entries once, as a table or as JSON.
fn show(context: &Context, entries: &[Entry<'_>], args: &QueryArgs) -> Result<ExitCode, Failure> {
    let is_asked_for_all = args.longer_than.is_none() && !args.json;
    if entries.is_empty() && is_asked_for_all && io::stdout().is_terminal() {
        tell_of_nothing(context, args.name.as_ref());
    }
    answer(render(context, entries, args, terminal::size(&io::stdout())))
}

/// The entries as a table, or a line of JSON for each.
fn render(
    context: &Context,
    entries: &[Entry<'_>],
    args: &QueryArgs,
    size: Option<(usize, usize)>,
) -> String {
    if args.json {
        return entries.iter().map(|entry| entry.json().to_string() + "\n").collect();
    }
    rows::table(entries, args, size, terminal::colours(context.colour))
}

/// The part of an overview in each bucket, in the form of an inspection of that bucket.
fn by_bucket(overview: &Overview) -> BTreeMap<String, Inspection> {
    let now = Instant::now();
    let mut buckets: BTreeMap<String, Inspection> = BTreeMap::new();
    for (name, queue) in &overview.queues {
        let inspection = buckets.entry(name.bucket.to_string()).or_default();
        let inspected = |entry: &look::Entry| {
            let lock = LockInfo::new(name.name.clone(), entry.mode, entry.id.client_id);
            let mut inspected = Inspected::new(lock);
            (inspected.agent, inspected.age) = (overview.info_of(entry), Some(entry.age(now)));
            (inspected.fencing_token, inspected.taken) = (entry.token, entry.taken);
            inspected
        };
        inspection.held.extend(queue.held.iter().map(inspected));
        inspection.pending.extend(queue.pending.iter().map(inspected));
        inspection.owned.extend(queue.owned.iter().map(inspected));
        // The buckets of the entries that were left out are not known.
        inspection.left_out = overview.left_out;
    }
    buckets
}

/// The locks and requests of a bucket, if the broker answers in time.
fn inspect(locks: &LockManager, args: &QueryArgs) -> Result<Inspection, Failure> {
    if let Some(inspection) = block_on_timeout(locks.inspect(args.name.clone()), ANSWER) {
        return Ok(inspection?);
    }
    let message = "the broker does not answer; is it stopped? See 'navlock daemon status'";
    Err(Failure::new(UNREACHABLE, message))
}

/// Shows the locks and requests of a bucket again and again, until the command is interrupted or
/// nobody reads what it writes.
fn watch(context: &Context, locks: &LockManager, args: &QueryArgs) -> Result<ExitCode, Failure> {
    let verbose = context.verbosity.is_verbose();
    // Whether the last answer left entries out. People are told when that begins, and not whenever
    // the number of these entries changes.
    let mut is_cut = false;
    let mut drawn = None;
    let mut told: Option<Vec<Told>> = None;
    loop {
        let inspection = inspect(locks, args)?;
        let entries = Entry::all(&inspection, args, verbose);
        let size = terminal::size(&io::stdout()).filter(|_| !args.json);
        let text = if let Some((_, rows)) = size {
            let left_out = Some(inspection.left_out).filter(|count| *count > 0);
            let last = left_out.map(|count| left_out_of(count, args));
            let table = render(context, &entries, args, size);
            let text = screen(&table, last.as_deref(), drawn, rows);
            drawn = Some(text.matches('\n').count());
            text
        } else {
            if !mem::replace(&mut is_cut, inspection.left_out > 0) {
                tell_left_out(context, inspection.left_out, args);
            }
            let tells: Vec<_> = entries.iter().map(Entry::told).collect();
            if told.as_ref() == Some(&tells) {
                String::new()
            } else {
                told = Some(tells);
                render(context, &entries, args, size) + "\n"
            }
        };
        answer(text)?;
        if reader_has_gone(PERIOD) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The table and a line below it, for a terminal with this many rows. They are drawn over an
/// earlier screen with `before` lines.
fn screen(table: &str, last: Option<&str>, before: Option<usize>, rows: usize) -> String {
    let room = rows.saturating_sub(2 + usize::from(last.is_some())).max(1);
    let mut lines: Vec<_> = table.lines().map(str::to_owned).collect();
    if lines.len() > room {
        let hidden = lines.len() - room;
        lines.truncate(room);
        lines.push(format!("… and {hidden} more"));
    }
    if lines.is_empty() {
        lines.push("nothing is held and nobody waits".to_owned());
    }
    lines.extend(last.map(str::to_owned));
    let up = before.map_or_else(String::new, |lines| format!("\x1b[{lines}F"));
    lines.iter().fold(up, |screen, line| screen + line + "\x1b[K\n") + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_drawn_over_the_one_before_and_no_longer_than_the_terminal() {
        assert_eq!(screen("a\nb\n", None, None, 24), "a\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen("a\n", None, Some(2), 24), "\x1b[2Fa\x1b[K\n\x1b[J");
        assert_eq!(
            screen("a\nb\nc\n", None, None, 4),
            "a\x1b[K\nb\x1b[K\n… and 1 more\x1b[K\n\x1b[J"
        );
        assert_eq!(screen("a\nb\n", Some("more"), None, 5), "a\x1b[K\nb\x1b[K\nmore\x1b[K\n\x1b[J");
    }
}
