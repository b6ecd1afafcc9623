//! Tests of what agents hold under leases of other connections, and of what agents say of
//! themselves.

use super::*;

#[test]
fn a_lease_of_others_that_cannot_be_renewed_in_time_is_not_ended() {
    let mut machine = Machine::new();
    let comes = machine.agent(1);
    let mut answered = machine.reclaim(comes, "comes");
    let (ours, theirs) = (lock("comes", 1), lock("comes later", 2));
    let calls = machine.listed(&[ours.clone(), theirs.clone()]);
    let is_asked = |call: &Call| matches!(call, Call::Lease(LeaseCall::Keep { lease: LEASE, .. }));
    assert!(calls.iter().any(is_asked), "{calls:?}");
    let tickets = answered.try_recv().unwrap();
    let ticket = tickets[0].expect("it is there");
    // The store is away for longer than the one who speaks for the agents lets them wait.
    let mut calls = Vec::new();
    for _ in 0..60 {
        machine.pass(Duration::from_millis(200));
        calls.extend(machine.calls());
    }
    assert_eq!(machine.shared.table().status(ticket.id), Status::Ended);
    let is_let_go = |call: &Call| matches!(call, Call::Lease(LeaseCall::LetGo { lease: LEASE }));
    assert!(calls.iter().any(is_let_go), "{calls:?}");
    // The lease is not ended: an agent that has not come back yet holds a lock under it, and
    // another renewal of the lease may last longer.
    let ends = |call: &Call| matches!(call, Call::Lease(LeaseCall::Revoke { lease: LEASE }));
    assert!(!calls.iter().any(ends), "{calls:?}");
    // The locks of agents that have come back are not deleted either, because the work under these
    // locks has not ended yet.
    assert_eq!(deleted(&calls), [] as [&[u8]; 0]);
    // The other agent comes back in time.
    let late = machine.agent(2);
    let mut answered = machine.reclaim(late, "comes later");
    machine.listed(&[theirs]);
    assert!(answered.try_recv().unwrap()[0].is_some());
    let mut calls = Vec::new();
    while !deleted(&calls).contains(&ours.key) {
        assert!(machine.now < Duration::from_secs(1000) + 2 * TIME_TO_LIVE, "{calls:?}");
        machine.pass(Duration::from_millis(200));
        calls.extend(machine.calls());
    }
    assert!(machine.now >= Duration::from_secs(1000) + TIME_TO_LIVE * 9 / 10);
    assert!(!calls.iter().any(ends), "{calls:?}");
}

/// How many of these calls write what agents say of themselves.
fn descriptions(calls: &[Call]) -> usize {
    calls.iter().filter(|call| matches!(call, Call::Describe { .. })).count()
}

#[test]
fn a_description_of_an_agent_is_written_once_at_a_time_and_ever_more_rarely() {
    let mut machine = Machine::new();
    let serial = machine.agent(1);
    let mut answered = machine.reclaim(serial, "db");
    machine.listed(&[lock("db", 1)]);
    answered.try_recv().unwrap()[0].expect("it is there");
    let mut info = AgentInfo::default();
    info.pid = 1;
    // This renews the lease, as the store goes on doing.
    let live = |machine: &mut Machine| {
        let sent = Uptime::now_at(machine.now);
        let word = LeaseEvent::Renewed(Renewal { sent, time_to_live: TIME_TO_LIVE }, Vec::new());
        machine.keeper.handle_news(News::Lease { lease: LEASE, word });
    };
    live(&mut machine);
    machine.keeper.handle_message(Message::Describe { serial, info });
    // For a minute, the first description has been sent but not answered.
    let mut count = 0;
    for _ in 0..300 {
        machine.pass(Duration::from_millis(200));
        live(&mut machine);
        count += descriptions(&machine.calls());
    }
    assert_eq!(count, 1);
    // Now each description is answered at once, and the watch shows none of them.
    machine.keeper.handle_done(Done::Described(serial));
    let mut count = 0;
    for _ in 0..300 {
        machine.pass(Duration::from_millis(200));
        live(&mut machine);
        let written = descriptions(&machine.calls());
        (0..written).for_each(|_| machine.keeper.handle_done(Done::Described(serial)));
        count += written;
    }
    assert!((5..=16).contains(&count), "{count} in a minute");
}

#[test]
fn a_lock_that_is_being_removed_unclaimed_is_not_given_to_a_late_agent() {
    let mut machine = Machine::new();
    let comes = machine.agent(1);
    let mut answered = machine.reclaim(comes, "comes");
    let (ours, theirs) = (lock("comes", 1), lock("stays away", 2));
    machine.listed(&[ours.clone(), theirs.clone()]);
    assert!(answered.try_recv().unwrap()[0].is_some());
    let under = || Done::Under(LEASE, Why::Sweep, Ok(vec![ours.key.clone(), theirs.key.clone()]));
    machine.keeper.handle_done(under());
    assert_eq!(deleted(&machine.calls()), [&*theirs.key]);
    // The deletion is on its way, and the mirror still shows the key.
    let late = machine.agent(2);
    let mut answered = machine.reclaim(late, "stays away");
    let calls = machine.listed(&[ours.clone(), theirs.clone()]);
    assert_eq!(answered.try_recv().unwrap(), [None]);
    assert!(!deleted(&calls).contains(&ours.key));
    // If the deletion has failed, the key is removed at the next sweep.
    machine.keeper.handle_done(under());
    assert_eq!(deleted(&machine.calls()), [&*theirs.key]);
}

#[test]
fn an_agent_that_gives_up_its_reclaim_takes_nothing_from_others() {
    let mut machine = Machine::new();
    let (gives_up, other) = (machine.agent(1), machine.agent(2));
    drop(machine.reclaim(gives_up, "db"));
    let ours = lock("db", 1);
    assert_eq!(deleted(&machine.listed(std::slice::from_ref(&ours)))[0], ours.key);
    // The agent that has given up requests another name, and another agent requests a name too.
    let asked = [machine.request(other, "a"), machine.request(gives_up, "b")];
    let is_lease = |call: &Call| matches!(call, Call::Lease(LeaseCall::Begin { .. }));
    assert!(machine.calls().iter().any(is_lease));
    let renewal = Renewal { sent: Uptime::now(), time_to_live: TIME_TO_LIVE };
    machine.keeper.handle_done(Done::Leased(Ok((LeaseName { cluster: 1, id: 9 }, renewal))));
    let again = machine.request(gives_up, "c");
    let calls = machine.calls();
    let goes = |call: &Call| {
        matches!(call, Call::Lease(LeaseCall::LetGo { .. } | LeaseCall::Revoke { .. }))
    };
    assert!(!calls.iter().any(goes), "{calls:?}");
    let writes = calls.iter().filter(|call| matches!(call, Call::Operate { .. })).count();
    assert_eq!(writes, asked.len() + 1, "{again:?}: {calls:?}");
    // The lock that the agent gave up is forgotten.
    let ended = machine.shared.table().terminate(machine.keeper.leases.agents[&gives_up].id).ended;
    assert_eq!(ended.len(), 2);
}
