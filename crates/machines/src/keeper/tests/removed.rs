//! Tests of owned names whose keys were removed.

use super::*;

#[test]
fn a_name_whose_key_was_removed_is_not_said_to_be_stolen_once_somebody_else_has_it() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.report(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.report(7, &[(1, Phase::Owned, None)]);
    machine.report(8, &[(3, Phase::Held, Some(8))]);
    assert_eq!(machine.lost(held), None);
    machine.pass(Duration::from_secs(1));
    machine.pass(Duration::from_secs(1));
    assert_eq!(machine.lost(held), Some(Lost::Removed));
}

#[test]
fn a_name_whose_key_was_removed_is_looked_after_once() {
    let (mut machine, agent) = owner();
    machine.take_own(agent);
    machine.report(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.calls();
    machine.report(7, &[(1, Phase::Owned, None)]);
    let is_renewed = |call: &Call| matches!(call, Call::Lease(LeaseCall::Renew { lease: OWN }));
    let calls = machine.calls();
    assert!(calls.iter().any(is_renewed), "{calls:?}");
    // Its keep-alive goes on: if that began anew with each key that goes, the lease might never be
    // renewed.
    assert!(
        !calls.iter().any(|call| matches!(call, Call::Lease(LeaseCall::Keep { .. }))),
        "{calls:?}"
    );
    for revision in 8..12 {
        machine.report(revision, &[(3, Phase::Queued, Some(revision))]);
        let calls = machine.calls();
        assert!(!calls.iter().any(is_renewed), "{calls:?}");
    }
}

#[test]
fn a_name_that_is_ones_own_again_is_not_lost_for_what_became_of_it_before() {
    let (mut machine, agent) = owner();
    machine.report(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.report(7, &[(1, Phase::Owned, None)]);
    // It is not known yet whether the store still keeps the lease.
    machine.leave();
    machine.answered(8);
    let mut revision = 9;
    while machine.usage().is_none() {
        assert!(revision < 30, "it is never its own again");
        let (held, _) = machine.take(agent, "db", revision);
        machine.report(revision, &[(1, Phase::Held, Some(revision))]);
        machine.release(held, revision + 1);
        if machine.usage().is_none() {
            machine.report(revision + 1, &[(1, Phase::Held, None)]);
        }
        revision += 2;
    }
    let held = machine.take_own(agent);
    machine.pass(Duration::from_secs(1));
    machine.pass(Duration::from_secs(1));
    assert_eq!(machine.lost(held), None);
    assert!(machine.usage().is_some());
}
