//! What has happened to locks since this process began to look, and what there is now.

mod measures;

use std::{
    collections::{HashMap, VecDeque, hash_map},
    sync::Arc,
    time::{Duration, Instant},
};

use navlock::{
    AgentInfo, ClientId, Lost,
    look::{Change, Entry, Event, LockId, LockName, Overview},
};

pub(crate) use self::measures::{Rate, Times};
use crate::text::bytes_of;

/// How many agents that have gone are remembered.
const GONE: usize = 32;

/// How many locks that have ended are remembered, of all names together and of each name.
pub(crate) const MOST: usize = 8_192;
const MOST_OF_NAME: usize = 200;

/// How many bytes of others' texts are remembered with them. Names may be a mebibyte long, and the
/// broker's limits do not apply to names that the broker does not keep any more.
const MOST_BYTES: usize = 8 << 20;

/// What there is now, and the locks that have ended lately.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) began: Instant,
    /// What there is now.
    pub(crate) overview: Overview,
    /// The agents that went last, because an agent that steals by hand has gone before its victims
    /// are told.
    gone: VecDeque<(ClientId, Arc<AgentInfo>)>,
    /// Since when the requests had waited that have become the locks that are held.
    requested: HashMap<LockId, Instant>,
    /// The names that somebody has or had a lock of.
    pub(crate) names: HashMap<LockName, NamePast>,
    /// The names of the locks that have ended, in the order of these ends. Each has the length of
    /// the texts that are kept besides the name.
    order: VecDeque<(LockName, usize)>,
    /// The length of all texts that are kept for locks that have ended.
    bytes: usize,
}

/// What is remembered of a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamePast {
    pub(crate) grants: Rate,
    /// How long requests waited until they were granted.
    pub(crate) waits: Times,
    /// The locks that have ended. The last one is at the end.
    pub(crate) ended: VecDeque<Span>,
}

/// A lock, from its grant to its end.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) entry: Entry,
    /// What its agent said of itself, with what the lock is for.
    pub(crate) info: Option<Arc<AgentInfo>>,
    /// Since when the request for the lock had waited.
    pub(crate) requested: Option<Instant>,
    pub(crate) end: Option<End>,
}

#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) at: Instant,
    pub(crate) how: &'static str,
    /// The agent that has stolen the lock.
    pub(crate) by: Option<Arc<AgentInfo>>,
}

