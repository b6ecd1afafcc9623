//! Tests of names that are being listed.

use super::*;

/// A key of this connection, as a list shows it. The key was created in revision 5.
fn listed(slot: u64, phase: Phase) -> KeyValue {
    let request = RequestKey { owner: 1, slot };
    let name = BucketKeys::new("n", "b").name(&NameKey::new(&of("db")));
    let key = name.request(phase, Mode::Exclusive, request);
    let value = ownership::owning(1, (OWN, TIME_TO_LIVE), 0, "").value;
    KeyValue { key, value, made: 5, written: 5, lease: OWN }
}

/// The events by which a request becomes a lock.
fn granted(slot: u64, revision: i64) -> [Event; 2] {
    let request = RequestKey { owner: 1, slot };
    let lock = told(request, Phase::Held, revision, Some(revision));
    [told(request, Phase::Queued, revision, None), lock]
}

#[test]
fn a_grant_of_a_name_that_is_being_listed_does_not_wait_for_the_list() {
    let mut machine = Machine::new();
    let (waits, list) = machine.ask(RequestKind::Wait(Mode::Exclusive), false);
    machine.report(6, &[(3, Phase::Owned, None)]);
    assert_eq!(machine.shared.table().status(waits), Status::Pending(5));
    machine.report_events(granted(0, 7).into());
    assert_eq!(machine.shared.table().status(waits), Status::Held(Grant::at(7)));
    // The list is older than the grant.
    let (of, known) = list.expect("it is being listed");
    let listing = Listing { revision: 5, cluster: 1, found: Vec::new(), left_out: 0 };
    machine.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
    assert_eq!(machine.shared.table().status(waits), Status::Held(Grant::at(7)));
}

#[test]
fn a_grant_after_a_theft_is_told_no_sooner_than_the_loss_is_told_to_the_victim() {
    let mut machine = Machine::new();
    let (robbed, list) = machine.ask(RequestKind::Steal, true);
    assert!(matches!(machine.shared.table().status(robbed), Status::Held(_)));
    let (waits, _) = machine.ask(RequestKind::Wait(Mode::Exclusive), false);
    let thief = RequestKey { owner: 3, slot: 0 };
    machine.report_events(vec![
        told(RequestKey { owner: 1, slot: 0 }, Phase::Held, 6, None),
        told(thief, Phase::Held, 6, Some(6)),
    ]);
    let [asked, lock] = granted(1, 7);
    machine.report_events(vec![told(thief, Phase::Held, 7, None), asked, lock]);
    assert_eq!(machine.lost(robbed), None);
    assert_eq!(machine.shared.table().status(waits), Status::Pending(5));
    let (of, known) = list.expect("it is being listed");
    let found = vec![listed(0, Phase::Held), listed(1, Phase::Queued)];
    let listing = Listing { revision: 5, cluster: 1, found, left_out: 0 };
    machine.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
    assert_eq!(machine.lost(robbed), Some(Lost::Stolen));
    assert_eq!(machine.shared.table().status(waits), Status::Held(Grant::at(7)));
}

#[test]
fn nobody_is_granted_a_name_that_is_being_listed_beside_one_who_was_granted_and_robbed_in_the_same_breath()
 {
    let mut machine = Machine::new();
    let (first, list) = machine.ask(RequestKind::Wait(Mode::Exclusive), false);
    let (second, _) = machine.ask(RequestKind::Wait(Mode::Exclusive), false);
    let thief = RequestKey { owner: 3, slot: 0 };
    let is_gone = told(RequestKey { owner: 1, slot: 0 }, Phase::Held, 8, None);
    let mut events = Vec::from(granted(0, 7));
    events.extend([is_gone, told(thief, Phase::Held, 8, Some(8))]);
    events.push(told(thief, Phase::Held, 9, None));
    events.extend(granted(1, 9));
    machine.report_events(events);
    assert_eq!(machine.shared.table().status(first), Status::Held(Grant::at(7)));
    assert_eq!(machine.shared.table().status(second), Status::Pending(5));
    let (of, known) = list.expect("it is being listed");
    let found = vec![listed(0, Phase::Queued), listed(1, Phase::Queued)];
    let listing = Listing { revision: 5, cluster: 1, found, left_out: 0 };
    machine.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
    assert_eq!(machine.lost(first), Some(Lost::Stolen));
    assert_eq!(machine.shared.table().status(second), Status::Held(Grant::at(9)));
}
