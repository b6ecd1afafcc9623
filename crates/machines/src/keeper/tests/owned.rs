//! Tests of names that the connection owns.

use super::*;
use crate::{data::Check, query::Asks};

#[test]
fn late_news_of_a_watch_does_not_make_a_name_owned_again() {
    let (mut machine, agent) = owner();
    machine.leave();
    machine.answered(7);
    // The watch is behind all this time. Because others have wanted the name, it must be taken more
    // often before the connection owns it again.
    let (held, _) = machine.take(agent, "db", 8);
    machine.release(held, 9);
    let (held, _) = machine.take(agent, "db", 10);
    let finished = machine.shared.table().finish(held).and_then(|ending| ending.finished);
    machine.keeper.handle_message(Message::Finish { id: held, finished: finished.unwrap() });
    let calls = machine.calls();
    let asks = |call: &Call| match call {
        Call::Operate { of, .. } => matches!(of.operation, Operation::Own(..)),
        _ => false,
    };
    assert!(calls.iter().any(asks), "{calls:?}");
    machine.report(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    assert_eq!(machine.usage(), None);
}

#[test]
fn a_new_agent_keeps_its_turn_when_an_owned_name_is_given_up() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    // The keeper's thread has not heard of the agent `late` yet.
    let client_id = ClientId::from_bytes([2; 16]);
    let (late, serial) = machine.shared.table().open_agent(0, client_id);
    let (first, _) = machine.call(late, RequestKind::Wait(Mode::Exclusive));
    let (second, _) = machine.call(agent, RequestKind::Wait(Mode::Exclusive));
    machine.leave();
    machine.answered(7);
    assert!(matches!(machine.shared.table().status(held), Status::Held(_)));
    machine.keeper.handle_message(Message::OpenAgent { bucket: 0, serial, agent: late, client_id });
    machine.keeper.handle_message(Message::Request {
        bucket: 0,
        serial,
        id: first,
        name: NameKey::new(&of("db")),
    });
    let calls = machine.calls();
    let asks = calls.iter().find_map(|call| match call {
        Call::Operate { of, .. } => Some(of.operation.own()),
        _ => None,
    });
    let asked: Vec<_> =
        asks.unwrap_or_default().iter().map(|key| machine.keeper.slots.holder(*key)).collect();
    assert_eq!(asked, [Some(first), Some(second)]);
}

#[test]
fn a_lock_of_a_name_that_is_given_up_keeps_its_number() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.leave();
    let calls = machine.calls();
    let written = calls.iter().flat_map(|call| match call {
        Call::Operate { transaction, .. } => &*transaction.then,
        _ => &[],
    });
    let written: Vec<_> = written
        .filter_map(|step| match step {
            Step::Put { value, .. } => Value::decode(value).map(|value| value.serial),
            _ => None,
        })
        .collect();
    assert_eq!(written, [machine.shared.table().serial(held)]);
    assert_eq!(written, [machine.made]);
}

#[test]
fn a_lock_that_is_stolen_after_the_end_of_its_lease_was_lost_with_the_lease() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.now += TIME_TO_LIVE;
    clock::simulation::to(machine.now);
    machine.report(7, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.report(8, &[(1, Phase::Owned, None), (3, Phase::Held, Some(8))]);
    assert_eq!(machine.lost(held), Some(Lost::Disconnected));
}

#[test]
fn a_thief_finds_those_robbed_whom_only_its_own_machine_knows() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    let name = (0, NameKey::new(&of("db")));
    // It is no longer certain that the connection owns the name, so the thief's request goes to
    // the store.
    machine.shared.table().close(&name);
    let (thief, serial) = machine.call(agent, RequestKind::Steal);
    machine.keeper.handle_message(Message::Request {
        bucket: 0,
        serial,
        id: thief,
        name: NameKey::new(&of("db")),
    });
    let owned = BucketKeys::new("n", "b").name(&name.1).owned(1);
    for call in machine.calls() {
        let Call::Operate { of, .. } = call else { continue };
        let results = vec![StepResult::Deleted(vec![owned.clone()])];
        let answer = Answer { revision: 7, cluster: 1, succeeded: true, results };
        machine.keeper.handle_done(Done::Operated(of, Ok(answer)));
    }
    assert!(matches!(machine.shared.table().status(thief), Status::Held(_)));
    assert_eq!(machine.lost(held), Some(Lost::Stolen));
}

