//! Histories that were wrong once, or could be, step by step.

use navlock_core::{Mode, host::RequestKind};

use super::{
    super::READ_SIZE,
    plan::{ClientPlan, Death, Plan, Step},
    run,
};

const SHARE: RequestKind = RequestKind::Wait(Mode::Shared);
const TAKE: RequestKind = RequestKind::Wait(Mode::Exclusive);
const TURN: Step = Step::Turn { meanwhile: 0 };

/// The history of these steps, with so many clients and without faults.
fn plain(clients: usize, steps: Vec<Step>) -> Plan {
    let client = ClientPlan { ahead: 0, clock_is_known: true, room: 1 << 16, in_pieces: false };
    let [delegates, maps, kills, breaks, is_hasty, looks, interrupts] = [false; 7];
    Plan {
        clients: vec![client; clients],
        buffer: READ_SIZE,
        delegates,
        maps,
        kills,
        breaks,
        is_hasty,
        looks,
        interrupts,
        seed: 0,
        steps,
    }
}

/// The same where clients own names, and the broker is killed.
fn killed(clients: usize, steps: Vec<Step>) -> Plan {
    Plan { delegates: true, maps: true, kills: true, ..plain(clients, steps) }
}

/// Asserts that this history is right.
#[track_caller]
fn assert_right(plan: &Plan) {
    match run(plan) {
        Ok(right) => assert!(right.is_decided),
        Err(failure) => panic!("{}\n{}", failure.why, failure.history.words.join("\n")),
    }
}

fn ask(client: usize, name: usize, kind: RequestKind) -> Step {
    Step::Request { client, agent: 0, name, kind }
}

fn send(client: usize, bytes: usize) -> Step {
    Step::Send { client, bytes }
}

#[test]
fn who_is_robbed_is_told_before_a_thief_that_has_said_something_before_or_robs_itself_as_well() {
    let steal = RequestKind::Steal;
    assert_right(&plain(2, vec![ask(0, 0, steal), ask(1, 0, steal), TURN]));
    let steps = vec![ask(0, 0, SHARE), ask(1, 0, SHARE), TURN, ask(0, 0, steal), TURN];
    assert_right(&plain(2, steps));
}

/// What a client waits for when it comes back is asked for anew, behind what others have sent before.
#[test]
fn who_comes_back_is_not_before_what_others_have_sent() {
    assert_right(&plain(
        2,
        vec![
            Step::Break { client: 0 },
            TURN,
            ask(1, 1, SHARE),
            Step::Query { client: 1 },
            Step::FinishLast { client: 1 },
            send(1, usize::MAX),
            ask(0, 0, TAKE),
            Step::Return { client: 0 },
            send(0, usize::MAX),
            Step::Pass { pauses: 1 },
            TURN,
        ],
    ));
}

/// Client 1 claims slowly, and client 0 as well, which comes when the recovery goes on for the sake of client 1 alone.
#[test]
fn who_claims_too_slowly_is_hung_up_on_before_others_are_granted_what_it_holds() {
    let mut plan = killed(
        3,
        vec![
            ask(0, 0, TAKE),
            ask(1, 1, TAKE),
            send(0, usize::MAX),
            send(1, usize::MAX),
            TURN,
            TURN,
            Step::Read { client: 0, bytes: usize::MAX },
            Step::Read { client: 1, bytes: usize::MAX },
            Step::Kill,
            Step::Return { client: 2 },
            ask(2, 0, TAKE),
            Step::Pass { pauses: 30 },
            Step::Return { client: 1 },
            send(1, 40),
            Step::Pass { pauses: 20 },
            Step::Return { client: 0 },
            send(0, 40),
            Step::Pass { pauses: 40 },
        ],
    );
    plan.is_hasty = true;
    plan.clients[..2].iter_mut().for_each(|client| client.in_pieces = true);
    assert_right(&plan);
}

/// The theft is acted on when client 0 has claimed its lock, in the turn for which that waits.
#[test]
fn who_comes_back_late_and_is_robbed_meanwhile_is_told_before_the_thief() {
    assert_right(&killed(
        2,
        vec![
            ask(0, 0, TAKE),
            TURN,
            TURN,
            Step::Read { client: 0, bytes: usize::MAX },
            Step::Kill,
            Step::Return { client: 1 },
            Step::Pass { pauses: 50 },
            Step::Return { client: 0 },
            TURN,
            ask(1, 0, RequestKind::Steal),
            TURN,
            TURN,
        ],
    ));
}

/// Client 0 has not heard of the grant, which stands in its map.
#[test]
fn a_new_broker_does_not_hold_a_lock_for_a_request_that_was_ended() {
    assert_right(&killed(
        2,
        vec![
            ask(0, 0, TAKE),
            TURN,
            TURN,
            Step::Kill,
            Step::Return { client: 1 },
            Step::FinishLast { client: 0 },
            Step::Pass { pauses: 50 },
            Step::Query { client: 1 },
            TURN,
            Step::Read { client: 1, bytes: usize::MAX },
        ],
    ));
}

/// Client 0 has another agent of the same number by then.
#[test]
fn who_comes_back_late_with_other_agents_is_served() {
    assert_right(&killed(
        2,
        vec![
            ask(0, 0, TAKE),
            TURN,
            TURN,
            Step::Read { client: 0, bytes: usize::MAX },
            Step::Kill,
            Step::Return { client: 1 },
            Step::Pass { pauses: 50 },
            Step::CloseAgent { client: 0, agent: 0 },
            ask(0, 0, TAKE),
            Step::Return { client: 0 },
            TURN,
            TURN,
        ],
    ));
}

/// Client 1 robs the lock after it was released, and dies. Its death comes first in the turn, with what it has said.
#[test]
fn what_the_dead_have_said_may_come_before_what_was_sent_earlier() {
    let steal = RequestKind::Steal;
    let other = Step::Request { client: 0, agent: 1, name: 0, kind: TAKE };
    assert_right(&plain(
        2,
        vec![
            ask(0, 0, steal),
            other,
            TURN,
            Step::Request { client: 0, agent: 1, name: 0, kind: steal },
            Step::Finish { client: 0, place: 0 },
            ask(1, 0, steal),
            Step::Die { client: 1, how: Death::Stream },
            TURN,
        ],
    ));
}

/// Client 1 owns the name, and takes it itself after the thief has died. The broker reads the theft later.
#[test]
fn the_dead_rob_nobody_who_has_taken_the_lock_since() {
    let mut plan = killed(
        2,
        vec![
            ask(1, 0, TAKE),
            TURN,
            TURN,
            Step::Read { client: 1, bytes: usize::MAX },
            Step::FinishLast { client: 1 },
            ask(0, 0, RequestKind::Steal),
            Step::Die { client: 0, how: Death::Stream },
            ask(1, 0, TAKE),
            TURN,
            Step::Read { client: 1, bytes: usize::MAX },
        ],
    );
    plan.kills = false;
    assert_right(&plan);
}
