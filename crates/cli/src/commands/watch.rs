//! `navlock watch`: what happens, as it happens.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use navlock::{
    Error, Look, LookOptions, News, ResourceName,
    host::{Line, Lines, Object, program},
    look::{Event, Overview},
};

use super::{Context, meeting::not_shown};
use crate::{
    args::values,
    exit::{Failure, answer},
    json::IfKnown,
    reach::unseen,
    terminal::reader_has_gone,
    text::{self, meta, plain_name, printable, user_at_host},
    time::{elapsed, taken},
};

/// Shows what happens to locks, as it happens.
#[derive(Debug, Args)]
#[command(after_long_help = "\
It first writes a line for each held lock, each pending request and each owned name. Then it writes
a line for each event. It goes on until it is interrupted (exit code 130 in a shell).

Events of locks and requests:
  requested, granted, released, aborted, stolen, lost
  unavailable  the lock was not available at once
  recalled     a name that nobody held has lost its owner, as when somebody else asks for it
  owned        an owner takes and releases the name without asking the broker; this is looked at
               four times a second
Events with -v or --json only:
  client-came, client-went, agent-came, agent-went
  agent-silent  the agent's machine should have been heard of, and was not
  recovered     another broker has taken over
With --json only:
  picture      what there is follows: forget all locks, requests and owned names that were told
               before. It is the first line, and comes again whenever everything is told anew: after
               missed, with another broker, after changes on other machines, and when there is no
               broker: then nothing follows
  inside       it became known inside which locks a request was made
People read a sentence in place of these two events:
  missed       this reader was too slow and has missed so many events; everything is told anew
  left-out     so many locks and requests of other machines are not shown

With --json each line is one object. It has event, which is held, pending or owned for what there
is, and at (milliseconds since 1970; not with picture, missed and left-out), and these as far as
they are known:
  bucket, name, mode, pid, command, user, host, why, meta, fencingToken
  clientId, serial  together they name the request or lock
  ageMs             for how long the lock was held, the request had waited, or the name was owned
  how               how a lock was lost or stolen, in words
  by                the clientId of the one who has stolen it
  inside            the locks inside which it was requested, each as clientId/serial
  taken             how often an owner has taken the name
  state             in the event owned: held or idle, when the name was looked at
  client            in client-came and client-went: the number of the connection
  missed, leftOut   how many

When something has changed on other machines, everything is told anew, once a second at most. A name
that another machine owns is shown as owned by that machine, whether somebody holds it there or
not. Of other machines, only the buckets that clients of this machine use are shown, and of a bucket
with more than some 10,000 locks and requests not all.")]
pub(crate) struct WatchArgs {
    /// Watch these names only.
    ///
    /// Without a name, all names are watched.
    #[arg(value_parser = values::name())]
    names: Vec<ResourceName>,

    /// Write one JSON object a line.
    #[arg(long)]
    json: bool,

    /// Watch all buckets.
    #[arg(short, long)]
    all_buckets: bool,
}

/// How often the command checks, while nothing happens, whether its output still has a reader.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn watch(context: &Context, args: &WatchArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    let mut options = LookOptions::default();
    if !args.all_buckets {
        options = options.bucket(&context.bucket);
    }
    if let [name] = &args.names[..] {
        options = options.name(name.clone());
    }
    if let Some(others) = not_shown(context).filter(|_| args.all_buckets) {
        context.verbosity.tell(others);
    }
    // No lock should have to wait for this process.
    navlock_broker::lower_thread_priority();
    let mut look = Look::new(context.place.clone(), options);
    let mut watch = Watch {
        names: &args.names,
        json: args.json,
        with_bucket: args.all_buckets,
        is_verbose: args.json || context.verbosity.is_verbose(),
        lines: Lines::default(),
    };
    loop {
        let mut text = String::new();
        match look.next(Some(CHECK_INTERVAL)).map_err(Error::from)? {
            Some(News::Anew { missed }) => text = watch.anew(look.overview(), missed),
            Some(News::Events(events)) => {
                for event in &events {
                    text.push_str(&watch.event(event));
                }
            }
            Some(_) => {
                if let Some(why) = unseen(&context.place) {
                    context.verbosity.tell(why);
                } else {
                    text = watch.no_broker();
                    context.verbosity.detail("no broker is running; nobody holds anything");
                }
            }
            None => {}
        }
        answer(text)?;
        if reader_has_gone(Duration::ZERO) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Which events are shown, and how.
struct Watch<'a> {
    names: &'a [ResourceName],
    json: bool,
    with_bucket: bool,
    /// Whether the events of clients and agents are shown as well.
    is_verbose: bool,
    lines: Lines,
}

