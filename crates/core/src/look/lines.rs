//! Turns events into lines. Each line also tells what was known of its subject before.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{Change, Entry, Event, LockId, LockName, Overview};
use crate::{AgentInfo, ClientId, elapsed::milliseconds, host::Object};

/// The lines of a look, from its beginning to its end. Each line tells an event, with what was known
/// of its subject before.
///
/// `navlock watch` writes these lines for people and, as the JSON of [`Line::object`], for
/// programs. The npm package does the same.
///
/// ```
/// # use navlock::{Error, UserAgent};
/// use navlock::{host::Lines, look::{LookOptions, News}};
///
/// let user_agent = UserAgent::new();
/// let mut looker = user_agent.look(LookOptions::default()).expect("this process keeps the locks");
/// looker.next(None)?;
/// let mut lines = Lines::default();
/// lines.begin(looker.overview(), |line| println!("{} {:?}", line.word, line.name));
/// let guard = user_agent.lock_manager("app").lock("db").blocking()?;
/// if let Some(News::Events(events)) = looker.next(None)? {
///     for line in events.iter().filter_map(|event| lines.event(event)) {
///         println!("{}", line.object());
///     }
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Lines {
    /// The locks and requests, as they were last told.
    began: HashMap<LockId, Told>,
    /// What agents have said of themselves.
    agents: HashMap<ClientId, Arc<AgentInfo>>,
}

/// A lock or a request, as it was told.
#[derive(Debug)]
struct Told {
    entry: Entry,
    is_held: bool,
}

/// One line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Line<'a> {
    /// What the line tells: `held`, `pending` or `owned` for what was there from the beginning,
    /// otherwise [what has happened](Change::word). `inside` stands for a request that was told
    /// before: now it is known inside which locks this request was made.
    pub word: &'static str,
    /// When it happened.
    pub at: Instant,
    /// The name that the line is about, if it is about one.
    pub name: Option<&'a LockName>,
    /// The lock or request that the line is about, as it is now or was before its end.
    pub entry: Option<Cow<'a, Entry>>,
    /// The agent of that lock or request, or the agent that the line is about.
    pub agent: Option<ClientId>,
    /// What that agent says of itself, if it is known.
    pub info: Option<Arc<AgentInfo>>,
    /// For how long the request had waited, or the lock had been held. For what was there from the
    /// beginning, the time until now.
    pub age: Option<Duration>,
    /// Further details, by their keys in JSON.
    pub more: Vec<(&'static str, String)>,
}

impl Lines {
    /// Makes a line of everything in the overview, and forgets what was told before.
    pub fn begin(&mut self, overview: &Overview, mut tell: impl FnMut(&Line<'_>)) {
        self.began.clear();
        let infos = overview.agents.iter().map(|(id, agent)| (*id, Arc::clone(&agent.info)));
        self.agents = infos.collect();
        let now = Instant::now();
        for (name, queue) in &overview.queues {
            let all = [("held", &queue.held), ("pending", &queue.pending), ("owned", &queue.owned)];
            for (word, entries) in all {
                for entry in entries {
                    self.know(entry, word == "held");
                    tell(&Line {
                        word,
                        at: now,
                        name: Some(name),
                        entry: Some(Cow::Borrowed(entry)),
                        agent: Some(entry.id.client_id),
                        info: entry.with_why(self.agents.get(&entry.id.client_id)),
                        age: Some(entry.age(now)),
                        more: Vec::new(),
                    });
                }
            }
        }
    }

    /// The line of an event; `None` if the event says nothing new.
    pub fn event<'a>(&mut self, event: &'a Event) -> Option<Line<'a>> {
        let change = &event.change;
        let mut word = change.word();
        let before = match change {
            Change::Granted { entry, .. } | Change::Requested { entry, .. } => {
                let is_held = matches!(change, Change::Granted { .. });
                let before = self.know(entry, is_held);
                match &before {
                    // The entry is told again because more is known of it. The line gets a word of
                    // its own, because programs count the words for grants.
                    Some(before) if before.is_held == is_held => {
                        if before.entry.inside == entry.inside {
                            return None;
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
                self.agents.insert(*agent, Arc::clone(&details.info));
                None
            }
            _ => None,
        };
        let before = before.map(|before| before.entry);
        let age = before.as_ref().map(|before| event.at.saturating_duration_since(before.since));
        let entry = match change {
            Change::Granted { entry, .. }
            | Change::Requested { entry, .. }
            | Change::Owned { entry, .. } => Some(Cow::Borrowed(entry)),
            _ => before.map(Cow::Owned),
        };
        let agent = change.agent();
        let info = agent.and_then(|agent| self.agents.get(&agent));
        let info = entry.as_ref().map_or(info.cloned(), |entry| entry.with_why(info));
        if let Change::AgentWent { agent } = change {
            self.agents.remove(agent);
        }
        let (name, more) = (change.name(), more(change));
        Some(Line { word, at: event.at, name, entry, agent, info, age, more })
    }

    /// Forgets everything that was told: none of it is there any more.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Notes what a line tells of an entry. Returns what was told of it before.
    fn know(&mut self, entry: &Entry, is_held: bool) -> Option<Told> {
        self.began.insert(entry.id, Told { entry: entry.clone(), is_held })
    }
}

impl Line<'_> {
    /// The whole line as JSON, for programs.
    pub fn object(&self) -> Object {
        let time = SystemTime::now() - self.at.elapsed();
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let object = Object::default().string("event", self.word);
        object.number("at", milliseconds(time)).with(&self.members())
    }

    /// The members of [`object`](Self::object) without the word and the time.
    pub fn members(&self) -> Object {
        let mut object = Object::default();
        if let Some(name) = self.name {
            object = object.string("bucket", &name.bucket).name("name", &name.name);
        }
        if let Some(entry) = &self.entry {
            object = object.string("mode", entry.mode.as_str());
        }
        if let Some(agent) = self.agent {
            object = object.string("clientId", &agent.to_string());
        }
        if let Some(entry) = &self.entry {
            object = object.string("serial", &entry.id.serial.to_string());
        }
        if let Some(info) = &self.info {
            object = object.agent(info);
        }
        if let Some(entry) = &self.entry {
            object = object.found(entry);
        }
        if let Some(age) = self.age {
            object = object.number("ageMs", milliseconds(age));
        }
        self.more.iter().fold(object, |object, (key, value)| match value.parse() {
            Ok(number) => object.number(key, number),
            Err(_) => object.string(key, value),
        })
    }
}

/// The details of a change, apart from its agent and its name.
fn more(change: &Change) -> Vec<(&'static str, String)> {
    match change {
        Change::Lost { how, by, .. } => {
            let how = ("how", how.to_string());
            [how].into_iter().chain(by.map(|by| ("by", by.to_string()))).collect()
        }
        Change::Owned { held, .. } => {
            vec![("state", if *held { "held" } else { "idle" }.to_owned())]
        }
        Change::ClientCame { client, details } => {
            vec![("client", client.to_string()), ("pid", details.pid.to_string())]
        }
        Change::ClientWent { client } => vec![("client", client.to_string())],
        _ => Vec::new(),
    }
}