#[test]
fn an_owner_is_waited_for_from_when_it_is_seen_to_be_asked() {
    let mut machine = Machine::new();
    let value = ownership::owning(2, (LEASE, TIME_TO_LIVE), 0, "").value;
    let key = BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(2);
    let seen = |written, mark| {
        let value = Value::marked(&value, mark);
        KeyValue { key: key.clone(), value, made: 5, written, lease: LEASE }
    };
    let mut asked = |written, mark| {
        machine.now += Duration::from_secs(3);
        clock::simulation::to(machine.now);
        machine.keeper.note_asked(&seen(written, mark)).seen.elapsed()
    };
    assert_eq!(asked(5, 0), Duration::ZERO);
    assert_eq!(asked(5, 0), Duration::ZERO, "nobody has asked it");
    for (written, mark) in [(6, 3), (7, 5), (9, 5)] {
        assert_eq!(asked(written, mark), Duration::ZERO, "it is another question");
        assert_eq!(asked(written, mark), Duration::from_secs(3));
        assert_eq!(asked(written, mark), Duration::from_secs(6));
    }
}

#[test]
fn a_name_of_which_no_more_can_be_granted_is_given_up_for_who_asks_next() {
    for kind in [RequestKind::Wait(Mode::Exclusive), RequestKind::IfAvailable(Mode::Exclusive)] {
        let (mut machine, agent) = owner();
        machine.calls();
        machine.shared.table().close(&(0, NameKey::new(&of("db"))));
        let (id, serial) = machine.make(agent, "db", kind);
        let here = machine.shared.table().take_here(id);
        assert!(
            matches!(here, None | Some(crate::table::LocalOutcome::Waits { is_known: false })),
            "the thread is not told of it"
        );
        machine.keeper.handle_message(Message::Request {
            bucket: 0,
            serial,
            id,
            name: NameKey::new(&of("db")),
        });
        let gives_up = |call: &Call| match call {
            Call::Operate { of, .. } => matches!(of.operation, Operation::Leave(_)),
            _ => false,
        };
        assert!(machine.calls().iter().any(gives_up), "{kind:?}");
    }
}

/// The key by which another connection owns the name, which it is asked for with this mark.
fn owned_with(mark: u64) -> KeyValue {
    let owned = owned_by_another();
    KeyValue { value: Value::marked(&owned.value, mark), ..owned }
}

impl Machine {
    /// Has the next try of a theft find this owner key. Returns the transaction of the try.
    fn steal(&mut self, owned: Option<KeyValue>) -> Transaction {
        let calls = self.calls();
        for call in calls {
            let (of, transaction) = match call {
                Call::Operate { of, transaction, .. } => (of, transaction),
                Call::Pause { of, .. } => {
                    self.keeper.handle_done(Done::Paused(of));
                    return self.steal(owned);
                }
                _ => continue,
            };
            let results = vec![StepResult::First(owned.map(Box::new))];
            let answer = Answer { revision: MADE + 1, cluster: 1, succeeded: false, results };
            self.keeper.handle_done(Done::Operated(of, Ok(answer)));
            return transaction;
        }
        panic!("it gives up");
    }
}

#[test]
fn a_thief_robs_one_term_after_it_has_seen_the_owner_asked_and_robs_nobody_else() {
    let mut machine = Machine::new();
    let (agent, serial) = machine.open_agent(1);
    machine.take(agent, "another", MADE - 1);
    let (id, _) = machine.call(agent, RequestKind::Steal);
    let name = NameKey::new(&of("db"));
    machine.keeper.handle_message(Message::Request { bucket: 0, serial, id, name });
    let robs = |tried: &Transaction| matches!(tried.when[..], [Check::MadeIn(..), ..]);
    assert!(!robs(&machine.steal(Some(owned_with(0)))));
    let asks = machine.steal(Some(owned_with(5)));
    assert!(matches!(&asks.or_else[0], Step::Within(mark) if mark.then.len() == 2), "{asks:?}");
    for _ in 0..4 {
        machine.pass(Duration::from_millis(14_999));
        assert!(!robs(&machine.steal(Some(owned_with(5)))));
    }
    machine.pass(Duration::from_millis(4));
    assert!(!robs(&machine.steal(Some(owned_with(5)))), "it was sent before that");
    let robbing = machine.steal(None);
    assert_eq!(robbing.when[0], Check::MadeIn(owned_with(5).key, MADE));
    // Whoever owned the name has given it up, and another one may own it.
    assert!(!robs(&machine.steal(Some(owned_with(0)))));
    assert!(!robs(&machine.steal(Some(owned_with(5)))));
}

