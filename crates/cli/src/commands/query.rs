//! `navlock query`: who holds and who waits.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    io::{self, IsTerminal},
    mem,
    process::ExitCode,
    time::{Duration, Instant},
};

use navlock::{
    Error, Inspected, Inspection, LockInfo, LockManager, Look, LookOptions, Owned,
    blocking::block_on_timeout,
    look::{self, LockId, Overview},
};
use navlock_platform::wait::{self, Interest, Source};

use super::{Context, tree};
use crate::{
    args::QueryArgs,
    exit::{Failure, UNREACHABLE},
    json::Object,
    remedy::purpose,
    table::{self, Column, Fit, GOOD, POOR},
    terminal::{self, write_out},
    text::{self, WIDEST_NAME, plain_name, printable, user_at_host},
    time::{elapsed, millis},
};

/// How often `--watch` looks.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the broker may take to answer: one that takes over from another answers ten seconds later
/// at most, and who has begun to speak to it by then is heard to the end.
const ANSWER: Duration = Duration::from_secs(25);

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

pub(super) fn query(context: &Context, args: &QueryArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    if args.tree {
        return tree::show(context, args).map(|()| ExitCode::SUCCESS);
    }
    let reach = context.connect_to_ask()?;
    let locks = context.lock_manager(&reach);
    let colours = terminal::colours(context.colour);
    let verbose = context.voice.is_verbose();
    let shown = if args.all_buckets {
        query_all(context, args, verbose, colours)
    } else if args.watch {
        watch(context, &locks, args, colours)
    } else {
        let inspection = inspect(&locks, args)?;
        tell_left_out(context, inspection.left_out, args);
        show(context, &Entry::all(&inspection, args, verbose), args, colours)
    };
    shown.map(|()| ExitCode::SUCCESS)
}

/// Shows what there is in all buckets.
fn query_all(
    context: &Context,
    args: &QueryArgs,
    verbose: bool,
    colours: bool,
) -> Result<(), Failure> {
    let name = args.name.clone();
    let options = name.into_iter().fold(LookOptions::default(), LookOptions::name);
    let overview = Look::once(context.place.clone(), options).map_err(Error::from)?;
    tell_left_out(context, overview.left_out, args);
    let buckets = by_bucket(&overview);
    let entries = buckets.iter().flat_map(|(bucket, inspection)| {
        let mut entries = Entry::all(inspection, args, verbose);
        for entry in &mut entries {
            entry.bucket = Some(bucket);
        }
        entries
    });
    show(context, &entries.collect::<Vec<_>>(), args, colours)
}

/// Says that so many are not shown.
pub(super) fn tell_left_out(context: &Context, left_out: u64, args: &QueryArgs) {
    if left_out > 0 {
        context.voice.tell(left_out_of(left_out, args));
    }
}

/// That so many are not shown.
fn left_out_of(left_out: u64, args: &QueryArgs) -> String {
    let told = text::left_out(left_out);
    if args.name.is_some() { told } else { format!("{told}; ask for one NAME") }
}

fn show(
    context: &Context,
    entries: &[Entry<'_>],
    args: &QueryArgs,
    colours: bool,
) -> Result<(), Failure> {
    if entries.is_empty() && !args.json && io::stdout().is_terminal() {
        context.voice.tell("nothing is held and nobody waits");
    }
    let size = terminal::size(&io::stdout());
    let text = render(entries, args, size, colours);
    write_out(text.as_bytes()).map_err(|error| Failure::of_writing(&error))
}

/// What an overview shows of each bucket, as an inspection of it would.
fn by_bucket(overview: &Overview) -> Vec<(String, Inspection)> {
    let now = Instant::now();
    let mut buckets: BTreeMap<String, Inspection> = BTreeMap::new();
    for (name, queue) in &overview.queues {
        let inspection = buckets.entry(name.bucket.to_string()).or_default();
        let agent = |id: &LockId| overview.info(id.client_id).cloned();
        let lock =
            |entry: &look::Entry| LockInfo::new(name.name.clone(), entry.mode, entry.id.client_id);
        let inspected = |entry: &look::Entry| {
            let mut inspected = Inspected::new(lock(entry));
            (inspected.agent, inspected.age) = (agent(&entry.id), Some(entry.age(now)));
            inspected.fencing_token = entry.token;
            inspected
        };
        inspection.held.extend(queue.held.iter().map(inspected));
        inspection.pending.extend(queue.pending.iter().map(inspected));
        inspection.owned.extend(queue.owned.iter().map(|entry| {
            let mut owned = Owned::new(lock(entry), entry.taken);
            (owned.agent, owned.age) = (agent(&entry.id), Some(entry.age(now)));
            owned
        }));
        // It is not known of which bucket they are.
        inspection.left_out = overview.left_out;
    }
    buckets.into_iter().collect()
}

/// What there is, if the broker says so in time.
fn inspect(locks: &LockManager, args: &QueryArgs) -> Result<Inspection, Failure> {
    if let Some(inspection) = block_on_timeout(locks.inspect(args.name.clone()), ANSWER) {
        return Ok(inspection?);
    }
    let message = "the broker does not answer; is it stopped? See 'navlock daemon status'";
    Err(Failure::new(UNREACHABLE, message))
}

/// Shows it again and again, until it is interrupted or nobody reads it any more.
fn watch(
    context: &Context,
    locks: &LockManager,
    args: &QueryArgs,
    colours: bool,
) -> Result<(), Failure> {
    let verbose = context.voice.is_verbose();
    // Whether it was said that not all is shown: how much that is changes all the time.
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
            let table = render(&entries, args, size, colours);
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
                render(&entries, args, size, colours) + "\n"
            }
        };
        write_out(text.as_bytes()).map_err(|error| Failure::of_writing(&error))?;
        if reader_has_gone(PERIOD) {
            return Ok(());
        }
    }
}

