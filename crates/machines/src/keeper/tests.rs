//! Tests of what the keeper does as time passes, step by step. The [model](super::model) has hardly
//! any time.

mod agents;
mod asked;
mod listing;
mod owned;
mod reclaimed;
mod removed;
mod views;

use navlock_core::{
    AgentInfo, ClientId, Lost, Mode, ResourceName,
    host::{Claim, RequestDetails, RequestKind, Ticket},
};
use navlock_engine::AgentId;
use tokio::sync::oneshot;

use super::{history::Known, *};
use crate::{
    call_failure::Failure,
    clock,
    data::{Answer, KeyValue, Listing, Step, StepResult, Transaction},
    key_store::LeaseEvent,
    keys::{LockKey, Phase, RequestKey},
    lease::{LeaseName, Renewal},
    leases::LeaseCall,
    table::{State, Status},
    tokens::{Grant, token},
    transactions::Operation,
    values::{RequestNotes, Value},
    view::UNUSED,
    watched::{Event, Put, Watched},
};

const TIME_TO_LIVE: Duration = Duration::from_secs(60);

/// The lease of another connection, which is dead.
const LEASE: i64 = 7;

/// The lease of this connection itself.
const OWN: i64 = 8;

/// The revision that created the keys under the lease of the other connection.
const MADE: i64 = 3;

/// A keeper whose calls the test answers by hand.
struct Machine {
    keeper: Keeper,
    shared: Arc<Shared>,
    now: Duration,
    /// The number of the last request that was made. The connection itself gives other numbers.
    made: u64,
}

impl Machine {
    fn new() -> Self {
        let now = Duration::from_secs(1000);
        clock::simulation::to(now);
        let shared = Arc::new(Shared::default());
        let mut options = KeeperOptions { namespace: "n".to_owned(), ..KeeperOptions::default() };
        options.times.time_to_live = TIME_TO_LIVE;
        let mut keeper = Keeper::new("the store", Arc::clone(&shared), options, 1);
        let bucket = shared.table().open_bucket("b");
        keeper.handle_message(Message::OpenBucket { bucket, name: "b".to_owned() });
        Self { keeper, shared, now, made: 1000 }
    }

    /// Opens an agent of this client.
    fn agent(&mut self, client: u8) -> AgentSerial {
        self.open_agent(client).1
    }

    fn open_agent(&mut self, client: u8) -> (AgentId, AgentSerial) {
        let client_id = ClientId::from_bytes([client; 16]);
        let (agent, serial) = self.shared.table().open_agent(0, client_id);
        self.keeper.handle_message(Message::OpenAgent { bucket: 0, serial, agent, client_id });
        (agent, serial)
    }

    /// Makes a request. The keeper's thread is not told of it.
    fn make(&mut self, agent: AgentId, name: &str, kind: RequestKind) -> (RequestId, AgentSerial) {
        self.made += 1;
        let details = RequestDetails { serial: Some(self.made), ..RequestDetails::default() };
        let waker = std::task::Waker::noop();
        self.shared.table().request(agent, &of(name), kind, details, waker).unwrap()
    }

    /// Has this agent request the lock of this name.
    fn request(&mut self, serial: AgentSerial, name: &str) -> RequestId {
        let id = self.keeper.leases.agents[&serial].id;
        let kind = RequestKind::Wait(Mode::Exclusive);
        let (id, _) = self.make(id, name, kind);
        self.keeper.handle_message(Message::Request {
            bucket: 0,
            serial,
            id,
            name: NameKey::new(&of(name)),
        });
        id
    }

    /// Lets this much time pass. The keeper's own lease is renewed before that, and the keeper
    /// ticks after that.
    fn pass(&mut self, time: Duration) {
        let sent = Uptime::now_at(self.now);
        let word = LeaseEvent::Renewed(Renewal { sent, time_to_live: TIME_TO_LIVE }, Vec::new());
        self.keeper.handle_news(News::Lease { lease: OWN, word });
        self.now += time;
        clock::simulation::to(self.now);
        self.keeper.handle_tick();
    }