/// The key of the name that the machine owns.
fn owner_key() -> KeyValue {
    let value = ownership::owning(1, (OWN, TIME_TO_LIVE), 0, "").value;
    let key = BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(1);
    KeyValue { key, value, made: 6, written: 6, lease: OWN }
}

#[test]
fn a_query_is_of_the_last_revision_that_was_heard_of_before_what_only_its_owner_knows() {
    let (mut machine, agent) = owner();
    machine.take_own(agent);
    machine.calls();
    let (answer, mut answered) = oneshot::channel();
    let (bucket, name, most, asks) = (0, None, 10, Asks::Owners);
    machine.keeper.handle_message(Message::Query { bucket, name, most, asks, answer });
    let mut listed_at = |revision| {
        let lists = |call| match call {
            Call::List { of, known, at, .. } => Some((of, known, at)),
            _ => None,
        };
        let (of, known, at) = machine.calls().into_iter().find_map(lists).expect("it lists");
        // What is heard of now may have had consequences for what the table says.
        machine.keeper.history.heard(9);
        let found = vec![owner_key()];
        let listing = Listing { revision, cluster: 1, found, left_out: 0 };
        machine.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
        at
    };
    assert_eq!([listed_at(6), listed_at(9)], [0, 9]);
    let seen = answered.try_recv().expect("it is answered").unwrap();
    assert_eq!(seen.held.len(), 1);
    assert_eq!(seen.held[0].inspected.fencing_token, Some(crate::tokens::counted(6, 1)));
}

#[test]
fn a_looker_is_answered_although_a_name_was_lost_with_a_lease_that_others_still_see() {
    let (mut machine, agent) = owner();
    machine.take_own(agent);
    machine.calls();
    machine.keeper.handle_news(News::Lease { lease: OWN, word: LeaseEvent::Gone });
    let owned = owner_key();
    let list = |machine: &mut Machine| {
        for call in machine.calls() {
            let Call::List { of, known, .. } = call else { continue };
            let found = vec![owned.clone()];
            let listing = Listing { revision: 6, cluster: 1, found, left_out: 0 };
            machine.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
        }
    };
    list(&mut machine);
    assert!(machine.keeper.leases.is_expiring(OWN));
    let (answer, mut answered) = oneshot::channel();
    machine.keeper.handle_message(Message::Query {
        bucket: 0,
        name: None,
        most: 10,
        asks: Asks::Owners,
        answer,
    });
    list(&mut machine);
    let seen = answered.try_recv().expect("it is answered").unwrap();
    // The work under the lost lease may not have ended, so the lock is still shown as held.
    assert_eq!(seen.held.len(), 1);
    assert_eq!(seen.held[0].inspected.fencing_token, Some(token(6)));
}

#[test]
fn a_name_that_could_not_be_given_up_before_its_lease_was_lost_is_not_kept_under_the_next() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.leave();
    let leaves = |call: Call| match call {
        Call::Operate { of, .. } if matches!(of.operation, Operation::Leave(_)) => Some(of),
        _ => None,
    };
    let given_up = machine.calls().into_iter().find_map(leaves).expect("it is to be written");
    for _ in 0..2 {
        machine.keeper.handle_news(News::Lease { lease: OWN, word: LeaseEvent::Gone });
    }
    assert_eq!(machine.lost(held), Some(Lost::Disconnected));
    let next = machine.agent(2);
    machine.request(next, "another");
    let (lease, sent) = (LeaseName { cluster: 1, id: OWN + 1 }, Uptime::now_at(machine.now));
    machine
        .keeper
        .handle_done(Done::Leased(Ok((lease, Renewal { sent, time_to_live: TIME_TO_LIVE }))));
    let refused = Failure::Refused(navlock_core::Error::refused("too large"));
    machine.keeper.handle_done(Done::Operated(given_up, Err(refused)));
    assert_eq!(machine.usage(), None);
}

