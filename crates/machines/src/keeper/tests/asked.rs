//! Tests of names that others ask for by the mailbox of the connection that owns them.

use super::{owned::owning_by, *};
use crate::load::Turn;

impl Machine {
    /// Lets time pass until this long after the first renewal.
    fn wait_until(&mut self, since: Duration) {
        self.now = BEGIN + since;
        clock::simulation::to(self.now);
    }

    /// Lets time pass in the same way. Then the lease is renewed, and this stands in the mailbox.
    fn reads(&mut self, since: Duration, found: Vec<Vec<u8>>) {
        self.wait_until(since);
        let renewal = Renewal { sent: Uptime::now_at(self.now), time_to_live: TIME_TO_LIVE };
        let word = LeaseEvent::Renewed(renewal, found);
        self.keeper.handle_news(News::Lease { lease: OWN, word });
        self.keeper.handle_tick();
    }

    /// The write by which the name is to be given up, and whether it waits for other calls.
    fn leaves(&mut self) -> (Operated, Turn) {
        let leaves = |call: Call| match call {
            Call::Operate { of, turn, .. } => {
                matches!(of.operation, Operation::Leave(_)).then_some((of, turn))
            }
            _ => None,
        };
        self.calls().into_iter().find_map(leaves).expect("it is given up")
    }

    fn is_over(&self, id: RequestId) -> bool {
        self.shared.table().state(id).is_some_and(|(_, is_over)| is_over)
    }
}

/// The moment of the first renewal.
const BEGIN: Duration = Duration::from_secs(1000);

/// When the term of that renewal ends for a holder: after the time to live less the margin and the drift of
/// clocks.
const END: Duration = Duration::from_millis(57_970);

fn asked() -> Vec<Vec<u8>> {
    vec![BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(1)]
}

/// A machine that was asked for a name, of which it holds the lock, half a minute after its lease was renewed
/// last; and the write by which it gives the name up.
fn asked_for() -> (Machine, RequestId, Operated) {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.reads(Duration::ZERO, Vec::new());
    machine.calls();
    machine.reads(TIME_TO_LIVE / 2, asked());
    let (leaving, turn) = machine.leaves();
    assert!(matches!(turn, Turn::Passes), "what is held depends on it");
    (machine, held, leaving)
}

#[test]
fn a_lock_of_a_name_that_cannot_be_given_up_is_lost_before_its_thief_can_have_it() {
    let (mut machine, held, _) = asked_for();
    machine.reads(Duration::from_millis(57_969), asked());
    assert!(!machine.is_over(held));
    // A caller need not wait for a tick.
    machine.wait_until(END);
    assert!(machine.is_over(held));
    machine.reads(TIME_TO_LIVE, asked());
    assert_eq!(machine.lost(held), Some(Lost::Disconnected));
}

#[test]
fn a_lock_of_a_name_that_was_given_up_in_time_is_kept() {
    let (mut machine, held, leaving) = asked_for();
    let answer = Answer { revision: 7, cluster: 1, succeeded: true, results: Vec::new() };
    machine.keeper.handle_done(Done::Operated(leaving, Ok(answer)));
    machine.reads(END, asked());
    assert!(!machine.is_over(held));
    assert!(matches!(machine.shared.table().status(held), Status::Held(_)));
}

#[test]
fn what_is_written_too_late_is_removed_when_the_work_under_it_has_ended() {
    let (mut machine, held, leaving) = asked_for();
    machine.reads(END, asked());
    let answer = Answer { revision: 7, cluster: 1, succeeded: true, results: Vec::new() };
    machine.keeper.handle_done(Done::Operated(leaving, Ok(answer)));
    machine.report(7, &[(1, Phase::Owned, None), (1, Phase::Held, Some(7))]);
    assert!(machine.is_over(held), "it was told to be lost");
    machine.calls();
    machine.reads(Duration::from_millis(59_900), asked());
    let looks = |call: &Call| matches!(call, Call::List { .. });
    assert!(!machine.calls().iter().any(looks));
    machine.reads(TIME_TO_LIVE, asked());
    assert_eq!(machine.lost(held), Some(Lost::Disconnected));
    assert!(machine.calls().iter().any(looks));
}

#[test]
fn an_owner_that_the_store_does_not_let_write_what_is_held_loses_it() {
    let (mut machine, held, mut leaving) = asked_for();
    for since in [Duration::from_secs(50), END] {
        let full = Failure::Refused(navlock_core::Error::refused("full"));
        machine.keeper.handle_done(Done::Operated(leaving, Err(full)));
        assert!(machine.usage().is_some() && !machine.is_over(held), "it is kept");
        // It is to be given up again.
        machine.reads(since, asked());
        leaving = machine.leaves().0;
    }
    assert!(machine.is_over(held));
    let full = Failure::Refused(navlock_core::Error::refused("full"));
    machine.keeper.handle_done(Done::Operated(leaving, Err(full)));
    machine.keeper.handle_tick();
    assert_eq!((machine.lost(held), machine.usage()), (Some(Lost::Disconnected), None));
}

#[test]
fn a_name_that_nobody_asks_for_is_given_up_in_its_turn() {
    let (mut machine, _) = owner();
    machine.leave();
    assert!(matches!(machine.leaves().1, Turn::Waits));
}

#[test]
fn a_name_that_becomes_ones_own_when_a_thief_may_have_it_is_granted_to_nobody() {
    let mut machine = Machine::new();
    machine.keeper.options.taken = 1;
    let (agent, serial) = machine.open_agent(1);
    let (held, _) = machine.take(agent, "db", 5);
    machine.reads(Duration::ZERO, Vec::new());
    let owning = owning_by(&mut machine, held);
    let waits = machine.request(serial, "db");
    for since in [TIME_TO_LIVE / 2, END] {
        machine.reads(since, asked());
    }
    let answer = Answer { revision: 6, cluster: 1, succeeded: true, results: Vec::new() };
    machine.keeper.handle_done(Done::Operated(owning, Ok(answer)));
    assert!(matches!(machine.shared.table().status(waits), Status::Pending(_)));
    assert_eq!(machine.usage(), None);
}
