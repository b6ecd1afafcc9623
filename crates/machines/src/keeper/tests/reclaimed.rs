//! Tests of agents that reclaim a lock that only the owner of its name knew.

use super::*;

type Answered = oneshot::Receiver<Vec<Option<Ticket>>>;

/// An agent that claims locks with these numbers, names and tokens, or requests where there is no token.
fn claiming<const N: usize>(
    all: [(u64, &str, Option<navlock_engine::FencingToken>); N],
) -> (Machine, Answered) {
    let mut machine = Machine::new();
    let (serial, (answer, answered)) = (machine.agent(1), oneshot::channel());
    let kind = RequestKind::Wait(Mode::Exclusive);
    let claim = |(serial, name, token)| Claim { serial, name: of(name), kind, token };
    let claims = all.map(claim).to_vec();
    machine.keeper.handle_message(Message::Reclaim { serial, claims, answer });
    (machine, answered)
}

/// An agent reclaims a lock that only the owner of its name knew, and this lock is to be written
/// now. Returns the machine, the number of the adoption, its transaction, and the receiver of the
/// answer.
fn adoption() -> (Machine, u64, Transaction, Answered) {
    let token = Some(crate::tokens::counted(MADE, 1));
    let (mut machine, answered) = claiming([(1, "db", token)]);
    let mut adopted = adoptions(machine.listed(&[owned_by_another()]));
    let (of, transaction) = adopted.pop().expect("it is adopted");
    (machine, of, transaction, answered)
}

/// The adoptions among these calls: what is to be written for agents that come back.
fn adoptions(calls: Vec<Call>) -> Vec<(u64, Transaction)> {
    let adopts = |call: Call| match call {
        Call::Adopt { of, transaction } => Some((of, transaction)),
        _ => None,
    };
    calls.into_iter().filter_map(adopts).collect()
}

#[test]
fn a_returning_agent_finds_a_lock_that_only_an_owner_knew_although_a_list_fails() {
    let (mut machine, adoption, transaction, mut answered) = adoption();
    let [Step::Within(within)] = &*transaction.then else { panic!("{transaction:?}") };
    let Step::Put { key, value, lease } = within.then[0].clone() else { panic!("{within:?}") };
    let revision = MADE + 5;
    let within = Answer { revision, cluster: 1, succeeded: true, results: Vec::new() };
    let results = vec![StepResult::Within(within)];
    let answer = Answer { revision, cluster: 1, succeeded: true, results };
    machine.keeper.handle_done(Done::Adopted(adoption, Ok(answer)));
    for call in machine.calls() {
        let Call::List { of, known, .. } = call else { continue };
        let failure = Failure::unknown("lost");
        machine.keeper.handle_done(Done::Listed(of, known, Err(failure)));
    }
    machine.pass(Duration::from_millis(200));
    let lock = KeyValue { key, value, made: revision, written: revision, lease };
    for call in machine.calls() {
        let Call::List { of, known, .. } = call else { continue };
        let listing = Listing { revision, cluster: 1, found: vec![lock.clone()], left_out: 0 };
        machine.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
    }
    assert!(answered.try_recv().expect("it is answered")[0].is_some());
}

#[test]
fn a_failed_write_of_a_lock_for_a_returning_agent_is_tried_again_soon() {
    let (mut machine, adoption, _, mut answered) = adoption();
    let lost = || Err(Failure::unknown("lost"));
    machine.keeper.handle_done(Done::Adopted(adoption, lost()));
    assert!(adoptions(machine.listed(&[owned_by_another()])).is_empty(), "at once");
    machine.pass(Duration::from_millis(200));
    let again = adoptions(machine.listed(&[owned_by_another()]));
    assert_eq!(again.len(), 1);
    assert_eq!(answered.try_recv(), Err(oneshot::error::TryRecvError::Empty));
}

#[test]
fn a_lock_that_cannot_be_written_for_a_returning_agent_is_lost() {
    let (mut machine, adoption, _, mut answered) = adoption();
    let within = Answer { revision: 9, cluster: 1, succeeded: false, results: Vec::new() };
    let results = vec![StepResult::Within(within)];
    let answer = Answer { revision: 9, cluster: 1, succeeded: true, results };
    machine.keeper.handle_done(Done::Adopted(adoption, Ok(answer)));
    for call in machine.calls() {
        assert!(!matches!(call, Call::Adopt { .. }));
        let Call::List { of, known, .. } = call else { continue };
        let found = vec![owned_by_another()];
        let listing = Listing { revision: 9, cluster: 1, found, left_out: 0 };
        machine.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
    }
    assert!(adoptions(machine.calls()).is_empty());
    assert_eq!(answered.try_recv().expect("it is answered"), [None]);
}

#[test]
fn a_name_of_which_somebody_has_lost_a_lock_that_only_its_owner_knew_stays_until_its_lease_ends() {
    let counted = Some(crate::tokens::counted(MADE, 1));
    let written = Some(crate::tokens::token(MADE));
    let (mut machine, mut answered) = claiming([(1, "db", counted), (2, "written", written)]);
    machine.listed(&[]);
    assert_eq!(answered.try_recv().expect("it is answered"), [None, None]);
    let spared = machine.keeper.spared();
    let owned = |name: &str| BucketKeys::new("n", "b").name(&NameKey::new(&of(name))).owned(2);
    let is_spared = |name: &str| spared.iter().any(|begin| owned(name).starts_with(begin));
    assert!(is_spared("db") && !is_spared("written") && !is_spared("other"), "{spared:?}");
}

#[test]
fn a_late_agent_leaves_a_lock_that_only_an_owner_knew_until_its_lease_ends() {
    let token = Some(crate::tokens::counted(MADE, 1));
    let (mut machine, mut answered) = claiming([(1, "db", token)]);
    // Meanwhile the store does not answer.
    for _ in 0..60 {
        machine.pass(Duration::from_millis(200));
    }
    assert_eq!(answered.try_recv().expect("it is answered"), [None]);
    assert_eq!(machine.keeper.spared().len(), 1);
}

#[test]
fn a_claim_is_answered_by_the_lock_that_has_its_number_and_its_token() {
    let token = crate::tokens::token(MADE);
    let other = crate::tokens::token(MADE + 1);
    for (serial, token, is_found) in [(1, token, true), (2, token, false), (1, other, false)] {
        let (mut machine, mut answered) = claiming([(serial, "db", Some(token))]);
        machine.listed(&[lock("db", 1)]);
        let found = answered.try_recv().expect("it is answered")[0].is_some();
        assert_eq!(found, is_found, "{serial} {token}");
    }
}

#[test]
fn what_stands_under_an_earlier_lease_is_not_gone_on_with() {
    let token = Some(crate::tokens::token(MADE));
    let (mut machine, mut answered) = claiming([(1, "db", None), (1 << 20, "db", token)]);
    let keys = BucketKeys::new("n", "b").name(&NameKey::new(&of("db")));
    let request = RequestKey { owner: 2, slot: 9 };
    let key = keys.request(Phase::Queued, Mode::Exclusive, request);
    let (made, lease) = (MADE - 1, LEASE - 1);
    let earlier = KeyValue { key, made, written: made, lease, ..lock("db", 1) };
    let mut held = lock("db", 1);
    let value = Value { serial: 1 << 20, ..Value::decode(&held.value).unwrap() };
    held.value = value.encode();
    machine.listed(&[earlier, held]);
    let found = answered.try_recv().expect("it is answered");
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
}