    /// The calls that the keeper wants to make.
    fn calls(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.keeper.poll_call()).collect()
    }

    /// The calls that the keeper wants to make, apart from watches and lists. Watches are answered,
    /// and each list finds these keys.
    fn listed(&mut self, found: &[KeyValue]) -> Vec<Call> {
        let mut others = Vec::new();
        while let Some(call) = self.keeper.poll_call() {
            match call {
                Call::Watch { watch, .. } => {
                    self.keeper.handle_news(News::Watched { watch, watched: Watched::Up });
                }
                Call::List { of, known, .. } => {
                    let found = found.to_vec();
                    let listing = Listing { revision: MADE + 1, cluster: 1, found, left_out: 0 };
                    self.keeper.handle_done(Done::Listed(of, known, Ok(listing)));
                }
                call => others.push(call),
            }
        }
        others
    }

    /// Has the agent request a name. The store answers everything in this revision, and the name is
    /// free. Returns the request, and the calls that were not answered.
    fn take(&mut self, agent: AgentId, name: &str, revision: i64) -> (RequestId, Vec<Call>) {
        let kind = RequestKind::Wait(Mode::Exclusive);
        let (id, serial) = self.make(agent, name, kind);
        self.keeper.handle_message(Message::Request {
            bucket: 0,
            serial,
            id,
            name: NameKey::new(&of(name)),
        });
        let calls = self.answered(revision);
        assert!(matches!(self.shared.table().status(id), Status::Held(_)));
        (id, calls)
    }

    /// Releases the lock. Returns the calls that were not answered.
    fn release(&mut self, id: RequestId, revision: i64) -> Vec<Call> {
        let finished = self.shared.table().finish(id).and_then(|ending| ending.finished);
        self.keeper.handle_message(Message::Finish { id, finished: finished.unwrap() });
        self.answered(revision)
    }

    /// Answers requests for leases and operations, as a store at this revision does. Returns the
    /// other calls.
    fn answered(&mut self, revision: i64) -> Vec<Call> {
        let mut others = Vec::new();
        while let Some(call) = self.keeper.poll_call() {
            match call {
                Call::Lease(LeaseCall::Begin { .. }) => {
                    let sent = Uptime::now_at(self.now);
                    let lease = LeaseName { cluster: 1, id: OWN };
                    let renewal = Renewal { sent, time_to_live: TIME_TO_LIVE };
                    self.keeper.handle_done(Done::Leased(Ok((lease, renewal))));
                }
                Call::Operate { of, .. } => {
                    let (succeeded, results) = (true, Vec::new());
                    let answer = Answer { revision, cluster: 1, succeeded, results };
                    self.keeper.handle_done(Done::Operated(of, Ok(answer)));
                }
                call => others.push(call),
            }
        }
        others
    }

    /// Has this agent reclaim its lock of this name.
    fn reclaim(
        &mut self,
        serial: AgentSerial,
        name: &str,
    ) -> oneshot::Receiver<Vec<Option<Ticket>>> {
        let (answer, answered) = oneshot::channel();
        let kind = RequestKind::Wait(Mode::Exclusive);
        let claim =
            Claim { serial: 1, name: of(name), kind, token: Some(crate::tokens::token(MADE)) };
        self.keeper.handle_message(Message::Reclaim { serial, claims: vec![claim], answer });
        answered
    }
}

fn of(name: &str) -> ResourceName {
    ResourceName::try_from(name).unwrap()
}

/// The key of a lock that an agent of this client had through another connection.
fn lock(name: &str, client: u8) -> KeyValue {
    let request = RequestKey { owner: 2, slot: u64::from(client) };
    let keys = BucketKeys::new("n", "b").name(&NameKey::new(&of(name)));
    let key = keys.request(Phase::Held, Mode::Exclusive, request);
    let client_id = ClientId::from_bytes([client; 16]);
    let info = AgentInfo::default();
    let value = Value {
        client_id,
        since: 0,
        serial: 1,
        place: 0,
        mark: 0,
        info,
        said: RequestNotes::default(),
        name: None,
    }
    .encode();
    KeyValue { key, value, made: MADE, written: MADE, lease: LEASE }
}

/// The keys that these calls delete.
fn deleted(calls: &[Call]) -> Vec<Vec<u8>> {
    let steps = calls.iter().flat_map(|call| match call {
        Call::Operate { transaction, .. } | Call::Write { transaction } => &*transaction.then,
        _ => &[],
    });
    let keys = steps.filter_map(|step| match step {
        Step::Delete(key) => Some(key.clone()),
        _ => None,
    });
    keys.collect()
}

/// A machine that has owned the name `db` since revision 6, and an agent that has taken the name
/// once.
fn owner() -> (Machine, AgentId) {
    let mut machine = Machine::new();
    machine.keeper.options.taken = 1;
    let (agent, _) = machine.open_agent(1);
    let (held, _) = machine.take(agent, "db", 5);
    machine.release(held, 6);
    assert!(machine.usage().is_some(), "it is its own");
    (machine, agent)
}