#[test]
fn a_request_for_an_owned_name_can_be_finished_after_the_connection_is_gone() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    let (waits, _) = machine.call(agent, RequestKind::Wait(Mode::Exclusive));
    let mut table = machine.shared.table();
    table.orphan();
    table.finish(waits);
    table.finish(held);
    assert_eq!(table.status(held), Status::Absent);
}

/// Releases this lock. With this release, the connection is to own the name. Returns the operation
/// that is to be sent to the store for this.
pub(super) fn owning_by(machine: &mut Machine, held: RequestId) -> Operated {
    let finished = machine.shared.table().finish(held).and_then(|ending| ending.finished);
    machine.keeper.handle_message(Message::Finish { id: held, finished: finished.unwrap() });
    let owns = |call: Call| match call {
        Call::Operate { of, .. } if matches!(of.operation, Operation::Own(..)) => Some(of),
        _ => None,
    };
    machine.calls().into_iter().find_map(owns).expect("it is to be its own")
}

/// Whether a waiting request is written again if the first try to own its name was not answered and the
/// next try finds the lock's key created in this revision, or finds no key.
fn asks_anew_if_the_next_try_finds(lock: Option<i64>) -> bool {
    let mut machine = Machine::new();
    machine.keeper.options.taken = 1;
    let (agent, _) = machine.open_agent(1);
    let (held, _) = machine.take(agent, "db", 5);
    let serial = machine.shared.table().agent(agent).unwrap();
    machine.request(serial, "db");
    for call in machine.calls() {
        let Call::Operate { of, .. } = call else { continue };
        let results = vec![StepResult::Done];
        let answer = Answer { revision: 6, cluster: 1, succeeded: false, results };
        machine.keeper.handle_done(Done::Operated(of, Ok(answer)));
    }
    let own = owning_by(&mut machine, held);
    machine.keeper.handle_done(Done::Operated(own, Err(Failure::unknown("lost"))));
    let mut calls = machine.calls();
    let Some(Call::Pause { of, .. }) = calls.pop() else { panic!("{calls:?}") };
    machine.keeper.handle_done(Done::Paused(of));
    let mut calls = machine.calls();
    let Some(Call::Operate { of, .. }) = calls.pop() else { panic!("{calls:?}") };
    let results = vec![StepResult::Got(lock), StepResult::Done, StepResult::Got(None)];
    let answer = Answer { revision: 8, cluster: 1, succeeded: false, results };
    machine.keeper.handle_done(Done::Operated(of, Ok(answer)));
    let asks = |call: &Call| match call {
        Call::Operate { of, .. } => matches!(of.operation, Operation::Request(_)),
        _ => false,
    };
    machine.calls().iter().any(asks)
}

#[test]
fn a_waiter_keeps_its_place_if_a_try_to_own_the_name_was_not_done() {
    assert!(asks_anew_if_the_next_try_finds(None), "all that waited may be gone");
    assert!(!asks_anew_if_the_next_try_finds(Some(5)));
}

/// The keys that are deleted when a connection is told that it owns a name, if it has heard this `meanwhile`.
fn deleted_when_owned(meanwhile: impl FnOnce(&mut Machine)) -> Vec<Vec<u8>> {
    let mut machine = Machine::new();
    machine.keeper.options.taken = 1;
    let (agent, _) = machine.open_agent(1);
    let (held, _) = machine.take(agent, "db", 5);
    let owning = owning_by(&mut machine, held);
    meanwhile(&mut machine);
    let answer = Answer { revision: 6, cluster: 1, succeeded: true, results: Vec::new() };
    machine.keeper.handle_done(Done::Operated(owning, Ok(answer)));
    let deleted = deleted(&machine.calls());
    assert_eq!(machine.usage().is_none(), !deleted.is_empty(), "it is its own still");
    deleted
}

fn owner_key_of_ours() -> Vec<u8> {
    BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(1)
}

#[test]
fn a_name_that_becomes_ones_own_while_the_connection_ends_or_others_want_it_is_given_up() {
    let given_up = [owner_key_of_ours(), BucketKeys::asked(&owner_key_of_ours())];
    assert_eq!(deleted_when_owned(|_| {}), [] as [Vec<u8>; 0]);
    assert_eq!(deleted_when_owned(|machine| machine.keeper.quit()), given_up);
    assert_eq!(deleted_when_owned(|it| it.keeper.heed_mailbox(&given_up[..1])), given_up);
}
