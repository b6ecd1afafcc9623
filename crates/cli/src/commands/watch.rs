//! `navlock watch`: what happens, as it happens.

use std::{
    collections::HashMap,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use navlock::{
    AgentInfo, Error, Look, LookOptions, News, ResourceName,
    look::{Change, Entry, Event, LockId, LockName, Overview},
};

use super::{Context, query::reader_has_gone};
use crate::{
    args::WatchArgs,
    exit::Failure,
    json::Object,
    terminal::write_out,
    text::{self, meta, plain_name, printable, program, user_at_host},
    time::{elapsed, millis, taken},
};

/// How often it is looked whether anybody still reads.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn watch(context: &Context, args: &WatchArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    let mut options = LookOptions::default();
    if !args.all_buckets {
        options = options.bucket(&context.bucket);
    }
    if let [name] = &args.names[..] {
        options = options.name(name.clone());
    }
    let mut look = Look::new(context.place.clone(), options);
    let mut watch = Watch {
        names: &args.names,
        json: args.json,
        with_bucket: args.all_buckets,
        is_verbose: args.json || context.voice.is_verbose(),
        began: HashMap::new(),
        agents: HashMap::new(),
    };
    loop {
        let mut text = String::new();
        match look.next(Some(LOOK)).map_err(Error::from)? {
            Some(News::Anew { missed }) => text = watch.anew(look.overview(), missed),
            Some(News::Events(events)) => {
                for event in &events {
                    text.push_str(&watch.event(event));
                }
            }
            Some(_) => {
                watch.began.clear();
                context.voice.detail("no broker is running; nobody holds anything");
            }
            None => {}
        }
        write_out(text.as_bytes()).map_err(|error| Failure::of_writing(&error))?;
        if reader_has_gone(Duration::ZERO) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// What is known of what has been told, to tell the rest by.
struct Watch<'a> {
    names: &'a [ResourceName],
    json: bool,
    with_bucket: bool,
    /// Whether clients and agents are told of as well.
    is_verbose: bool,
    /// The locks that are held and the requests that wait, as they were told last.
    began: HashMap<LockId, Told>,
    /// What agents have said of themselves.
    agents: HashMap<navlock::ClientId, std::sync::Arc<AgentInfo>>,
}

/// A lock or a request, as it was told.
struct Told {
    entry: Entry,
    is_held: bool,
}

/// A line.
#[derive(Default)]
struct Line<'a> {
    word: &'a str,
    name: Option<&'a LockName>,
    entry: Option<&'a Entry>,
    agent: Option<navlock::ClientId>,
    /// For how long it had waited or was held.
    age: Option<Duration>,
    more: Vec<(&'static str, String)>,
}

impl Watch<'_> {
    /// What there is, told anew.
    fn anew(&mut self, overview: &Overview, missed: u64) -> String {
        self.began.clear();
        self.agents = overview.agents.iter().map(|(id, agent)| (*id, agent.info.clone())).collect();
        let mut text = String::new();
        if missed > 0 {
            text = if self.json {
                format!(
                    "{}\n",
                    Object::default().string("event", "missed").number("missed", missed)
                )
            } else {
                format!("{missed} events were missed; this is what there is:\n")
            };
        }
        if overview.left_out > 0 {
            if self.json {
                let object = Object::default().string("event", "left-out");
                text += &object.number("leftOut", overview.left_out).to_string();
            } else {
                text += &text::left_out(overview.left_out);
            }
            text.push('\n');
        }
        for (name, queue) in &overview.queues {
            let all = [("held", &queue.held), ("pending", &queue.pending), ("owned", &queue.owned)];
            for (word, entry) in
                all.into_iter().flat_map(|(word, all)| all.iter().map(move |entry| (word, entry)))
            {
                self.know(entry, word == "held");
                let agent = Some(entry.id.client_id);
                let age = Some(entry.age(Instant::now()));
                let line = Line {
                    word,
                    name: Some(name),
                    entry: Some(entry),
                    agent,
                    age,
                    ..Line::default()
                };
                text.push_str(&self.line(Instant::now(), &line));
            }
        }
        text
    }

    /// Takes it for what was told of it. What that was before.
    fn know(&mut self, entry: &Entry, is_held: bool) -> Option<Told> {
        self.began.insert(entry.id, Told { entry: entry.clone(), is_held })
    }

    fn event(&mut self, event: &Event) -> String {
        let change = &event.change;
        let mut word = change.word();
        let before = match change {
            Change::Granted { entry, .. } | Change::Requested { entry, .. } => {
                let is_held = matches!(change, Change::Granted { .. });
                let before = self.know(entry, is_held);
                match &before {
                    // Said again, because more is known of it. Programs count grants, so to them it is
                    // an event of another kind.
                    Some(before) if before.is_held == is_held => {
                        if !self.json || before.entry.inside == entry.inside {
                            return String::new();
                        }
                        word = "inside";
                        None
                    }
                    _ => before,
                }
            }
            Change::Released { id, .. }
            | Change::Aborted { id, .. }
            | Change::Lost { id, .. }
            | Change::Recalled { id, .. } => self.began.remove(id),
            Change::Owned { entry, held, .. } => {
                self.know(entry, *held);
                None
            }
            Change::AgentCame { agent, details } => {
                self.agents.insert(*agent, details.info.clone());
                None
            }
            _ => None,
        };
        let before = before.map(|before| before.entry);
        if change.name().is_none() && !self.is_verbose {
            return String::new();
        }
        let entry = match change {
            Change::Granted { entry, .. }
            | Change::Requested { entry, .. }
            | Change::Owned { entry, .. } => Some(entry),
            _ => before.as_ref(),
        };
        let age = before.as_ref().map(|before| event.at.saturating_duration_since(before.since));
        let mut more = Vec::new();
        match change {
            Change::Lost { how, by, .. } => {
                more.push(("how", how.to_string()));
                more.extend(by.map(|by| ("by", by.to_string())));
            }
            Change::Owned { held, .. } => {
                more.push(("state", if *held { "held" } else { "idle" }.to_owned()));
            }
            Change::ClientCame { client, details } => {
                more.push(("client", client.to_string()));
                more.push(("pid", details.pid.to_string()));
            }
            Change::ClientWent { client } => more.push(("client", client.to_string())),
            _ => {}
        }
        let line = Line { word, name: change.name(), entry, agent: change.agent(), age, more };
        let text = self.line(event.at, &line);
        if let Change::AgentWent { agent } = change {
            self.agents.remove(agent);
        }
        text
    }

    fn line(&self, at: Instant, line: &Line<'_>) -> String {
        let is_wanted =
            self.names.is_empty() || line.name.is_none_or(|name| self.names.contains(&name.name));
        if !is_wanted {
            return String::new();
        }
        let time = SystemTime::now() - at.elapsed();
        if self.json { self.json(time, line) } else { self.text(time, line) }
    }

    fn text(&self, time: SystemTime, line: &Line<'_>) -> String {
        let mut words = vec![clock(time), format!("{:11}", line.word)];
        if let Some(name) = line.name {
            if self.with_bucket {
                words.push(printable(&name.bucket));
            }
            words.push(plain_name(&name.name));
        }
        words.extend(line.entry.map(|entry| entry.mode.to_string()));
        if let Some(info) = line.agent.and_then(|agent| self.agents.get(&agent)) {
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

    fn json(&self, time: SystemTime, line: &Line<'_>) -> String {
        let at = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut object = Object::default().string("event", line.word).number("at", millis(at));
        if let Some(name) = line.name {
            object = object.string("bucket", &name.bucket).name("name", &name.name);
        }
        if let Some(entry) = line.entry {
            object = object.string("mode", entry.mode.as_str());
        }
        if let Some(agent) = line.agent {
            object = object.string("clientId", &agent.to_string());
        }
        if let Some(entry) = line.entry {
            object = object.string("serial", &entry.id.serial.to_string());
        }
        if let Some(info) = line.agent.and_then(|agent| self.agents.get(&agent)) {
            object = object.agent(info);
        }
        if let Some(entry) = line.entry {
            object = object.found(entry);
        }
        if let Some(age) = line.age {
            object = object.number("ageMs", millis(age));
        }
        let more = line.more.iter();
        object = more.fold(object, |object, (key, value)| match value.parse() {
            Ok(number) => object.number(key, number),
            Err(_) => object.string(key, value),
        });
        format!("{object}\n")
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
    use navlock::{ClientId, FencingToken, Mode};

    use super::*;

    fn watch(json: bool) -> Watch<'static> {
        let (began, agents) = (HashMap::new(), HashMap::new());
        Watch { names: &[], json, with_bucket: false, is_verbose: json, began, agents }
    }

    /// A request, then its grant, each said again when it is known inside which lock it was asked for.
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
        let told = "{\"event\":\"left-out\",\"leftOut\":7}\n";
        assert_eq!(watch(true).anew(&overview, 0), told);
    }

    #[test]
    fn what_is_said_again_is_told_once_and_to_programs_as_something_else() {
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
}
