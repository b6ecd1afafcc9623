//! Tests of which names are watched.

use super::*;

/// The revisions from which these calls begin watches, how many watches they end, and how many
/// lists they ask for.
pub(super) fn watched(calls: &[Call]) -> (Vec<Option<i64>>, usize, usize) {
    let begin = calls.iter().filter_map(|call| match call {
        Call::Watch { from, .. } => Some(*from),
        _ => None,
    });
    let end = calls.iter().filter(|call| matches!(call, Call::Unwatch { .. })).count();
    let lists = calls.iter().filter(|call| matches!(call, Call::List { .. })).count();
    (begin.collect(), end, lists)
}

#[test]
fn a_machine_watches_a_free_name_from_its_grant_on_and_for_a_while_after_its_use() {
    let mut machine = Machine::new();
    let (agent, _) = machine.open_agent(1);
    let (held, calls) = machine.take(agent, "db", 5);
    assert_eq!(watched(&calls), (vec![Some(6)], 0, 0));
    // The name stays watched, however long the lock is held.
    for _ in 0..2 {
        machine.pass(UNUSED);
        assert_eq!(watched(&machine.calls()), (vec![], 0, 0));
    }
    let calls = machine.release(held, 7);
    assert_eq!(watched(&calls), (vec![], 0, 0));
    // Somebody uses the name again.
    machine.pass(UNUSED / 2);
    let (held, calls) = machine.take(agent, "db", 8);
    assert_eq!(watched(&calls), (vec![], 0, 0));
    let mut calls = machine.release(held, 9);
    machine.pass(CLEANUP);
    machine.pass(UNUSED.saturating_sub(CLEANUP));
    calls.extend(machine.calls());
    assert_eq!(watched(&calls), (vec![], 0, 0));
    machine.pass(CLEANUP);
    assert_eq!(watched(&machine.calls()), (vec![], 1, 0));
    assert!(machine.keeper.watches.is_empty());
    // Much later, somebody uses the name once more.
    let (_, calls) = machine.take(agent, "db", 20);
    assert_eq!(watched(&calls), (vec![Some(21)], 0, 0));
}

#[test]
fn of_names_that_nobody_uses_a_thousand_are_watched_at_most() {
    let mut machine = Machine::new();
    let (agent, _) = machine.open_agent(1);
    let (kept, _) = machine.take(agent, "kept", 1);
    for nth in 0..1200 {
        let (held, _) = machine.take(agent, &format!("name-{nth}"), 2 + 2 * nth);
        machine.release(held, 3 + 2 * nth);
    }
    machine.pass(CLEANUP);
    assert_eq!(watched(&machine.calls()).1, 200);
    assert_eq!(machine.keeper.watches.len(), 1001);
    machine.release(kept, 3000);
}