impl Machine {
    /// How the name `db` is used, if the machine owns it.
    fn usage(&self) -> Option<crate::table::simulation::Usage> {
        self.shared.table().usage(&(0, NameKey::new(&of("db"))))
    }

    /// Makes a request as a caller does. The keeper's thread is not told of the request.
    fn call(&mut self, agent: AgentId, kind: RequestKind) -> (RequestId, AgentSerial) {
        let made = self.make(agent, "db", kind);
        self.shared.table().take_here(made.0);
        made
    }

    /// Has an agent take the name that the machine owns. The store does not hear of this lock.
    fn take_own(&mut self, agent: AgentId) -> RequestId {
        let (id, _) = self.call(agent, RequestKind::Wait(Mode::Exclusive));
        assert!(matches!(self.shared.table().status(id), Status::Held(_)));
        id
    }

    /// Has the keeper give up the name.
    fn leave(&mut self) {
        self.keeper.handle_message(Message::Leave { bucket: 0, name: NameKey::new(&of("db")) });
        assert!(self.usage().is_none(), "it is its own still");
    }

    /// How a lock was lost, if it was lost.
    fn lost(&self, id: RequestId) -> Option<Lost> {
        match self.shared.table().state(id) {
            Some((State::Lost(lost), _)) => Some(*lost),
            _ => None,
        }
    }

    /// The watch of the name reports these keys in this revision. Each key is given by its owner, its
    /// phase, and the revision that created it, or `None` if the key was deleted.
    fn report(&mut self, revision: i64, keys: &[(u128, Phase, Option<i64>)]) {
        let event = |&(owner, phase, made): &(u128, Phase, Option<i64>)| {
            told(RequestKey { owner, slot: 0 }, phase, revision, made)
        };
        self.report_events(keys.iter().map(event).collect());
    }

    /// The watch of the name reports these events.
    fn report_events(&mut self, events: Vec<Event>) {
        let watch = *self.keeper.watches.keys().next().unwrap();
        self.keeper.handle_news(News::Watched { watch, watched: Watched::Events(events) });
    }
}

/// An event of a key in a revision: the key was put (`made` is the revision that created it) or
/// deleted (`None`).
fn told(request: RequestKey, phase: Phase, revision: i64, made: Option<i64>) -> Event {
    let name = NameKey::new(&of("db"));
    let key = LockKey { name, phase, mode: Mode::Exclusive, request };
    let lease = if request.owner == 1 { OWN } else { LEASE };
    let value = Arc::from(ownership::owning(request.owner, (lease, TIME_TO_LIVE), 0, "").value);
    let put = made.map(|made| Put { made, lease, value });
    Event { key, revision, put }
}

/// The key by which another connection owns the name, under a lease that is not ours.
fn owned_by_another() -> KeyValue {
    let value = ownership::owning(2, (LEASE, TIME_TO_LIVE), 0, "").value;
    let key = BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(2);
    KeyValue { key, value, made: MADE, written: MADE, lease: LEASE }
}

impl Machine {
    /// Has an agent request the name. The store answers everything apart from the list. Returns the
    /// request, and the list that the keeper asks for once the name is watched.
    fn ask(&mut self, kind: RequestKind, is_granted: bool) -> (RequestId, Option<(Listed, Known)>) {
        let (agent, serial) = self.open_agent(1);
        let (id, _) = self.call(agent, kind);
        self.keeper.handle_message(Message::Request {
            bucket: 0,
            serial,
            id,
            name: NameKey::new(&of("db")),
        });
        let mut list = None;
        while let Some(call) = self.keeper.poll_call() {
            match call {
                Call::Lease(LeaseCall::Begin { .. }) => {
                    let sent = Uptime::now_at(self.now);
                    let lease = LeaseName { cluster: 1, id: OWN };
                    let renewal = Renewal { sent, time_to_live: TIME_TO_LIVE };
                    self.keeper.handle_done(Done::Leased(Ok((lease, renewal))));
                }
                Call::Operate { of, .. } => {
                    let results = vec![StepResult::Done];
                    let answer = Answer { revision: 5, cluster: 1, succeeded: is_granted, results };
                    self.keeper.handle_done(Done::Operated(of, Ok(answer)));
                }
                Call::Watch { watch, .. } => {
                    self.keeper.handle_news(News::Watched { watch, watched: Watched::Up });
                }
                Call::List { of, known, .. } => list = Some((of, known)),
                _ => {}
            }
        }
        (id, list)
    }
}
