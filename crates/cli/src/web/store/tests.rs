//! Tests of what the page is told of events.

use std::{sync::Arc, time::Instant};

use navlock::{
    FencingToken, Mode,
    look::{Change, Entry, Event, LockId, Overview},
};
use serde_json::Value;

use super::*;
use crate::text::bytes_of;

/// A store that has been told things.
struct Shown {
    store: Store,
}

impl Shown {
    fn new() -> Self {
        let mut shown = Self { store: Store::default() };
        shown.store.picture.anew(Overview::default(), 0, None);
        shown.refresh();
        shown
    }

    fn tell(&mut self, changes: impl IntoIterator<Item = Change>) {
        let events: Vec<_> =
            changes.into_iter().map(|change| Event { at: Instant::now(), change }).collect();
        self.store.picture.happened(&events);
    }

    fn refresh(&mut self) {
        self.store.refresh(&Here::made_up(|_| None));
    }

    fn since(&self, version: u64) -> Option<Value> {
        Some(serde_json::from_str(&self.store.since(version)?.to_string()).unwrap())
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.store.state().to_string()).unwrap()
    }
}

fn name(name: &str) -> LockName {
    LockName::new("app", name.try_into().unwrap())
}

fn entry(client_id: ClientId, serial: u64) -> Entry {
    Entry::new(LockId { client_id, serial }, Mode::Exclusive)
}

#[test]
fn a_page_that_comes_before_anything_is_known_is_told_that_there_is_nothing() {
    let shown = Shown { store: Store::default() };
    let state = shown.state();
    assert_eq!([&state["tree"], &state["deadlocks"]], [&serde_json::json!([]); 2]);
}

#[test]
fn a_page_that_has_missed_much_is_told_the_present_state() {
    let mut shown = Shown::new();
    let agent = ClientId::random();
    for serial in 0..1000 {
        let entry = entry(agent, serial);
        let id = entry.id;
        shown.tell([Change::Granted { name: name("db"), entry }]);
        shown.refresh();
        shown.tell((serial < 999).then(|| Change::Released { name: name("db"), id }));
    }
    let change = shown.since(1).unwrap();
    let names = change["names"].as_array().unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0]["held"][0]["id"], format!("{agent}/999"));
    assert_eq!(change["version"], 1001);
    assert_eq!(shown.since(1001).unwrap()["names"], serde_json::json!([]));
    let last = entry(agent, 999).id;
    shown.tell([Change::Released { name: name("db"), id: last }]);
    shown.refresh();
    assert_eq!(shown.since(1001).unwrap()["namesGone"], serde_json::json!([names[0]["key"]]));
    assert_eq!(shown.state()["names"], serde_json::json!([]));
}

#[test]
fn how_much_is_not_shown_is_told() {
    let mut shown = Shown::new();
    shown.refresh();
    assert_eq!(shown.state()["leftOut"], 0);
    shown.tell([Change::LeftOut { count: 7 }]);
    shown.refresh();
    assert_eq!(
        (&shown.state()["leftOut"], &shown.since(1).unwrap()["leftOut"]),
        (&7.into(), &7.into())
    );
}

#[test]
fn only_so_many_parts_that_have_gone_are_remembered_and_then_all_is_told() {
    let mut shown = Shown::new();
    let agent = ClientId::random();
    for round in 0..7 {
        for serial in 0..MOST_GONE as u64 / 2 {
            let name = name(&serial.to_string());
            let entry = entry(agent, serial);
            shown.tell([match round % 2 {
                0 => Change::Granted { name, entry },
                _ => Change::Released { name, id: entry.id },
            }]);
        }
        shown.refresh();
    }
    assert!(shown.store.gone.len() <= MOST_GONE);
    assert_eq!((shown.store.version(), shown.since(0), shown.since(2)), (8, None, None));
    assert!(shown.since(3).is_some() && shown.since(9).is_none());
    assert_eq!(shown.since(7).unwrap()["names"].as_array().unwrap().len(), MOST_GONE / 2);
    assert_eq!(shown.state()["names"].as_array().unwrap().len(), MOST_GONE / 2);
}

#[test]
fn a_page_is_told_nothing_where_nothing_has_changed() {
    let mut shown = Shown::new();
    shown.tell([Change::Recovered]);
    shown.refresh();
    assert_eq!(shown.store.version(), 1);
}