impl Watch<'_> {
    /// The text for the whole state, when it is told anew.
    fn anew(&mut self, overview: &Overview, missed: u64) -> String {
        let mut text = String::new();
        if missed > 0 {
            let told = format!("{missed} events were missed; this is what there is:");
            text += &self.note("missed", Some(("missed", missed)), &told);
        }
        text += &self.picture_line();
        let left_out = overview.left_out;
        if left_out > 0 {
            text += &self.note("left-out", Some(("leftOut", left_out)), &text::left_out(left_out));
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.begin(overview, |line| text.push_str(&self.line(line)));
        self.lines = lines;
        text
    }

    /// The text for the end of the broker: nobody holds anything.
    fn no_broker(&mut self) -> String {
        self.lines.forget();
        self.picture_line()
    }

    /// The line by which a program knows that it has to forget everything that was told before. People need
    /// no such line, because they see that locks are told again.
    fn picture_line(&self) -> String {
        if self.json { self.note("picture", None, "") } else { String::new() }
    }

    /// A line about the look itself: an object with this event for programs, this text for people.
    fn note(&self, event: &str, count: Option<(&str, u64)>, text: &str) -> String {
        if !self.json {
            return format!("{text}\n");
        }
        let object = Object::default().string("event", event);
        format!("{}\n", object.if_known(count, |it, (key, count)| it.number(key, count)))
    }

    fn event(&mut self, event: &Event) -> String {
        let Some(line) = self.lines.event(event) else { return String::new() };
        // The event `inside` says inside which locks a request was made. Only programs, which read JSON,
        // get this event. People see the same in the tree of who waits for whom.
        let is_wanted = line.word != "inside" || self.json;
        if !is_wanted || line.name.is_none() && !self.is_verbose {
            return String::new();
        }
        self.line(&line)
    }

    fn line(&self, line: &Line<'_>) -> String {
        let is_wanted =
            self.names.is_empty() || line.name.is_none_or(|name| self.names.contains(&name.name));
        if !is_wanted {
            return String::new();
        }
        if self.json { format!("{}\n", line.object()) } else { self.text(line) }
    }

    fn text(&self, line: &Line<'_>) -> String {
        let time = SystemTime::now() - line.at.elapsed();
        let mut words = vec![clock(time), format!("{:11}", line.word)];
        if let Some(name) = line.name {
            if self.with_bucket {
                words.push(printable(&name.bucket));
            }
            words.push(plain_name(&name.name));
        }
        words.extend(line.entry.as_ref().map(|entry| entry.mode.to_string()));
        if let Some(info) = &line.info {
            words.push(format!("{}[{}]", program(&info.command), info.pid));
            words.push(user_at_host(info));
            if !info.why.is_empty() {
                words.push(format!("({})", printable(&info.why)));
            }
            words.push(meta(info));
        }
        if let Some(age) = line.age {
            let how = match line.word {
                "granted" | "aborted" => "after",
                _ => "for",
            };
            let age = if age < Duration::from_secs(1) { taken(age) } else { elapsed(age) };
            words.push(format!("{how} {age}"));
        }
        words.extend(line.more.iter().map(|(_, value)| printable(value)));
        words.retain(|word| !word.is_empty());
        words.join(" ") + "\n"
    }
}