/// The table and a line behind it, to be drawn over what was before, which has so many lines, on a terminal with
/// so many rows.
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

/// Waits for so long, and tells whether whoever reads what we write has gone meanwhile.
pub(super) fn reader_has_gone(time: Duration) -> bool {
    let out = io::stdout();
    // The end is told without being asked for.
    let came = wait::wait([(out.source(), Interest::END)], Some(time));
    // What ends it early otherwise is a signal that is handled, and none is.
    came.is_ok_and(|[out]| out.ended)
}

/// A lock or a request, and where it stands; or a name that is owned.
struct Entry<'a> {
    state: &'static str,
    inspected: Cow<'a, Inspected>,
    /// In the queue; 1 is the next.
    position: Option<usize>,
    /// How often an owner has taken the name without asking.
    taken: Option<u64>,
    /// Its bucket, where there are several.
    bucket: Option<&'a str>,
}

/// What of an entry is not different at every look.
type Told = (&'static str, Inspected, Option<usize>);

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

    /// What is asked for of it all, in the order in which it is shown; with the names that are owned, or
    /// without.
    fn all(inspection: &'a Inspection, args: &QueryArgs, with_owned: bool) -> Vec<Self> {
        let held = inspection.held.iter();
        let mut entries: Vec<_> =
            held.map(|inspected| Self::new("held", inspected, None)).collect();
        let mut lengths = HashMap::<_, usize>::new();
        // Those who are not shown are anywhere in their queues.
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
        // Stable: within a name, those who hold come before those who wait, and these as they will
        // be served.
        entries.sort_by(|a, b| a.inspected.lock.name.cmp(&b.inspected.lock.name));
        entries
    }

    fn told(&self) -> Told {
        let mut inspected = self.inspected.clone().into_owned();
        inspected.age = None;
        (self.state, inspected, self.position)
    }

    /// Whether it may be on another machine than this.
    fn is_elsewhere(&self, here: &str) -> bool {
        let host = self.inspected.agent.as_ref().map(|agent| &agent.host);
        host.is_some_and(|host| !host.is_empty() && host != here)
    }

    /// With the host, or without.
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
        // Every cell has a word, so that a line can be taken apart.
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
            // JavaScript's numbers have 53 bits.
            object = object.string("fencingToken", &token.to_string());
        }
        object
    }
}

