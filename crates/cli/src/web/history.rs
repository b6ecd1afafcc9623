//! The holders of names, since this process began to look.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map},
    sync::Arc,
    time::Instant,
};

use navlock::{
    AgentInfo, ClientId, FencingToken, Lost, Mode,
    look::{Change, Entry, Event, LockId, LockName, Overview},
};

use super::{clock::Clock, render};
use crate::{json::Object, text::bytes_of};

/// How many agents that have gone are remembered.
const GONE: usize = 32;

/// How many locks that have ended are remembered, of all names together and of each name.
const MOST: usize = 8_192;
const MOST_OF_NAME: usize = 200;

/// How many bytes of others' texts are remembered with them. Names may be a mebibyte long, and the
/// broker's limits do not apply to names that the broker does not keep any more.
const MOST_BYTES: usize = 8 << 20;

/// The locks that are held, since when, and the last ones that have ended.
pub(super) struct History {
    began: Instant,
    agents: HashMap<ClientId, Known>,
    /// The agents that went last, because an agent that steals by hand has gone before its victims
    /// are told.
    gone: VecDeque<(ClientId, Arc<AgentInfo>)>,
    /// The requests, by agent, because most requests end with their agent.
    requests: HashMap<ClientId, BTreeMap<u64, Instant>>,
    open: HashMap<ClientId, BTreeMap<u64, Open>>,
    closed: HashMap<LockName, VecDeque<Span>>,
    /// The names of the locks that have ended, in the order of these ends. Each has the length of
    /// the texts that are kept besides the name.
    order: VecDeque<(LockName, usize)>,
    /// The length of all texts that are kept for locks that have ended.
    bytes: usize,
}

/// A lock that is held.
struct Open {
    name: LockName,
    span: Span,
}

struct Known {
    info: Arc<AgentInfo>,
    client: Option<u64>,
}

/// A lock, from its grant to its end.
struct Span {
    id: LockId,
    mode: Mode,
    token: Option<FencingToken>,
    /// What the lock is for, if its request said so.
    why: Option<Arc<str>>,
    info: Option<Arc<AgentInfo>>,
    from: Instant,
    /// Since when the request for the lock had waited.
    requested: Option<Instant>,
    end: Option<End>,
}