/// The time of day, in UTC, to the millisecond.
fn clock(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}Z", seconds % 60, since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use navlock::{
        ClientId, FencingToken, Mode,
        look::{Change, Entry, LockId, LockName},
    };

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, parsed};

    fn watch(json: bool) -> Watch<'static> {
        let lines = Lines::default();
        Watch { names: &[], json, with_bucket: false, is_verbose: json, lines }
    }

    /// A request, then its grant, each told again when it is known inside which lock the request
    /// was made.
    fn history() -> Vec<Event> {
        let name = LockName::new("default", "db".try_into().unwrap());
        let (client_id, outer) = (ClientId::random(), ClientId::random());
        let mut asked = Entry::new(LockId { client_id, serial: 1 }, Mode::Exclusive);
        let requested = |entry| Change::Requested { name: name.clone(), entry };
        let granted = |entry| Change::Granted { name: name.clone(), entry };
        let mut held = asked.clone();
        held.token = Some(FencingToken::new(7));
        let mut all = vec![requested(asked.clone()), requested(asked.clone())];
        asked.inside = vec![LockId { client_id: outer, serial: 1 }];
        all.extend([requested(asked.clone()), granted(held.clone())]);
        held.inside = asked.inside;
        all.extend([granted(held.clone()), granted(held.clone())]);
        all.push(Change::Released { name: name.clone(), id: held.id });
        all.into_iter().map(|change| Event { at: Instant::now(), change }).collect()
    }

    #[test]
    fn how_much_is_not_shown_is_told() {
        let mut overview = Overview::default();
        overview.left_out = 7;
        let told = "7 more locks and requests are not shown\n";
        assert_eq!(watch(false).anew(&overview, 0), told);
        let told = "{\"event\":\"picture\"}\n{\"event\":\"left-out\",\"leftOut\":7}\n";
        assert_eq!(watch(true).anew(&overview, 0), told);
    }

    #[test]
    fn programs_are_told_when_to_forget_what_was_told_before() {
        let picture = "{\"event\":\"picture\"}\n";
        let missed = "{\"event\":\"missed\",\"missed\":3}\n";
        let mut programs = watch(true);
        assert_eq!(programs.anew(&Overview::default(), 0), picture);
        assert_eq!(programs.anew(&Overview::default(), 3), missed.to_owned() + picture);
        assert_eq!(programs.no_broker(), picture);
        let mut people = watch(false);
        assert_eq!(people.anew(&Overview::default(), 0) + &people.no_broker(), "");
    }

    #[test]
    fn a_repeated_event_is_told_once_to_people_and_as_inside_to_programs() {
        let events = history();
        let mut people = watch(false);
        let lines: Vec<_> = events.iter().map(|event| people.event(event)).collect();
        let words = lines.iter().filter_map(|line| line.split_whitespace().nth(1));
        assert_eq!(words.collect::<Vec<_>>(), ["requested", "granted", "released"], "{lines:?}");
        let mut programs = watch(true);
        let lines: Vec<_> = events.iter().map(|event| programs.event(event)).collect();
        let told = lines.iter().filter(|line| !line.is_empty());
        let told: Vec<serde_json::Value> =
            told.map(|line| serde_json::from_str(line).unwrap()).collect();
        let words: Vec<_> = told.iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(words, ["requested", "inside", "granted", "inside", "released"]);
        assert!(told[1]["inside"].is_array() && told[1].get("ageMs").is_none(), "{}", told[1]);
        assert!(told[2]["ageMs"].is_u64(), "{}", told[2]);
    }

    impl Examples for WatchArgs {
        const LINES: &'static [&'static str] = &["watch {}", "watch {} db"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--json"], |watch| watch.json),
            (&["-a", "--all-buckets"], |watch| watch.all_buckets),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<WatchArgs>();
    }

    #[test]
    fn several_names_can_be_watched() {
        assert_eq!(parsed::<WatchArgs>("watch b a").names, ["b", "a"]);
    }
}
