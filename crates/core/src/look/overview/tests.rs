use std::time::Instant;

use navlock_engine::Mode;

use super::*;

fn name() -> LockName {
    LockName::new("app", "db".try_into().unwrap())
}

fn entry(client_id: ClientId, serial: u64) -> Entry {
    Entry::new(LockId { client_id, serial }, Mode::Exclusive)
}

fn after(changes: impl IntoIterator<Item = Change>) -> Overview {
    let mut overview = Overview::default();
    for change in changes {
        overview.apply(&Event { at: Instant::now(), change });
    }
    overview
}

#[test]
fn a_request_becomes_a_lock_in_place() {
    let agent = ClientId::random();
    let (first, second) = (entry(agent, 1), entry(agent, 2));
    let overview = after([
        Change::Granted { name: name(), entry: first.clone() },
        Change::Requested { name: name(), entry: second.clone() },
        Change::Released { name: name(), id: first.id },
        Change::Granted { name: name(), entry: second.clone() },
    ]);
    let queue = &overview.queues[&name()];
    assert_eq!((&queue.held, queue.pending.len()), (&vec![second], 0));
}

#[test]
fn an_event_heard_twice_changes_nothing_the_second_time() {
    let agent = ClientId::random();
    let events = [
        Change::Requested { name: name(), entry: entry(agent, 1) },
        Change::Granted { name: name(), entry: entry(agent, 2) },
        Change::Aborted { name: name(), id: LockId { client_id: agent, serial: 3 } },
    ];
    let twice = after(events.iter().flat_map(|event| [event.clone(), event.clone()]));
    assert_eq!(twice, after(events));
}

#[test]
fn an_agent_that_went_has_left_nothing() {
    let (gone, stays) = (ClientId::random(), ClientId::random());
    let agent = |client| Agent::new("app".into(), Arc::default(), Some(client));
    let came = |id, client| Change::AgentCame { agent: id, details: agent(client) };
    let base = [
        came(gone, 1),
        came(stays, 2),
        Change::Granted { name: name(), entry: entry(gone, 1) },
        Change::Requested { name: name(), entry: entry(stays, 1) },
    ];
    for end in [Change::AgentWent { agent: gone }, Change::ClientWent { client: 1 }] {
        let overview = after(base.iter().cloned().chain([end]));
        assert_eq!(overview.agents.keys().collect::<Vec<_>>(), [&stays]);
        let queue = &overview.queues[&name()];
        assert_eq!((queue.held.len(), queue.pending.len()), (0, 1));
    }
}

#[test]
fn a_name_of_which_nothing_is_left_is_forgotten() {
    let entry = entry(ClientId::random(), 1);
    let owned = |held| Change::Owned { name: name(), entry: entry.clone(), held };
    let overview = after([owned(true), owned(false)]);
    let queue = &overview.queues[&name()];
    assert_eq!((queue.held.len(), queue.owned.first()), (0, Some(&entry)));
    let recalled = Change::Recalled { name: name(), id: entry.id };
    assert!(after([owned(false), recalled]).queues.is_empty());
}
