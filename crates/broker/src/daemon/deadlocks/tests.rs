//! Tests of `deadlocks.rs`.

use futures_util::FutureExt;
use navlock_core::{
    FencingToken, Mode,
    blocking::block_on,
    host::{RequestId, RequestKind},
    look::{Change, Entry, LockName},
};

use super::*;
use crate::daemon::connected::ConnectedClient;

/// A client with one agent. The agent requests these names, one after the other.
fn client(daemon: &Arc<Daemon>, names: &[&str]) -> (ConnectedClient, ClientId) {
    let connected = daemon.enter(ClientId::random().to_bytes(), false, None);
    let mut client = lock(&connected.client);
    let client_id = ClientId::random();
    client.open_agent(0, client_id, "app".to_owned()).unwrap();
    for (at, name) in (0..).zip(names) {
        let kind = RequestKind::Wait(Mode::Exclusive);
        let name = (*name).try_into().unwrap();
        let id = RequestId::from_parts(at, at.into());
        client.request(0, id, name, kind, None).unwrap();
    }
    drop(client);
    (connected, client_id)
}

#[test]
fn a_nested_lock_that_is_free_has_nobody_look_for_cycles() {
    let daemon = Daemon::of_memory(None);
    let (connected, client_id) = client(&daemon, &["outer", "inner"]);
    let outer = LockId { client_id, serial: 0 };
    lock(&connected.client).requests.put_inside(RequestId::from_parts(1, 1), outer);
    assert!(daemon.lookers.nested.notified().now_or_never().is_none());
    let (waits, _) = client(&daemon, &["inner"]);
    lock(&waits.client).requests.put_inside(RequestId::from_parts(0, 0), outer);
    assert!(daemon.lookers.nested.notified().now_or_never().is_some());
}

#[test]
fn nothing_is_looked_at_but_names_that_somebody_waits_for_inside_a_lock() {
    let daemon = Daemon::of_memory(None);
    let names: Vec<_> = (0..100).map(|at| format!("{at}")).collect();
    let (holder, client_id) =
        client(&daemon, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let (idle, _) = client(&daemon, &["idle"]);
    let (waits, other) = client(&daemon, &["7", "8"]);
    let look = || daemon.look_at_nested(false).now_or_never().unwrap().unwrap().events;
    assert_eq!(look().len(), 0);
    lock(&waits.client)
        .requests
        .put_inside(RequestId::from_parts(0, 0), LockId { client_id, serial: 3 });
    let seen = look();
    let of = |event: &LookEvent| event.change.name().map(|name| name.name.to_string());
    assert_eq!(seen.iter().filter_map(of).collect::<Vec<_>>(), ["7", "7"]);
    let agents = seen.iter().filter_map(|event| match event.change {
        Change::AgentCame { agent, .. } => Some(agent),
        _ => None,
    });
    assert_eq!(agents.collect::<HashSet<_>>(), HashSet::from([client_id, other]));
    // The request no longer waits.
    lock(&waits.client).finish(RequestId::from_parts(0, 0));
    assert_eq!(look().len(), 0);
    drop((holder, idle));
}

#[test]
fn waiters_are_seen_in_the_order_of_their_queue() {
    let daemon = Daemon::of_memory(None);
    let all: Vec<_> = (0..10).map(|_| client(&daemon, &["db"])).collect();
    let (last, _) = all.last().unwrap();
    let inside = LockId { client_id: all[0].1, serial: 0 };
    lock(&last.client).requests.put_inside(RequestId::from_parts(0, 0), inside);
    let seen = daemon.look_at_nested(false).now_or_never().unwrap().unwrap().events;
    let queued = seen.iter().filter_map(|event| match &event.change {
        Change::Granted { entry, .. } | Change::Requested { entry, .. } => Some(entry.id.client_id),
        _ => None,
    });
    let expected = all.iter().map(|(_, client_id)| *client_id);
    assert_eq!(queued.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// One agent that holds `length` names, and waits for the next name inside each of them.
fn cycle(length: u64) -> Candidates {
    let each = (0..length).flat_map(|at| {
        let name = |at: u64| LockName::new("app", at.to_string().as_str().try_into().unwrap());
        let id = |serial| LockId { client_id: ClientId::from_bytes([1; 16]), serial };
        let mut entry = Entry::new(id(at), Mode::Exclusive);
        entry.token = Some(FencingToken::new(at));
        let held = Change::Granted { name: name(at), entry };
        let mut entry = Entry::new(id(length + at), Mode::Exclusive);
        entry.inside.push(id(at));
        let waits = Change::Requested { name: name((at + 1) % length), entry };
        [held, waits].map(|change| LookEvent { at: at + 1, change })
    });
    let ours = HashSet::from([ClientId::from_bytes([1; 16])]);
    Candidates { events: each.collect(), ours, elsewhere: None }
}

#[test]
fn the_first_of_a_long_cycle_are_told_one_text_and_the_one_that_came_last_is() {
    for length in [2, 20_000] {
        let now = Instant::now();
        let (watcher, cycles) = block_on(search(self::watcher(), cycle(length), now));
        assert!(cycles.requests.is_empty(), "it was seen once");
        let (_, cycles) = block_on(search(watcher, cycle(length), now + LASTING));
        let all = usize::try_from(length).unwrap();
        assert_eq!(cycles.lengths, [all]);
        assert_eq!(cycles.requests.len(), all.min(MOST_TOLD));
        let last = cycles.requests.values().filter(|it| it.gives_way);
        assert_eq!(last.count(), 1);
        let mut told = cycles.requests.values().map(|it| &it.told);
        let text = told.next().unwrap();
        assert!(told.all(|other| Arc::ptr_eq(text, other)));
        assert!(text.len() < 20_000, "{}", text.len());
    }
}

#[test]
fn a_cycle_of_other_machines_is_not_told_here() {
    let now = Instant::now();
    let theirs = || Candidates { ours: HashSet::new(), ..cycle(2) };
    let (watcher, _) = block_on(search(self::watcher(), theirs(), now));
    let (_, cycles) = block_on(search(watcher, theirs(), now + LASTING));
    assert_eq!((cycles.requests.len(), cycles.lengths.len()), (0, 0));
}