fn render(
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
    // Of locks that one machine shares it goes without saying which it is.
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
mod tests {
    use std::sync::Arc;

    use navlock::{AgentInfo, FencingToken, Mode, UserAgent};

    use super::*;

    fn inspected(name: &str) -> Inspected {
        let client = UserAgent::new().lock_manager("").client_id();
        Inspected::new(LockInfo::new(name.try_into().unwrap(), Mode::Exclusive, client))
    }

    #[test]
    fn positions_are_counted_for_each_name() {
        let pending = vec![inspected("b"), inspected("a"), inspected("b")];
        let inspection = Inspection::new(vec![inspected("b")], pending);
        let all = |name: Option<&str>| {
            let name = name.map(|name| name.try_into().unwrap());
            let args = QueryArgs { name, ..QueryArgs::default() };
            let entries = Entry::all(&inspection, &args, false);
            let told = entries.iter().map(|entry| {
                let name = entry.inspected.lock.name.to_string();
                (name, entry.state, entry.position)
            });
            told.collect::<Vec<_>>()
        };
        let expected = [
            ("a".to_owned(), "pending", Some(1)),
            ("b".to_owned(), "held", None),
            ("b".to_owned(), "pending", Some(1)),
            ("b".to_owned(), "pending", Some(2)),
        ];
        assert_eq!(all(None), expected);
        assert_eq!(all(Some("b")), expected[1..]);
    }

    #[test]
    fn no_position_is_told_where_not_all_is_shown() {
        let mut inspection = Inspection::new(Vec::new(), vec![inspected("a"), inspected("a")]);
        inspection.left_out = 1;
        let entries = Entry::all(&inspection, &QueryArgs::default(), false);
        assert!(entries.iter().all(|entry| entry.position.is_none()));
        assert_eq!(entries[0].row(false).cells[9], "-");
        let args = QueryArgs::default();
        assert_eq!(left_out_of(1, &args), "1 more lock or request is not shown; ask for one NAME");
        let args = QueryArgs { name: Some("a".try_into().unwrap()), ..args };
        assert_eq!(left_out_of(2, &args), "2 more locks and requests are not shown");
    }

    #[test]
    fn json_has_what_is_known_and_nothing_else() {
        let mut inspected = inspected("db");
        let id = inspected.lock.client_id;
        let entry = |inspected: &Inspected| Entry::new("held", inspected, None).json().to_string();
        let base =
            format!(r#"{{"state":"held","name":"db","mode":"exclusive","clientId":"{id}"}}"#);
        assert_eq!(entry(&inspected), base);
        let mut agent = AgentInfo::default();
        agent.pid = 7;
        agent.command = "sh\n".to_owned();
        inspected.agent = Some(Arc::new(agent));
        inspected.age = Some(Duration::from_millis(1500));
        inspected.fencing_token = Some(FencingToken::new(u64::MAX));
        let more =
            r#","pid":7,"command":"sh\n","ageMs":1500,"fencingToken":"18446744073709551615"}"#;
        assert_eq!(entry(&inspected), base.replace('}', more));
    }

    #[test]
    fn names_that_are_owned_are_shown_to_who_wants_to_know_more() {
        let mut inspection = Inspection::new(vec![inspected("b")], Vec::new());
        let client = inspection.held[0].lock.client_id;
        let lock = LockInfo::new("a".try_into().unwrap(), Mode::Shared, client);
        inspection.owned.push(Owned::new(lock, 7));
        assert_eq!(Entry::all(&inspection, &QueryArgs::default(), false).len(), 1);
        let all = Entry::all(&inspection, &QueryArgs::default(), true);
        assert_eq!(all.iter().map(|entry| entry.state).collect::<Vec<_>>(), ["owned", "held"]);
        assert_eq!(all[0].row(false).cells[9], "taken 7 times");
        let json = format!(
            r#"{{"state":"owned","name":"a","mode":"shared","clientId":"{client}","taken":7}}"#
        );
        assert_eq!(all[0].json().to_string(), json);
    }

    #[test]
    fn a_row_has_a_word_in_every_cell_and_says_nothing_unseen() {
        let mut inspected = inspected("db");
        let mut agent = AgentInfo::default();
        agent.why = "\u{1b}[31m".to_owned();
        inspected.agent = Some(Arc::new(agent));
        let row = Entry::new("pending", &inspected, Some(2)).row(true);
        let id = inspected.lock.client_id.to_string();
        let expected = [
            "pending",
            "-",
            "db",
            "exclusive",
            "-",
            "-",
            "-",
            "-",
            r"\u{1b}[31m",
            "2",
            id.as_str(),
        ];
        assert_eq!(row.cells, expected);
    }

    #[test]
    fn hosts_are_shown_once_there_are_several() {
        let on = |host: &str| {
            let mut inspected = inspected("db");
            let mut agent = AgentInfo::default();
            (agent.user, agent.host) = ("ada".to_owned(), host.to_owned());
            inspected.agent = Some(Arc::new(agent));
            inspected
        };
        let table = |hosts: &[&str]| {
            let held = hosts.iter().copied().map(on).collect();
            let inspection = Inspection::new(held, Vec::new());
            let args = QueryArgs::default();
            render(&Entry::all(&inspection, &QueryArgs::default(), false), &args, None, false)
        };
        let here = navlock_broker::this_process().host;
        let alone = table(&[&here, ""]);
        assert!(alone.contains(" USER ") && !alone.contains('@'), "{alone}");
        let both = table(&[&here, "elsewhere"]);
        assert!(both.contains("USER@HOST"), "{both}");
        assert!(both.contains("ada@elsewhere") && both.contains(&format!("ada@{here}")), "{both}");
        let inspection = Inspection::new(vec![on(&"h".repeat(60))], Vec::new());
        let args = QueryArgs::default();
        for line in render(
            &Entry::all(&inspection, &QueryArgs::default(), false),
            &args,
            Some((80, 24)),
            false,
        )
        .lines()
        {
            assert!(crate::text::width(line) <= 80, "{line}");
        }
    }

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
