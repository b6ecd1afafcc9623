//! Reaches other than the process. The answers of a reach arrive, and calls that a reach does not
//! implement have a default answer.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    future::{Future, IntoFuture, ready},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use navlock_core::{
    AgentInfo, ClientId, Error, LockFuture, LockGuard, Lost, Mode, Named, ResourceName, UserAgent,
    blocking::block_on,
    host::{
        self, AgentId, Answer, Backend, Claim, InspectFuture, MemoryReach, PositionFuture,
        QueryFuture, Reach, ReclaimFuture, RequestDetails, RequestKind, RevokeFuture, Term, Ticket,
    },
    look::LockId,
};

/// Passes the calls that every backend must have to the backend inside.
macro_rules! pass_on {
    () => {
        fn open_agent(&self, client_id: ClientId) -> AgentId {
            self.inner.open_agent(client_id)
        }

        fn close_agent(&self, agent: AgentId) {
            self.note("closed".to_owned());
            self.inner.close_agent(agent);
        }

        fn terminate(&self, agent: AgentId) {
            self.note("terminated".to_owned());
            self.inner.terminate(agent);
        }

        fn request(
            &self,
            agent: AgentId,
            name: &ResourceName,
            kind: RequestKind,
            details: RequestDetails<'_>,
            waker: &Waker,
        ) -> Result<(Ticket, Poll<Answer>), Error> {
            self.inner.request(agent, name, kind, details, waker)
        }

        fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
            self.inner.poll_request(ticket, waker)
        }

        fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
            self.note(ASKED.to_owned());
            self.inner.poll_lost(ticket, waker)
        }

        fn lost(&self, ticket: Ticket) -> Option<Lost> {
            self.inner.lost(ticket)
        }

        fn finish(&self, ticket: Ticket) {
            self.inner.finish(ticket);
        }

        fn query(&self) -> QueryFuture<'_> {
            self.inner.query()
        }
    };
}

type Notes = Arc<Mutex<Vec<String>>>;

const ASKED: &str = "asked whether it is lost";

/// A backend that implements only the required calls.
#[derive(Debug)]
struct Terse {
    inner: Box<dyn Backend>,
    notes: Notes,
}

impl Terse {
    fn note(&self, what: String) {
        self.notes.lock().unwrap().push(what);
    }
}

impl Backend for Terse {
    pass_on!();
}

/// A backend that implements all calls.
#[derive(Debug)]
struct Full {
    inner: Box<dyn Backend>,
    notes: Notes,
}

const TERM: Term = Term {
    now: Duration::from_secs(10),
    heard: Duration::from_secs(7),
    due: Duration::from_secs(9),
    ends: Duration::from_secs(12),
    expires: Duration::from_secs(13),
};

impl Full {
    fn note(&self, what: String) {
        self.notes.lock().unwrap().push(what);
    }
}

impl Backend for Full {
    pass_on!();

    fn lanes(&self) -> usize {
        // This must be the number of lanes of the backend inside, because its tickets are passed on
        // unchanged.
        self.inner.lanes()
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        self.note(format!("described {}", info.pid));
        self.inner.describe(agent, info);
    }

    fn terminate_all(&self, agents: &[AgentId]) {
        self.note(format!("terminated {}", agents.len()));
        self.inner.terminate_all(agents);
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        self.note(format!("inspected {}", name.is_some()));
        self.inner.inspect(name)
    }

    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        self.note("asked for a position".to_owned());
        self.inner.position(name, client_id)
    }

    fn ends(&self, _agent: AgentId) -> Option<Duration> {
        Some(TERM.ends)
    }

    fn term(&self, _agent: AgentId) -> Option<Term> {
        Some(TERM)
    }

    fn lease(&self, _agent: AgentId) -> Option<Vec<u8>> {
        Some(b"lease".to_vec())
    }

    fn reclaim(&self, _agent: AgentId, claims: Vec<Claim>) -> ReclaimFuture<'_> {
        self.note(format!("reclaimed {}", claims.len()));
        Box::pin(ready(vec![None; claims.len()]))
    }

    fn stolen_by(&self, ticket: Ticket) -> Option<ClientId> {
        self.inner.stolen_by(ticket)
    }

    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        self.note("inside".to_owned());
        self.inner.put_inside(ticket, lock);
    }

    fn made(&self, ticket: Ticket) {
        self.note("made".to_owned());
        self.inner.made(ticket);
    }

    fn retire(&self) {
        self.note("retired".to_owned());
        self.inner.retire();
    }
}