#[test]
fn agents_and_locks_of_a_client_go_with_it() {
    let mut shown = Shown::new();
    let (gone, stays) = (ClientId::random(), ClientId::random());
    let agent = |id, client| Change::AgentCame {
        agent: id,
        details: navlock::look::Agent::new("app".into(), Arc::default(), Some(client)),
    };
    let granted = |name, entry| Change::Granted { name, entry };
    shown.tell([agent(gone, 1), agent(stays, 2)]);
    shown.tell([granted(name("a"), entry(gone, 1)), granted(name("b"), entry(stays, 1))]);
    shown.refresh();
    assert_eq!(shown.state()["names"].as_array().unwrap().len(), 2);
    shown.tell([Change::ClientWent { client: 1 }]);
    shown.refresh();
    let state = shown.state();
    assert_eq!(state["names"].as_array().unwrap().len(), 1);
    assert_eq!(state["agents"].as_array().unwrap().len(), 1);
    assert_eq!(state["agents"][0]["held"], 1);
    let change = shown.since(2).unwrap();
    assert_eq!(change["agentsGone"], serde_json::json!([gone.to_string()]));
    assert_eq!(change["namesGone"].as_array().unwrap().len(), 1);
}

#[test]
fn a_name_is_shown_by_its_beginning() {
    let mut shown = Shown::new();
    let long = name(&"x".repeat(1 << 20));
    shown.tell([Change::Granted { name: long, entry: entry(ClientId::random(), 1) }]);
    shown.refresh();
    let state = shown.store.state().to_string();
    assert!(state.len() < 2_000, "{}", state.len());
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["names"][0]["nameLength"], 1 << 20);
}

#[test]
fn a_page_at_a_version_has_seen_exactly_the_holders_of_that_version() {
    let mut shown = Shown::new();
    let agents: Vec<_> = (0..700).map(|_| ClientId::random()).collect();
    let granted = |agent: &ClientId, token| {
        let mut entry = Entry::new(LockId { client_id: *agent, serial: 1 }, Mode::Shared);
        entry.token = Some(FencingToken::new(token));
        Change::Granted { name: name("db"), entry }
    };
    shown.tell(agents.iter().map(|agent| granted(agent, 1)));
    shown.refresh();
    let version = shown.store.version();
    let key = shown.state()["names"][0]["key"].as_u64().unwrap();
    // There are more holders than the page shows.
    assert_eq!(shown.store.seen_holding(key, version).unwrap().1.len(), 700);
    let asked = Change::Requested { name: name("db"), entry: entry(agents[0], 2) };
    shown.tell([asked]);
    shown.refresh();
    // A new waiter changes nothing.
    assert!(shown.store.seen_holding(key, version).is_some());
    // A new grant changes the version of the holders, even if it is a grant of the same lock.
    shown.tell([granted(&agents[0], 2)]);
    shown.refresh();
    assert!(shown.store.seen_holding(key, version).is_none());
    let (_, holders) = shown.store.seen_holding(key, shown.store.version()).unwrap();
    assert!(holders.contains(&(entry(agents[0], 1).id, FencingToken::new(2))));
    // Nobody can have seen a version that does not exist yet, or a key that belongs to no name.
    assert!(shown.store.seen_holding(key, shown.store.version() + 1).is_none());
    assert!(shown.store.seen_holding(key + 1, shown.store.version()).is_none());
}

#[test]
fn names_that_have_gone_are_forgotten_in_the_end_however_long_they_are() {
    let mut shown = Shown::new();
    let agent = ClientId::random();
    shown.tell([Change::Granted { name: name("stays"), entry: entry(agent, 0) }]);
    for serial in 1..60 {
        let name = name(&format!("{serial}{}", "x".repeat(1 << 19)));
        let entry = entry(agent, serial);
        let id = entry.id;
        shown.tell([Change::Granted { name: name.clone(), entry }]);
        shown.refresh();
        shown.tell([Change::Released { name, id }]);
        shown.refresh();
    }
    shown.store.tidy();
    let keys = &shown.store.keys;
    let bytes: usize = keys.keys().map(bytes_of).sum();
    // The limit is what is remembered of locks that have ended.
    assert!(bytes <= 8 << 20, "{bytes}");
    assert!(keys.contains_key(&name("stays")));
}