impl Default for Past {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            overview: Overview::default(),
            gone: VecDeque::new(),
            requested: HashMap::new(),
            names: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl Past {
    /// To be called when the whole state was told anew. Locks that are missing in it have ended
    /// meanwhile.
    pub(crate) fn anew(&mut self, overview: Overview) {
        let end = End { at: Instant::now(), how: "unseen", by: None };
        let is_held = |name: &LockName, id| {
            overview.queues.get(name).is_some_and(|queue| find(&queue.held, id).is_some())
        };
        self.close_all(|name, entry| !is_held(name, entry.id), &end);
        self.overview = overview;
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, event: &Event) {
        let at = event.at;
        match &event.change {
            Change::AgentWent { agent } => self.agent_went(*agent, at),
            Change::ClientWent { client } => {
                let agents = self.overview.agents.iter();
                let theirs = agents.filter(|(_, agent)| agent.client == Some(*client));
                for agent in theirs.map(|(id, _)| *id).collect::<Vec<_>>() {
                    self.agent_went(agent, at);
                }
            }
            // A lock that is held was told again, because more is known of it.
            Change::Granted { name, entry } if self.held(name, entry.id).is_none() => {
                let queue = self.overview.queues.get(name);
                let asked = queue.and_then(|queue| find(&queue.pending, entry.id));
                let since = asked.map(|asked| asked.since);
                let waited = since.map(|since| entry.since.saturating_duration_since(since));
                self.requested.extend(since.map(|since| (entry.id, since)));
                self.count(name, at, waited.unwrap_or_default(), 1);
            }
            Change::Owned { name, entry, held } => {
                let before = self.held(name, entry.id);
                let queue = || self.overview.queues.get(name);
                let known = before.or_else(|| find(&queue()?.owned, entry.id));
                let taken = entry.taken.saturating_sub(known.map_or(0, |known| known.taken));
                // Between two looks, the name may have been taken many times. Only these locks were
                // seen.
                let has_ended = before.is_some_and(|it| !held || it.token != entry.token);
                self.count(name, at, Duration::ZERO, taken);
                if has_ended {
                    self.end(name, entry.id, End { at, how: "released", by: None });
                }
            }
            Change::Released { name, id } | Change::Recalled { name, id } => {
                self.end(name, *id, End { at, how: "released", by: None });
            }
            Change::Lost { name, id, how, by } => {
                let how = if *how == Lost::Stolen { "stolen" } else { "lost" };
                let by = by.and_then(|by| self.info_of(by));
                self.end(name, *id, End { at, how, by });
            }
            _ => {}
        }
        self.overview.apply(event);
    }

    /// Forgets names that nobody uses and no lock of which has ended: owners have taken them without
    /// being seen. To be called once in a while.
    pub(crate) fn tidy(&mut self) {
        let queues = &self.overview.queues;
        self.names.retain(|name, it| !it.ended.is_empty() || queues.contains_key(name));
    }

    /// The number of a second since the beginning.
    pub(crate) fn second(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_secs()
    }

    /// Counts grants.
    fn count(&mut self, name: &LockName, at: Instant, waited: Duration, count: u64) {
        if count > 0 {
            let second = self.second(at);
            let of_name = self.names.entry(name.clone()).or_default();
            of_name.grants.add(second, count);
            of_name.waits.add(waited, count);
        }
    }

    /// A lock that is held.
    fn held(&self, name: &LockName, id: LockId) -> Option<&Entry> {
        find(&self.overview.queues.get(name)?.held, id)
    }

    fn agent_went(&mut self, agent: ClientId, at: Instant) {
        // FAST: mostly the agent has no locks any more, so the queues are not searched.
        if self.overview.has_entries(agent) {
            let end = End { at, how: "ended", by: None };
            self.close_all(|_, entry| entry.id.client_id == agent, &end);
        }
        if let Some(info) = self.overview.info(agent).cloned() {
            self.gone.truncate(GONE - 1);
            self.gone.push_front((agent, info));
        }
    }

    /// The description of an agent that is there, or that was there until a moment ago.
    fn info_of(&self, agent: ClientId) -> Option<Arc<AgentInfo>> {
        let gone = || self.gone.iter().find(|(id, _)| *id == agent).map(|(_, info)| info);
        self.overview.info(agent).or_else(gone).cloned()
    }

    fn end(&mut self, name: &LockName, id: LockId, end: End) {
        if let Some(entry) = self.held(name, id).cloned() {
            self.close(name.clone(), entry, end);
        }
    }

    /// Ends all held locks of which `has_ended` is true.
    fn close_all(&mut self, has_ended: impl Fn(&LockName, &Entry) -> bool, end: &End) {
        let queues = self.overview.queues.iter();
        let held = queues.flat_map(|(name, queue)| queue.held.iter().map(move |it| (name, it)));
        let ended = held.filter(|(name, entry)| has_ended(name, entry));
        let ended: Vec<_> = ended.map(|(name, entry)| (name.clone(), entry.clone())).collect();
        for (name, entry) in ended {
            self.close(name, entry, end.clone());
        }
    }

    fn close(&mut self, name: LockName, entry: Entry, end: End) {
        let info = self.overview.info_of(&entry);
        let texts = info.iter().chain(&end.by).map(|info| info.size()).sum();
        let requested = self.requested.remove(&entry.id);
        let of_name = self.names.entry(name);
        // All entries share one copy of the name.
        let name = of_name.key().clone();
        let of_name = of_name.or_default();
        if of_name.ended.is_empty() {
            self.bytes += bytes_of(&name);
        }
        of_name.ended.push_back(Span { entry, info, requested, end: Some(end) });
        if of_name.ended.len() > MOST_OF_NAME {
            of_name.ended.pop_front();
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
        if let hash_map::Entry::Occupied(mut of_name) = self.names.entry(name) {
            of_name.get_mut().ended.pop_front();
            if of_name.get().ended.is_empty() {
                self.bytes -= bytes_of(of_name.key());
                if !self.overview.queues.contains_key(of_name.key()) {
                    of_name.remove();
                }
            }
        }
    }

    /// The locks of this name that have ended and those that are held, in the order of their grants.
    pub(crate) fn spans(&self, name: &LockName) -> Vec<Span> {
        let ended = self.names.get(name).into_iter().flat_map(|of_name| &of_name.ended).cloned();
        let held = self.overview.queues.get(name).into_iter().flat_map(|queue| &queue.held);
        let held = held.map(|entry| Span {
            entry: entry.clone(),
            info: self.overview.info_of(entry),
            requested: self.requested.get(&entry.id).copied(),
            end: None,
        });
        let mut spans: Vec<_> = ended.chain(held).collect();
        spans.sort_by_key(|span| span.entry.since);
        spans
    }
}

fn find(entries: &[Entry], id: LockId) -> Option<&Entry> {
    entries.iter().find(|entry| entry.id == id)
}

#[cfg(test)]
mod tests {
    use navlock::Mode;

    use super::*;

    fn name(name: &str) -> LockName {
        LockName::new("app", name.try_into().unwrap())
    }

    fn tell(past: &mut Past, change: Change) {
        past.event(&Event { at: Instant::now(), change });
    }

    #[test]
    fn a_lock_is_remembered_with_how_it_ended() {
        let mut past = Past::default();
        let (agent, db) = (ClientId::random(), name("db"));
        let entry = |serial| Entry::new(LockId { client_id: agent, serial }, Mode::Exclusive);
        tell(&mut past, Change::Requested { name: db.clone(), entry: entry(1) });
        for serial in 1..=4 {
            tell(&mut past, Change::Granted { name: db.clone(), entry: entry(serial) });
        }
        let id = |serial| entry(serial).id;
        let stolen = Change::Lost { name: db.clone(), id: id(1), how: Lost::Stolen, by: None };
        tell(&mut past, stolen);
        tell(&mut past, Change::Released { name: db.clone(), id: id(2) });
        tell(&mut past, Change::AgentWent { agent });
        let spans = past.spans(&db);
        let how: Vec<_> = spans.iter().map(|span| span.end.as_ref().unwrap().how).collect();
        assert_eq!(how, ["stolen", "released", "ended", "ended"]);
        assert!(spans[0].requested.is_some() && spans[1].requested.is_none());
        assert_eq!((past.overview.queues.len(), past.requested.len()), (0, 0));
    }

    #[test]
    fn only_so_much_is_remembered() {
        let mut past = Past::default();
        let agent = ClientId::random();
        for serial in 0..3 * MOST as u64 {
            let entry = Entry::new(LockId { client_id: agent, serial }, Mode::Shared);
            let name = name(
                if serial % 2 == 0 { "often".to_owned() } else { serial.to_string() }.as_str(),
            );
            tell(&mut past, Change::Granted { name: name.clone(), entry: entry.clone() });
            tell(&mut past, Change::Released { name, id: entry.id });
        }
        assert_eq!(past.spans(&name("often")).len(), MOST_OF_NAME);
        assert!(past.order.len() <= MOST && past.names.len() <= MOST);
        let remembered: usize = past.names.values().map(|name| name.ended.len()).sum();
        assert!(remembered <= MOST, "{remembered}");
    }

    #[test]
    fn a_name_that_is_used_is_known_when_its_past_is_forgotten_and_counts_no_more() {
        let mut past = Past::default();
        let agent = ClientId::random();
        let entry = |serial| Entry::new(LockId { client_id: agent, serial }, Mode::Shared);
        let db = name("db");
        tell(&mut past, Change::Granted { name: db.clone(), entry: entry(0) });
        for serial in 1..3 {
            tell(&mut past, Change::Granted { name: db.clone(), entry: entry(serial) });
            tell(&mut past, Change::Released { name: db.clone(), id: entry(serial).id });
            past.forget_first();
            assert_eq!((past.bytes, past.names.len(), past.spans(&db).len()), (0, 1, 1));
        }
    }

    #[test]
    fn of_names_as_long_as_any_may_be_no_more_is_remembered_than_there_is_room_for() {
        let mut past = Past::default();
        let agent = ClientId::random();
        for serial in 0..40 {
            let entry = Entry::new(LockId { client_id: agent, serial }, Mode::Exclusive);
            let name = name(&format!("{serial}{}", "x".repeat(1 << 19)));
            tell(&mut past, Change::Granted { name: name.clone(), entry: entry.clone() });
            tell(&mut past, Change::Released { name, id: entry.id });
        }
        let remembered: usize = past.names.keys().map(|name| name.name.as_bytes().len()).sum();
        assert!((MOST_BYTES / 2..=MOST_BYTES).contains(&remembered), "{remembered}");
        for serial in 100..100 + 2 * MOST as u64 {
            let entry = Entry::new(LockId { client_id: agent, serial }, Mode::Exclusive);
            let name = name(&serial.to_string());
            tell(&mut past, Change::Granted { name: name.clone(), entry: entry.clone() });
            tell(&mut past, Change::Released { name, id: entry.id });
        }
        let remembered: usize = past.names.keys().map(|name| name.name.as_bytes().len()).sum();
        assert!(past.bytes >= remembered && past.bytes < 1 << 20, "{}", past.bytes);
    }
}