#[derive(Debug)]
struct TerseReach(MemoryReach, Notes);

impl Reach for TerseReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(Terse { inner: self.0.open_bucket(name), notes: Arc::clone(&self.1) })
    }
}

#[derive(Debug)]
struct FullReach(MemoryReach, Notes);

impl Reach for FullReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(Full { inner: self.0.open_bucket(name), notes: Arc::clone(&self.1) })
    }

    fn is_leased(&self) -> bool {
        true
    }

    fn revoke(&self, leases: Vec<Vec<u8>>) -> RevokeFuture<'_> {
        Box::pin(ready(leases.is_empty()))
    }
}

fn terse() -> (UserAgent, Notes) {
    let notes = Notes::default();
    (UserAgent::with_reach(TerseReach(MemoryReach::default(), Arc::clone(&notes))), notes)
}

fn full() -> (UserAgent, Notes) {
    let notes = Notes::default();
    (UserAgent::with_reach(FullReach(MemoryReach::default(), Arc::clone(&notes))), notes)
}

fn taken(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut notes.lock().unwrap())
}

fn claim() -> Claim {
    let name = ResourceName::try_from("db").unwrap();
    Claim { serial: 1, name, kind: RequestKind::Wait(Mode::Exclusive), token: None }
}

#[test]
fn of_a_reach_that_says_no_more_than_it_must_nothing_ends_by_itself() {
    let (user_agent, _) = terse();
    let locks = user_agent.lock_manager("app");
    assert!(!user_agent.is_leased());
    let (backend, agent) = host::backend(&locks).unwrap();
    assert_eq!((backend.ends(agent), locks.term(), backend.lease(agent)), (None, None, None));
    assert!(block_on(host::reach(&user_agent).revoke(vec![b"lease".to_vec()])));
    let reclaimed = block_on(host::reclaim(&locks, vec![claim(), claim()])).unwrap();
    assert_eq!(reclaimed.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn a_snapshot_of_a_terse_reach_is_inspected_by_name() {
    let (user_agent, _) = terse();
    let (locks, others) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    locks.describe(&AgentInfo::default());
    let held = [locks.lock("db").blocking().unwrap(), locks.lock("log").blocking().unwrap()];
    let mut waiting = ["db", "log", "log"].map(|name| others.lock(name).into_future());
    let mut context = Context::from_waker(Waker::noop());
    for waiting in &mut waiting {
        assert!(Pin::new(waiting).poll(&mut context).is_pending());
    }
    let log = ResourceName::try_from("log").unwrap();
    for (name, counts) in [(None, (2, 3)), (Some(log.clone()), (1, 2))] {
        let seen = block_on(locks.inspect(name)).unwrap();
        assert_eq!((seen.held.len(), seen.pending.len()), counts);
    }
    let position = block_on(others.position(log)).unwrap();
    assert_eq!((position.holders, position.ahead), (1, Some(0)));
    drop((waiting, held));
    let readers = [(); 3].map(|()| locks.lock("log").shared().blocking().unwrap());
    let position = block_on(others.position(ResourceName::try_from("log").unwrap())).unwrap();
    assert_eq!((position.holders, position.ahead), (3, None));
    drop(readers);
}

#[test]
fn terms_and_leases_of_a_reach_arrive_at_the_caller() {
    let (user_agent, notes) = full();
    let locks = user_agent.lock_manager("app");
    assert!(user_agent.is_leased());
    let (backend, agent) = host::backend(&locks).unwrap();
    assert_eq!(backend.ends(agent), Some(TERM.ends));
    assert_eq!(locks.term(), Some(TERM));
    assert_eq!(backend.lease(agent), Some(b"lease".to_vec()));
    assert_eq!(locks.lock("db").blocking().unwrap().term(), Some(TERM));
    let reach = host::reach(&user_agent);
    assert!(!block_on(reach.revoke(vec![b"lease".to_vec()])));
    assert!(block_on(reach.revoke(Vec::new())));
    assert_eq!(block_on(host::reclaim(&locks, vec![claim()])).unwrap().len(), 1);
    assert_eq!(taken(&notes), ["reclaimed 1"]);
}

#[test]
fn calls_of_an_agent_arrive_at_the_reach() {
    let (user_agent, notes) = full();
    let handles = [(); 2].map(|()| user_agent.lock_manager("app"));
    let [locks, _] = &handles;
    let mut info = AgentInfo::default();
    info.pid = 7;
    locks.describe(&info);
    drop(locks.lock("db").blocking().unwrap());
    block_on(locks.inspect(None)).unwrap();
    block_on(locks.position(ResourceName::try_from("db").unwrap())).unwrap();
    let asked = ["described 7", "inspected false", "asked for a position"];
    assert_eq!(taken(&notes), asked);
    host::terminate_all(&handles);
    assert_eq!(taken(&notes), ["terminated 2"]);
    drop(handles);
    assert_eq!(taken(&notes), ["closed", "closed", "retired"]);
}

#[test]
fn of_a_request_that_waits_all_is_said_and_then_that_it_was() {
    let (user_agent, notes) = full();
    let (locks, others) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    // A request that is granted at once is not reported as made.
    let held = ["a", "b"].map(|name| locks.lock(name).blocking().unwrap());
    assert_eq!(taken(&notes), [""; 0]);
    let [a, b] = [&held[0], &held[1]];
    let request = || others.lock("a");
    assert_eq!(waits(request().into_future(), &notes), ["made"]);
    let nested = request().inside(b).inside(a);
    assert_eq!(waits(nested.into_future(), &notes), ["inside", "inside", "made"]);
    assert_eq!(waits(request().fail_on_deadlock().into_future(), &notes), ["made"]);
    assert_eq!(waits(request().inside(b).into_owned(), &notes), ["inside", "made"]);
}

/// What the reach is told about this request, which has to wait.
fn waits<N: Named>(mut request: LockFuture<'_, LockGuard, N>, notes: &Notes) -> Vec<String> {
    let mut context = Context::from_waker(Waker::noop());
    // The request is polled twice, and reported as made once.
    for _ in 0..2 {
        assert!(Pin::new(&mut request).poll(&mut context).is_pending());
    }
    taken(notes)
}

#[test]
fn several_agents_of_a_reach_that_ends_one_at_a_time_all_end() {
    let (user_agent, notes) = terse();
    let handles = [(); 2].map(|()| user_agent.lock_manager("app"));
    let held = handles[0].lock("db").blocking().unwrap();
    host::terminate_all(&handles);
    assert!(held.is_lost());
    assert_eq!(taken(&notes), ["terminated", "terminated"]);
}

#[test]
fn a_term_is_suspended_from_the_moment_at_which_word_was_due() {
    let silent = Some((Duration::from_secs(3), Duration::from_secs(2)));
    assert_eq!(TERM.suspended(), silent);
    let late = Term { due: TERM.now, ..TERM };
    assert_eq!(late.suspended(), silent);
    let heard = Term { due: TERM.now + Duration::from_nanos(1), ..TERM };
    assert_eq!(heard.suspended(), None);
}

#[test]
fn a_victim_is_told_the_thief_by_a_reach_that_knows_it() {
    for (user_agent, is_told) in [(terse().0, false), (full().0, true)] {
        let [locks, thief] = [(); 2].map(|()| user_agent.lock_manager("app"));
        let victim = locks.lock("db").blocking().unwrap();
        let stolen = thief.lock("db").steal().blocking().unwrap();
        let known = is_told.then(|| thief.client_id());
        assert_eq!(victim.stolen_by(), known);
        assert_eq!(victim.into_polled().stolen_by(), known);
        drop(stolen);
    }
}

#[test]
fn however_many_names_are_waited_for_each_lock_is_asked_once_whether_it_is_lost() {
    const NAMES: usize = 50;
    let (user_agent, notes) = terse();
    let (locks, others) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    let names = || (0..NAMES).map(|number| format!("{number:02}"));
    let held: Vec<_> = names().map(|name| others.lock(name).blocking().unwrap()).collect();
    let mut all = locks.lock_all(names()).into_future();
    let mut context = Context::from_waker(Waker::noop());
    for guard in held {
        assert!(Pin::new(&mut all).poll(&mut context).is_pending());
        drop(guard);
    }
    let asked = taken(&notes).iter().filter(|note| *note == ASKED).count();
    assert_eq!(asked, NAMES - 1);
    assert!(Pin::new(&mut all).poll(&mut context).is_ready());
}