struct End {
    at: Instant,
    how: &'static str,
    /// The agent that has stolen the lock.
    by: Option<Arc<AgentInfo>>,
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            agents: HashMap::new(),
            gone: VecDeque::new(),
            requests: HashMap::new(),
            open: HashMap::new(),
            closed: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }

    /// To be called when the whole state was told anew. Locks that are missing in it have ended
    /// meanwhile.
    pub(super) fn anew(&mut self, overview: &Overview) {
        let now = Instant::now();
        self.agents.clear();
        for (id, agent) in &overview.agents {
            let known = Known { info: agent.info.clone(), client: agent.client };
            self.agents.insert(*id, known);
        }
        self.requests.clear();
        let mut before = std::mem::take(&mut self.open);
        for (name, queue) in &overview.queues {
            for entry in &queue.held {
                let of_agent = before.get_mut(&entry.id.client_id);
                match of_agent.and_then(|spans| spans.remove(&entry.id.serial)) {
                    Some(open) => self.put(open),
                    None => self.grant(name, entry),
                }
            }
            for entry in &queue.pending {
                self.request(entry);
            }
        }
        for open in before.into_values().flat_map(BTreeMap::into_values) {
            self.close(open, End { at: now, how: "unseen", by: None });
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        let at = event.at;
        match &event.change {
            Change::AgentCame { agent, details } => {
                let known = Known { info: details.info.clone(), client: details.client };
                self.agents.insert(*agent, known);
            }
            Change::AgentWent { agent } => self.agent_went(*agent, at),
            Change::ClientWent { client } => {
                let theirs = self.agents.iter().filter(|(_, known)| known.client == Some(*client));
                for agent in theirs.map(|(id, _)| *id).collect::<Vec<_>>() {
                    self.agent_went(agent, at);
                }
            }
            Change::Requested { entry, .. } => self.request(entry),
            Change::Granted { name, entry } => self.grant(name, entry),
            Change::Owned { name, entry, held: true } => {
                // Between two looks, the name may have been taken many times. Only this lock was
                // seen.
                let spans = self.open.get(&entry.id.client_id);
                let known = spans.and_then(|spans| spans.get(&entry.id.serial));
                if known.is_none_or(|known| known.span.token != entry.token) {
                    self.end(entry.id, at, "released", None);
                    self.grant(name, entry);
                }
            }
            Change::Owned { entry, held: false, .. } => self.end(entry.id, at, "released", None),
            Change::Released { id, .. } | Change::Recalled { id, .. } => {
                self.end(*id, at, "released", None);
            }
            Change::Aborted { id, .. } => drop(self.take_request(*id)),
            Change::Lost { id, how, by, .. } => {
                let how = if *how == Lost::Stolen { "stolen" } else { "lost" };
                let by = by.and_then(|by| self.info_of(by));
                self.end(*id, at, how, by);
            }
            _ => {}
        }
    }

    fn request(&mut self, entry: &Entry) {
        let of_agent = self.requests.entry(entry.id.client_id).or_default();
        of_agent.entry(entry.id.serial).or_insert(entry.since);
    }

    fn take_request(&mut self, id: LockId) -> Option<Instant> {
        let of_agent = self.requests.get_mut(&id.client_id)?;
        let since = of_agent.remove(&id.serial);
        if of_agent.is_empty() {
            self.requests.remove(&id.client_id);
        }
        since
    }

    fn grant(&mut self, name: &LockName, entry: &Entry) {
        let requested = self.take_request(entry.id);
        let before = self.take_open(entry.id);
        let span = Span {
            id: entry.id,
            mode: entry.mode,
            token: entry.token,
            why: entry.why.clone(),
            info: None,
            from: entry.since,
            requested: requested.or(before.and_then(|before| before.span.requested)),
            end: None,
        };
        self.put(Open { name: name.clone(), span });
    }

    fn put(&mut self, open: Open) {
        let id = open.span.id;
        self.open.entry(id.client_id).or_default().insert(id.serial, open);
    }

    fn take_open(&mut self, id: LockId) -> Option<Open> {
        let of_agent = self.open.get_mut(&id.client_id)?;
        let open = of_agent.remove(&id.serial);
        if of_agent.is_empty() {
            self.open.remove(&id.client_id);
        }
        open
    }

    fn agent_went(&mut self, agent: ClientId, at: Instant) {
        self.requests.remove(&agent);
        for open in self.open.remove(&agent).unwrap_or_default().into_values() {
            self.close(open, End { at, how: "ended", by: None });
        }
        if let Some(known) = self.agents.remove(&agent) {
            self.gone.truncate(GONE - 1);
            self.gone.push_front((agent, known.info));
        }
    }

    /// The description of an agent that is there, or that was there until a moment ago.
    fn info_of(&self, agent: ClientId) -> Option<Arc<AgentInfo>> {
        let gone = || self.gone.iter().find(|(id, _)| *id == agent).map(|(_, info)| info);
        self.agents.get(&agent).map(|known| &known.info).or_else(gone).cloned()
    }

    /// What is known now of who holds this lock, with what the lock is for.
    fn holder(&self, span: &Span) -> Option<Arc<AgentInfo>> {
        let mut entry = Entry::new(span.id, span.mode);
        entry.why.clone_from(&span.why);
        entry.with_why(self.agents.get(&span.id.client_id).map(|known| &known.info))
    }

    fn end(&mut self, id: LockId, at: Instant, how: &'static str, by: Option<Arc<AgentInfo>>) {
        if let Some(open) = self.take_open(id) {
            self.close(open, End { at, how, by });
        }
    }

    fn close(&mut self, Open { name, mut span }: Open, end: End) {
        // The description is taken only now, because the agent may have said more of itself since
        // the grant.
        span.info = self.holder(&span);
        let texts = span.info.iter().chain(&end.by).map(|info| length(info)).sum();
        span.end = Some(end);
        let of_name = self.closed.entry(name);
        if matches!(of_name, hash_map::Entry::Vacant(_)) {
            self.bytes += bytes_of(of_name.key());
        }
        // All entries share one copy of the name.
        let name = of_name.key().clone();
        let of_name = of_name.or_default();
        of_name.push_back(span);
        if of_name.len() > MOST_OF_NAME {
            of_name.pop_front();
        } else {
            self.bytes += texts;
            self.order.push_back((name, texts));
        }
        while self.order.len() > MOST || self.bytes > MOST_BYTES {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((name, texts)) = self.order.pop_front() else { return };
        self.bytes -= texts;
        if let Some(of_name) = self.closed.get_mut(&name) {
            of_name.pop_front();
            if of_name.is_empty() {
                self.closed.remove(&name);
                self.bytes -= bytes_of(&name);
            }
        }
    }

    /// Whether a lock of this name that has ended is remembered.
    pub(super) fn knows(&self, name: &LockName) -> bool {
        self.closed.contains_key(name)
    }

    /// The holders of this name, in the order of their grants.
    pub(super) fn of(&self, name: &LockName, clock: Clock) -> String {
        let closed = self.closed.get(name).into_iter().flatten();
        let open = self.open.values().flat_map(BTreeMap::values).filter(|open| open.name == *name);
        let mut spans: Vec<&Span> = closed.chain(open.map(|open| &open.span)).collect();
        spans.sort_by_key(|span| span.from);
        let spans = spans.into_iter().map(|span| self.span(span, clock));
        Object::default()
            .number("began", clock.at(self.began))
            .number("now", clock.now())
            .json("spans", render::array(spans))
            .to_string()
    }

    fn span(&self, span: &Span, clock: Clock) -> String {
        let known = self.holder(span);
        let mut object = Object::default()
            .string("id", &span.id.to_string())
            .string("mode", span.mode.as_str())
            .number("from", clock.at(span.from));
        if let Some(token) = span.token {
            object = object.fencing_token(token);
        }
        if let Some(requested) = span.requested {
            object = object.number("requested", clock.at(requested));
        }
        if let Some(end) = &span.end {
            object = object.number("to", clock.at(end.at)).string("how", end.how);
            if let Some(by) = &end.by {
                object = object.object("by", &render::info(Object::default(), by));
            }
        }
        if let Some(info) = span.info.as_ref().or(known.as_ref()) {
            object = object.object("who", &render::info(Object::default(), info));
        }
        object.to_string()
    }
}

/// The length of the texts that an agent has said of itself.
fn length(info: &AgentInfo) -> usize {
    let meta = info.meta.iter().flat_map(|(key, value)| [key, value]);
    let texts = [&info.command, &info.user, &info.host, &info.why];
    texts.into_iter().chain(meta).map(String::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> LockName {
        LockName::new("app", name.try_into().unwrap())
    }

    fn spans(history: &History, of: &LockName) -> Vec<serde_json::Value> {
        let told: serde_json::Value = serde_json::from_str(&history.of(of, Clock::new())).unwrap();
        told["spans"].as_array().unwrap().clone()
    }

    fn tell(history: &mut History, change: Change) {
        history.event(&Event { at: Instant::now(), change });
    }

    #[test]
    fn a_lock_is_remembered_with_how_it_ended() {
        let mut history = History::new();
        let (agent, db) = (ClientId::random(), name("db"));
        let entry = |serial| Entry::new(LockId { client_id: agent, serial }, Mode::Exclusive);
        tell(&mut history, Change::Requested { name: db.clone(), entry: entry(1) });
        for serial in 1..=4 {
            tell(&mut history, Change::Granted { name: db.clone(), entry: entry(serial) });
        }
        let id = |serial| entry(serial).id;
        let stolen = Change::Lost { name: db.clone(), id: id(1), how: Lost::Stolen, by: None };
        tell(&mut history, stolen);
        tell(&mut history, Change::Released { name: db.clone(), id: id(2) });
        tell(&mut history, Change::AgentWent { agent });
        let spans = spans(&history, &db);
        let how: Vec<_> = spans.iter().map(|span| span["how"].as_str().unwrap()).collect();
        assert_eq!(how, ["stolen", "released", "ended", "ended"]);
        assert!(spans[0]["requested"].is_u64() && spans[1]["requested"].is_null());
        assert!(history.open.is_empty() && history.requests.is_empty());
    }

    #[test]
    fn only_so_much_is_remembered() {
        let mut history = History::new();
        let agent = ClientId::random();
        for serial in 0..3 * MOST as u64 {
            let entry = Entry::new(LockId { client_id: agent, serial }, Mode::Shared);
            let name = name(
                if serial % 2 == 0 { "often".to_owned() } else { serial.to_string() }.as_str(),
            );
            tell(&mut history, Change::Granted { name: name.clone(), entry: entry.clone() });
            tell(&mut history, Change::Released { name, id: entry.id });
        }
        assert_eq!(spans(&history, &name("often")).len(), MOST_OF_NAME);
        assert!(history.order.len() <= MOST && history.closed.len() <= MOST);
        let remembered: usize = history.closed.values().map(VecDeque::len).sum();
        assert!(remembered <= MOST, "{remembered}");
    }

    #[test]
    fn of_names_as_long_as_any_may_be_no_more_is_remembered_than_there_is_room_for() {
        let mut history = History::new();
        let agent = ClientId::random();
        for serial in 0..40 {
            let entry = Entry::new(LockId { client_id: agent, serial }, Mode::Exclusive);
            let name = name(&format!("{serial}{}", "x".repeat(1 << 19)));
            tell(&mut history, Change::Granted { name: name.clone(), entry: entry.clone() });
            tell(&mut history, Change::Released { name, id: entry.id });
        }
        let remembered: usize = history.closed.keys().map(|name| name.name.as_bytes().len()).sum();
        assert!((MOST_BYTES / 2..=MOST_BYTES).contains(&remembered), "{remembered}");
        for serial in 100..100 + 2 * MOST as u64 {
            let entry = Entry::new(LockId { client_id: agent, serial }, Mode::Exclusive);
            let name = name(&serial.to_string());
            tell(&mut history, Change::Granted { name: name.clone(), entry: entry.clone() });
            tell(&mut history, Change::Released { name, id: entry.id });
        }
        let remembered: usize = history.closed.keys().map(|name| name.name.as_bytes().len()).sum();
        assert!(history.bytes >= remembered && history.bytes < 1 << 20, "{}", history.bytes);
    }
}
