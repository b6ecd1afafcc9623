use std::task::Waker;

use navlock_core::{
    ClientId, Error, Lost, Mode,
    host::{RequestDetails, RequestKind},
};

use super::*;
use crate::{lease::Renewal, table::Status, times::Times};

const LONG: Duration = Duration::from_secs(3600);
const NAME: LeaseName = LeaseName { cluster: 1, id: 7 };

/// A connection with so many agents, which have the numbers from 0 on.
fn with_agents(count: u64) -> Leases<()> {
    let shared = Arc::new(Shared::new("a store"));
    let times = Times { time_to_live: LONG, timeout: LONG, margin: None };
    let mut leases = Leases::new(shared, times);
    (0..count).for_each(|_| _ = open(&mut leases));
    leases
}

/// Opens one more agent, and returns its number.
fn open(leases: &mut Leases<()>) -> AgentSerial {
    let client_id = ClientId::random();
    let (id, serial) = leases.shared.table().open_agent(0, client_id);
    leases.agents.insert(serial, Agent::new(0, id, client_id));
    serial
}

fn renewed_at(sent: Uptime) -> Renewal {
    Renewal { sent, time_to_live: LONG }
}

fn begin(leases: &mut Leases<()>, renewal: Renewal) -> bool {
    leases.begun(NAME, renewal, ClientId::random(), ())
}

fn calls(leases: &mut Leases<()>) -> Vec<LeaseCall> {
    std::iter::from_fn(|| leases.poll_call()).collect()
}

const BEGIN: LeaseCall = LeaseCall::Begin { delay: Duration::ZERO };
const LET_GO: LeaseCall = LeaseCall::LetGo { lease: NAME.id };
const REVOKE: LeaseCall = LeaseCall::Revoke { lease: NAME.id };

#[test]
fn all_agents_share_the_lease_that_one_of_them_needs() {
    let mut leases = with_agents(2);
    assert_eq!((leases.need(0), leases.need(0)), (Need::Waits, Need::Waits));
    assert_eq!(calls(&mut leases), [BEGIN]);
    assert!(begin(&mut leases, renewed_at(Uptime::now())));
    let keep = LeaseCall::Keep { lease: NAME.id, time_to_live: Some(LONG) };
    assert_eq!(calls(&mut leases), [keep]);
    assert_eq!((leases.under(NAME.id), leases.own()), (vec![0, 1], Some(NAME.id)));
    assert!(leases.over().is_empty());
}

#[test]
fn a_lease_that_nobody_waits_for_is_ended() {
    let mut leases = with_agents(1);
    assert!(!begin(&mut leases, renewed_at(Uptime::now())));
    assert_eq!(calls(&mut leases), [REVOKE]);
    // Where somebody waits and it came too late, another one is asked for.
    leases.need(0);
    assert!(!begin(
        &mut leases,
        Renewal { time_to_live: Duration::ZERO, ..renewed_at(Uptime::now()) }
    ));
    assert_eq!(calls(&mut leases), [BEGIN, REVOKE, BEGIN]);
}

#[test]
fn an_agent_that_came_while_the_lease_was_in_doubt_gets_the_next_one() {
    let mut leases = with_agents(1);
    leases.need(0);
    begin(&mut leases, renewed_at(Uptime::now()));
    leases.doubt(NAME.id);
    let serial = open(&mut leases);
    assert!(!leases.attach(serial));
    assert_eq!(leases.need(serial), Need::Waits);
    calls(&mut leases);
    let loss = leases.lose(NAME.id, Lost::Disconnected).unwrap();
    assert_eq!(loss.agents, [0]);
    assert!(leases.agents.values().all(Agent::has_no_lease));
    leases.need(serial);
    assert_eq!(calls(&mut leases), [LET_GO, BEGIN]);
}

#[test]
fn what_is_lost_is_ended_when_others_may_have_it_unless_it_was_another_connections() {
    for is_own in [true, false] {
        let mut leases = with_agents(1);
        if is_own {
            leases.need(0);
            begin(&mut leases, renewed_at(Uptime::now()));
        } else {
            assert!(leases.take_over(0, NAME, ()).is_none());
            let renewed = leases.renewed(NAME.id, renewed_at(Uptime::now()));
            assert_eq!(renewed, Some(Renewed::TakenOver(vec![0])));
            let again = leases.renewed(NAME.id, renewed_at(Uptime::now()));
            assert_eq!(again, Some(Renewed::Kept));
        }
        calls(&mut leases);
        leases.lose(NAME.id, Lost::Disconnected);
        assert!(leases.lose(NAME.id, Lost::Disconnected).is_none());
        assert_eq!(calls(&mut leases), [LET_GO]);
        assert!(leases.is_expiring(NAME.id) && leases.expired().is_empty());
        leases.expire_all();
        assert_eq!(leases.expired(), [NAME.id]);
        assert_eq!(calls(&mut leases), if is_own { vec![REVOKE] } else { vec![] });
        assert!(!leases.is_expiring(NAME.id));
    }
}

#[test]
fn a_lease_of_another_connection_that_no_agent_uses_is_let_go() {
    let mut leases = with_agents(1);
    leases.take_over(0, NAME, ());
    calls(&mut leases);
    assert!(leases.let_go_unused().is_empty() && leases.is_of_another(NAME.id));
    leases.agents.clear();
    assert_eq!(leases.let_go_unused(), [NAME.id]);
    assert_eq!(calls(&mut leases), [LET_GO]);
}

#[test]
fn who_waits_for_a_lease_that_cannot_be_had_is_told_when_waiting_is_of_no_use() {
    let mut leases = with_agents(2);
    let (agent, name) = (leases.agents[&0].id, "db".try_into().unwrap());
    let (kind, details) = (RequestKind::Wait(Mode::Exclusive), RequestDetails::default());
    let mut table = leases.shared.table();
    let (request, _) = table.request(agent, &name, kind, details, Waker::noop()).unwrap();
    drop(table);
    leases.need(0);
    leases.need(1);
    assert_eq!(calls(&mut leases), [BEGIN]);
    let full = Error::refused("full");
    // The store may answer yet: the request waits, and the other agent wants no lease any more.
    assert!(!leases.not_begun(&full, true));
    let again = LeaseCall::Begin { delay: Duration::from_millis(100) };
    assert_eq!((calls(&mut leases), leases.agents[&1].has_no_lease()), (vec![again], true));
    assert!(leases.not_begun(&full, false));
    assert_eq!(leases.shared.table().status(request), Status::Ended);
    assert!(calls(&mut leases).is_empty() && leases.agents[&0].has_no_lease());
    // That is not for ever.
    assert_eq!((leases.need(0), calls(&mut leases)), (Need::Waits, vec![BEGIN]));
}

#[test]
fn who_is_late_is_told_by_the_clock_and_by_the_renewal() {
    let mut leases = with_agents(1);
    leases.need(0);
    begin(&mut leases, renewed_at(Uptime::now()));
    let short = Renewal { time_to_live: Duration::ZERO, ..renewed_at(Uptime::now()) };
    assert_eq!(leases.renewed(NAME.id, short), Some(Renewed::TooLate));
    assert_eq!((leases.over(), leases.need(0)), (vec![NAME.id], Need::Lose(NAME.id)));
    // Another agent cannot be put under it either.
    let other = open(&mut leases);
    assert_eq!(leases.need(other), Need::Lose(NAME.id));
    leases.lose(NAME.id, Lost::Disconnected);
    assert_eq!((leases.over(), leases.need(other)), (vec![], Need::Waits));
}
