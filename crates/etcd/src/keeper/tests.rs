//! What is done about time, step by step: the [model](super::model) has hardly any.

use navlock_core::{
    AgentInfo, ClientId, Mode, ResourceName,
    host::{Claim, RequestKind, Ticket},
};
use navlock_engine::AgentId;
use tokio::sync::oneshot;

use super::{history::Known, *};
use crate::{
    clock,
    data::{KeyValue, Listing, Step, StepResult, Transaction},
    keys::{LockKey, Phase},
    lease::{LeaseName, Term, Word},
    mirror::{self, Put},
    values::{Said, Value},
    view::UNUSED,
    watch::Watched,
};

const TIME_TO_LIVE: Duration = Duration::from_secs(60);

/// A lease that another connection had, which is dead.
const LEASE: i64 = 7;

/// The connection's own.
const OWN: i64 = 8;

/// The token of what stands under that of the other connection.
const MADE: i64 = 3;

/// A keeper, whose calls are answered by hand.
struct Machine {
    keeper: Keeper,
    shared: Arc<Shared>,
    now: Duration,
}

impl Machine {
    fn new() -> Self {
        let now = Duration::from_secs(1000);
        clock::set::to(now);
        let shared = Arc::new(Shared::default());
        let options = EtcdOptions::new(["x"]).namespace("n").time_to_live(TIME_TO_LIVE);
        let mut keeper = Keeper::new(Arc::clone(&shared), options, 1);
        let bucket = shared.table().open_bucket("b");
        keeper.hear(Message::OpenBucket { bucket, name: "b".to_owned() });
        Self { keeper, shared, now }
    }

    /// An agent of this client.
    fn agent(&mut self, client: u8) -> AgentSerial {
        self.open_agent(client).1
    }

    fn open_agent(&mut self, client: u8) -> (AgentId, AgentSerial) {
        let (agent, serial) = self.shared.table().open_agent(0);
        let client_id = ClientId::from_bytes([client; 16]);
        self.keeper.hear(Message::OpenAgent { bucket: 0, serial, agent, client_id });
        (agent, serial)
    }

    /// This agent asks for this name.
    fn request(&mut self, serial: AgentSerial, name: &str) -> RequestId {
        let id = self.keeper.agents[&serial].id;
        let kind = RequestKind::Wait(Mode::Exclusive);
        let waker = std::task::Waker::noop();
        let (id, _) = self.shared.table().request(id, &of(name), kind, waker).unwrap();
        self.keeper.hear(Message::Request { bucket: 0, serial, id, name: of(name) });
        id
    }

    /// That time passes, in which it looks after itself, and its own lease is renewed.
    fn pass(&mut self, time: Duration) {
        let sent = Moment::now_at(self.now);
        let word = Word::Renewed(Term { sent, time_to_live: TIME_TO_LIVE });
        self.keeper.hear(Message::Lease { lease: OWN, word });
        self.now += time;
        clock::set::to(self.now);
        self.keeper.tick();
    }

    /// What is to be called.
    fn calls(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.keeper.next_call()).collect()
    }

    /// The same, once each name is watched and listed: this is in them.
    fn listed(&mut self, found: &[KeyValue]) -> Vec<Call> {
        let mut others = Vec::new();
        while let Some(call) = self.keeper.next_call() {
            match call {
                Call::Watch { watch, .. } => {
                    self.keeper.hear(Message::Watched { watch, watched: Watched::Up });
                }
                Call::List { of, known, .. } => {
                    let found = found.to_vec();
                    let listing = Listing { revision: MADE + 1, cluster: 1, found, left_out: 0 };
                    self.keeper.done(Done::Listed(of, known, Ok(listing)));
                }
                call => others.push(call),
            }
        }
        others
    }

    /// Somebody takes a name and finds it free in this revision, by an etcd that answers all. The
    /// request, and what else is called.
    fn take(&mut self, agent: AgentId, name: &str, revision: i64) -> (RequestId, Vec<Call>) {
        let kind = RequestKind::Wait(Mode::Exclusive);
        let made = self.shared.table().request(agent, &of(name), kind, std::task::Waker::noop());
        let (id, serial) = made.unwrap();
        self.keeper.hear(Message::Request { bucket: 0, serial, id, name: of(name) });
        let calls = self.answered(revision);
        assert!(matches!(self.shared.table().status(id), Status::Held(_)));
        (id, calls)
    }

    /// It is released.
    fn release(&mut self, id: RequestId, revision: i64) -> Vec<Call> {
        let finished = self.shared.table().finish(id).and_then(|ending| ending.finished);
        self.keeper.hear(Message::Finish { id, finished: finished.unwrap() });
        self.answered(revision)
    }

    /// Answers what is asked of an etcd that is at this revision. What else is called.
    fn answered(&mut self, revision: i64) -> Vec<Call> {
        let mut others = Vec::new();
        while let Some(call) = self.keeper.next_call() {
            match call {
                Call::Lease { .. } => {
                    let sent = Moment::now_at(self.now);
                    let lease = LeaseName { cluster: 1, id: OWN };
                    let term = Term { sent, time_to_live: TIME_TO_LIVE };
                    self.keeper.done(Done::Leased(Ok((lease, term))));
                }
                Call::Operate { of, .. } => {
                    let (succeeded, results) = (true, Vec::new());
                    let answer = Answer { revision, cluster: 1, succeeded, results };
                    self.keeper.done(Done::Operated(of, Ok(answer)));
                }
                call => others.push(call),
            }
        }
        others
    }

    /// This agent comes back for its lock of that name.
    fn recall(
        &mut self,
        serial: AgentSerial,
        name: &str,
    ) -> oneshot::Receiver<Vec<Option<Ticket>>> {
        let (answer, answered) = oneshot::channel();
        let kind = RequestKind::Wait(Mode::Exclusive);
        let claim =
            Claim { name: of(name), kind, token: Some(crate::tokens::token(MADE)), since: 0 };
        self.keeper.hear(Message::Recall { serial, claims: vec![claim], answer });
        answered
    }
}

fn of(name: &str) -> ResourceName {
    ResourceName::try_from(name).unwrap()
}

/// A lock that an agent of this client had through another connection.
fn lock(name: &str, client: u8) -> KeyValue {
    let request = RequestKey { owner: 2, slot: u64::from(client) };
    let keys = BucketKeys::new("n", "b").name(&NameKey::new(&of(name)));
    let key = keys.request(Phase::Held, Mode::Exclusive, request);
    let client_id = ClientId::from_bytes([client; 16]);
    let info = AgentInfo::default();
    let value = Value {
        client_id,
        since: 0,
        asked: 1,
        place: 0,
        mark: 0,
        info,
        said: Said::default(),
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

#[test]
fn a_lease_of_others_that_cannot_be_renewed_in_time_is_not_ended() {
    let mut machine = Machine::new();
    let comes = machine.agent(1);
    let mut answered = machine.recall(comes, "comes");
    let (ours, theirs) = (lock("comes", 1), lock("comes later", 2));
    let calls = machine.listed(&[ours.clone(), theirs.clone()]);
    let is_asked = |call: &Call| matches!(call, Call::Keep { lease: LEASE, .. });
    assert!(calls.iter().any(is_asked), "{calls:?}");
    let tickets = answered.try_recv().unwrap();
    let ticket = tickets[0].expect("it is there");
    // Etcd is away: longer than who speaks for the agents lets them wait.
    let mut calls = Vec::new();
    for _ in 0..60 {
        machine.pass(Duration::from_millis(200));
        calls.extend(machine.calls());
    }
    assert_eq!(machine.shared.table().status(ticket.id), Status::Ended);
    let is_let_go = |call: &Call| matches!(call, Call::LetGo { lease: LEASE });
    assert!(calls.iter().any(is_let_go), "{calls:?}");
    // Who has not come back yet holds under it, and its term may last for longer.
    let ends = |call: &Call| matches!(call, Call::Revoke { lease: LEASE });
    assert!(!calls.iter().any(ends), "{calls:?}");
    // Nor what is held under it by those who have: what works there has not ended yet.
    assert_eq!(deleted(&calls), [] as [&[u8]; 0]);
    // It comes in time.
    let late = machine.agent(2);
    let mut answered = machine.recall(late, "comes later");
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

/// How often it is to be written what agents say of themselves.
fn descriptions(calls: &[Call]) -> usize {
    calls.iter().filter(|call| matches!(call, Call::Describe { .. })).count()
}

#[test]
fn what_an_agent_says_of_itself_is_written_once_at_a_time_and_ever_more_rarely() {
    let mut machine = Machine::new();
    let serial = machine.agent(1);
    let mut answered = machine.recall(serial, "db");
    machine.listed(&[lock("db", 1)]);
    answered.try_recv().unwrap()[0].expect("it is there");
    let mut info = AgentInfo::default();
    info.pid = 1;
    // Etcd goes on renewing the lease.
    let live = |machine: &mut Machine| {
        let sent = Moment::now_at(machine.now);
        let word = Word::Renewed(Term { sent, time_to_live: TIME_TO_LIVE });
        machine.keeper.hear(Message::Lease { lease: LEASE, word });
    };
    live(&mut machine);
    machine.keeper.hear(Message::Describe { serial, info });
    // It is on its way for a minute.
    let mut count = 0;
    for _ in 0..300 {
        machine.pass(Duration::from_millis(200));
        live(&mut machine);
        count += descriptions(&machine.calls());
    }
    assert_eq!(count, 1);
    // Each is answered at once, and the watch shows none of it.
    machine.keeper.done(Done::Described(serial));
    let mut count = 0;
    for _ in 0..300 {
        machine.pass(Duration::from_millis(200));
        live(&mut machine);
        let written = descriptions(&machine.calls());
        (0..written).for_each(|_| machine.keeper.done(Done::Described(serial)));
        count += written;
    }
    assert!((5..=16).contains(&count), "{count} in a minute");
}

#[test]
fn what_is_being_removed_because_nobody_came_back_is_not_given_to_who_comes_then() {
    let mut machine = Machine::new();
    let comes = machine.agent(1);
    let mut answered = machine.recall(comes, "comes");
    let (ours, theirs) = (lock("comes", 1), lock("stays away", 2));
    machine.listed(&[ours.clone(), theirs.clone()]);
    assert!(answered.try_recv().unwrap()[0].is_some());
    let under = || Done::Under(LEASE, Why::Sweep, Ok(vec![ours.key.clone(), theirs.key.clone()]));
    machine.keeper.done(under());
    assert_eq!(deleted(&machine.calls()), [&*theirs.key]);
    // It is on its way, and the mirror shows it still.
    let late = machine.agent(2);
    let mut answered = machine.recall(late, "stays away");
    let calls = machine.listed(&[ours.clone(), theirs.clone()]);
    assert_eq!(answered.try_recv().unwrap(), [None]);
    assert!(!deleted(&calls).contains(&ours.key));
    // If that has come to nothing it is removed at the next look.
    machine.keeper.done(under());
    assert_eq!(deleted(&machine.calls()), [&*theirs.key]);
}

#[test]
fn who_does_not_wait_for_what_it_recalls_takes_nothing_from_others() {
    let mut machine = Machine::new();
    let (gives_up, other) = (machine.agent(1), machine.agent(2));
    drop(machine.recall(gives_up, "db"));
    let ours = lock("db", 1);
    assert_eq!(deleted(&machine.listed(std::slice::from_ref(&ours)))[0], ours.key);
    // It asks for something else, as another agent does.
    let asked = [machine.request(other, "a"), machine.request(gives_up, "b")];
    let is_lease = |call: &Call| matches!(call, Call::Lease { .. });
    assert!(machine.calls().iter().any(is_lease));
    let term = Term { sent: Moment::now(), time_to_live: TIME_TO_LIVE };
    machine.keeper.done(Done::Leased(Ok((LeaseName { cluster: 1, id: 9 }, term))));
    let again = machine.request(gives_up, "c");
    let calls = machine.calls();
    let goes = |call: &Call| matches!(call, Call::LetGo { .. } | Call::Revoke { .. });
    assert!(!calls.iter().any(goes), "{calls:?}");
    let writes = calls.iter().filter(|call| matches!(call, Call::Operate { .. })).count();
    assert_eq!(writes, asked.len() + 1, "{again:?}: {calls:?}");
    // What it gave up is forgotten.
    let ended = machine.shared.table().terminate(machine.keeper.agents[&gives_up].id).ended;
    assert_eq!(ended.len(), 2);
}

/// From which revision on which watches begin, which end, and how often is listed.
fn watched(calls: &[Call]) -> (Vec<Option<i64>>, usize, usize) {
    let begin = calls.iter().filter_map(|call| match call {
        Call::Watch { from, .. } => Some(*from),
        _ => None,
    });
    let end = calls.iter().filter(|call| matches!(call, Call::Unwatch { .. })).count();
    let lists = calls.iter().filter(|call| matches!(call, Call::List { .. })).count();
    (begin.collect(), end, lists)
}

#[test]
fn who_finds_its_name_free_watches_it_from_there_on_and_for_a_while_after_that() {
    let mut machine = Machine::new();
    let (agent, _) = machine.open_agent(1);
    let (held, calls) = machine.take(agent, "db", 5);
    assert_eq!(watched(&calls), (vec![Some(6)], 0, 0));
    // However long it is held.
    for _ in 0..2 {
        machine.pass(UNUSED);
        assert_eq!(watched(&machine.calls()), (vec![], 0, 0));
    }
    let calls = machine.release(held, 7);
    assert_eq!(watched(&calls), (vec![], 0, 0));
    // Somebody uses it again.
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
    // And much later.
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

/// A machine whose name `db` is its own since revision 6, with an agent that has taken it once.
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
    /// How the name is used that is its own.
    fn usage(&self) -> Option<crate::table::Usage> {
        self.shared.table().usage(&(0, NameKey::new(&of("db"))))
    }

    /// What a caller does; the thread is not told.
    fn call(&mut self, agent: AgentId, kind: RequestKind) -> (RequestId, AgentSerial) {
        let mut table = self.shared.table();
        let made = table.request(agent, &of("db"), kind, std::task::Waker::noop()).unwrap();
        table.take_here(made.0);
        made
    }

    /// An agent takes the name, and etcd does not hear of it.
    fn take_own(&mut self, agent: AgentId) -> RequestId {
        let (id, _) = self.call(agent, RequestKind::Wait(Mode::Exclusive));
        assert!(matches!(self.shared.table().status(id), Status::Held(_)));
        id
    }

    /// The name is given up.
    fn leave(&mut self) {
        self.keeper.hear(Message::Leave { bucket: 0, name: NameKey::new(&of("db")) });
        assert!(self.usage().is_none(), "it is its own still");
    }

    /// How a lock was lost.
    fn lost(&self, id: RequestId) -> Option<Lost> {
        match self.shared.table().state(id) {
            Some((State::Lost(lost), _)) => Some(*lost),
            _ => None,
        }
    }

    /// The watch of the name tells this of keys: whose, how, and since when they are there, if they are.
    fn hear_of(&mut self, revision: i64, keys: &[(u128, Phase, Option<i64>)]) {
        let event = |&(owner, phase, made): &(u128, Phase, Option<i64>)| {
            told(RequestKey { owner, slot: 0 }, phase, revision, made)
        };
        self.hear_all(keys.iter().map(event).collect());
    }

    /// The watch of the name tells this.
    fn hear_all(&mut self, events: Vec<mirror::Event>) {
        let watch = *self.keeper.watches.keys().next().unwrap();
        self.keeper.hear(Message::Watched { watch, watched: Watched::Events(events) });
    }
}

/// What happens to a key in a revision: it is there since then, or gone.
fn told(request: RequestKey, phase: Phase, revision: i64, made: Option<i64>) -> mirror::Event {
    let name = NameKey::new(&of("db"));
    let key = LockKey { name, phase, mode: Mode::Exclusive, request };
    let lease = if request.owner == 1 { OWN } else { LEASE };
    let value = Arc::from(ownership::owning(request.owner, lease, 0, "").value);
    let put = made.map(|made| Put { made, lease, value });
    mirror::Event { key, revision, put }
}

#[test]
fn a_name_that_is_ones_own_is_listed_now_and_then_though_nobody_of_its_waits() {
    let (mut machine, agent) = owner();
    machine.take_own(agent);
    machine.calls();
    machine.pass(Duration::from_secs(16));
    assert_eq!(watched(&machine.calls()), (vec![], 0, 1));
}

#[test]
fn what_a_watch_tells_late_of_a_name_that_was_ones_own_does_not_make_it_so_again() {
    let (mut machine, agent) = owner();
    machine.leave();
    machine.answered(7);
    // The watch is behind all the while. As others have wanted it, the name is taken more often first.
    let (held, _) = machine.take(agent, "db", 8);
    machine.release(held, 9);
    let (held, _) = machine.take(agent, "db", 10);
    let finished = machine.shared.table().finish(held).and_then(|ending| ending.finished);
    machine.keeper.hear(Message::Finish { id: held, finished: finished.unwrap() });
    let calls = machine.calls();
    let asks = |call: &Call| match call {
        Call::Operate { of, .. } => matches!(of.operation, Operation::Own(..)),
        _ => false,
    };
    assert!(calls.iter().any(asks), "{calls:?}");
    machine.hear_of(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    assert_eq!(machine.usage(), None);
}

#[test]
fn who_has_just_come_when_a_name_is_given_up_gets_its_turn_and_nobody_overtakes_it() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    // The thread has not heard of that agent yet.
    let (late, serial) = machine.shared.table().open_agent(0);
    let (first, _) = machine.call(late, RequestKind::Wait(Mode::Exclusive));
    let (second, _) = machine.call(agent, RequestKind::Wait(Mode::Exclusive));
    machine.leave();
    machine.answered(7);
    assert!(matches!(machine.shared.table().status(held), Status::Held(_)));
    let client_id = ClientId::from_bytes([2; 16]);
    machine.keeper.hear(Message::OpenAgent { bucket: 0, serial, agent: late, client_id });
    machine.keeper.hear(Message::Request { bucket: 0, serial, id: first, name: of("db") });
    let calls = machine.calls();
    let asks = calls.iter().find_map(|call| match call {
        Call::Operate { of, .. } => Some(of.operation.own()),
        _ => None,
    });
    let asked: Vec<_> =
        asks.unwrap_or_default().iter().map(|key| machine.keeper.slots.holder(*key)).collect();
    assert_eq!(asked, [Some(first), Some(second)]);
}

#[test]
fn what_is_given_up_says_when_it_was_asked_for() {
    let (mut machine, agent) = owner();
    let since = u64::try_from(machine.now.as_nanos()).unwrap();
    machine.take_own(agent);
    machine.pass(Duration::from_secs(1));
    machine.leave();
    let calls = machine.calls();
    let written = calls.iter().flat_map(|call| match call {
        Call::Operate { transaction, .. } => &*transaction.then,
        _ => &[],
    });
    let written: Vec<_> = written
        .filter_map(|step| match step {
            Step::Put { value, .. } => Value::decode(value).map(|value| value.asked),
            _ => None,
        })
        .collect();
    assert_eq!(written, [since]);
}

#[test]
fn what_is_stolen_after_the_end_of_its_lease_was_lost_with_that() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.now += TIME_TO_LIVE;
    clock::set::to(machine.now);
    machine.hear_of(7, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.hear_of(8, &[(1, Phase::Owned, None), (3, Phase::Held, Some(8))]);
    assert_eq!(machine.lost(held), Some(Lost::Disconnected));
}

#[test]
fn a_thief_finds_those_robbed_whom_only_its_own_machine_knows() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    let name = (0, NameKey::new(&of("db")));
    // It is not certain any more that the name is its own: so the thief asks etcd.
    machine.shared.table().close(&name);
    let (thief, serial) = machine.call(agent, RequestKind::Steal);
    machine.keeper.hear(Message::Request { bucket: 0, serial, id: thief, name: of("db") });
    let owned = BucketKeys::new("n", "b").name(&name.1).owned(1);
    for call in machine.calls() {
        let Call::Operate { of, .. } = call else { continue };
        let results = vec![StepResult::Deleted(vec![owned.clone()])];
        let answer = Answer { revision: 7, cluster: 1, succeeded: true, results };
        machine.keeper.done(Done::Operated(of, Ok(answer)));
    }
    assert!(matches!(machine.shared.table().status(thief), Status::Held(_)));
    assert_eq!(machine.lost(held), Some(Lost::Stolen));
}

#[test]
fn an_owner_is_waited_for_from_when_it_is_seen_to_be_asked() {
    let mut machine = Machine::new();
    let value = ownership::owning(2, LEASE, 0, "").value;
    let key = BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(2);
    let seen = |made, mark| {
        let value = Value::marked(&value, mark);
        KeyValue { key: key.clone(), value, made, written: made, lease: LEASE }
    };
    let mut asked = |made, mark| {
        machine.now += Duration::from_secs(3);
        clock::set::to(machine.now);
        machine.keeper.note_asked(&seen(made, mark)).elapsed()
    };
    assert_eq!(asked(5, 0), Duration::ZERO);
    assert_eq!(asked(5, 0), Duration::ZERO, "nobody has asked it");
    assert_eq!(asked(5, 1), Duration::from_secs(3));
    assert_eq!(asked(5, 2), Duration::from_secs(6));
    assert_eq!(asked(9, 1), Duration::ZERO, "it is its own since then only");
}

#[test]
fn a_name_of_which_no_more_can_be_granted_is_given_up_for_who_asks_next() {
    for kind in [RequestKind::Wait(Mode::Exclusive), RequestKind::IfAvailable(Mode::Exclusive)] {
        let (mut machine, agent) = owner();
        machine.calls();
        machine.shared.table().close(&(0, NameKey::new(&of("db"))));
        let mut table = machine.shared.table();
        let (id, serial) = table.request(agent, &of("db"), kind, std::task::Waker::noop()).unwrap();
        let here = table.take_here(id);
        drop(table);
        assert!(
            matches!(here, None | Some(crate::table::Here::Waits { is_known: false })),
            "the thread is not told of it"
        );
        machine.keeper.hear(Message::Request { bucket: 0, serial, id, name: of("db") });
        let gives_up = |call: &Call| match call {
            Call::Operate { of, .. } => matches!(of.operation, Operation::Leave(_)),
            _ => false,
        };
        assert!(machine.calls().iter().any(gives_up), "{kind:?}");
    }
}

#[test]
fn who_looks_is_answered_though_a_name_was_lost_with_a_lease_that_is_not_over_for_others() {
    let (mut machine, agent) = owner();
    machine.take_own(agent);
    machine.calls();
    machine.keeper.hear(Message::Lease { lease: OWN, word: Word::Gone });
    let value = ownership::owning(1, OWN, 0, "").value;
    let key = BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(1);
    let owned = KeyValue { key, value, made: 6, written: 6, lease: OWN };
    let list = |machine: &mut Machine| {
        for call in machine.calls() {
            let Call::List { of, known, .. } = call else { continue };
            let found = vec![owned.clone()];
            let listing = Listing { revision: 6, cluster: 1, found, left_out: 0 };
            machine.keeper.done(Done::Listed(of, known, Ok(listing)));
        }
    };
    list(&mut machine);
    assert!(machine.keeper.lapsing.contains_key(&OWN));
    let (answer, mut answered) = oneshot::channel();
    machine.keeper.hear(Message::Query { bucket: 0, name: None, most: 10, asks: true, answer });
    list(&mut machine);
    let seen = answered.try_recv().expect("it is answered").unwrap();
    // What works under it may not have ended.
    assert_eq!(seen.held.len(), 1);
    assert_eq!(seen.held[0].inspected.fencing_token, Some(token(6)));
}

#[test]
fn a_name_that_could_not_be_given_up_before_its_lease_was_lost_is_not_kept_under_the_next() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.leave();
    let leaves = |call: Call| match call {
        Call::Operate { of, .. } if matches!(of.operation, Operation::Leave(_)) => Some(of),
        _ => None,
    };
    let given_up = machine.calls().into_iter().find_map(leaves).expect("it is to be written");
    for _ in 0..2 {
        machine.keeper.hear(Message::Lease { lease: OWN, word: Word::Gone });
    }
    assert_eq!(machine.lost(held), Some(Lost::Disconnected));
    let next = machine.agent(2);
    machine.request(next, "another");
    let (lease, sent) = (LeaseName { cluster: 1, id: OWN + 1 }, Moment::now_at(machine.now));
    machine.keeper.done(Done::Leased(Ok((lease, Term { sent, time_to_live: TIME_TO_LIVE }))));
    let refused = Failure::Refused(navlock_core::Error::Refused("too large".to_owned()));
    machine.keeper.done(Done::Operated(given_up, Err(refused)));
    assert_eq!(machine.usage(), None);
}

#[test]
fn what_waited_for_a_name_of_a_connection_that_is_gone_can_be_finished() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    let (waits, _) = machine.call(agent, RequestKind::Wait(Mode::Exclusive));
    let mut table = machine.shared.table();
    table.orphan();
    table.finish(waits);
    table.finish(held);
    assert_eq!(table.status(held), Status::Absent);
}

/// Releases this lock, with which the name is to be its own: what etcd is to be asked for that.
fn owning_by(machine: &mut Machine, held: RequestId) -> Operated {
    let finished = machine.shared.table().finish(held).and_then(|ending| ending.finished);
    machine.keeper.hear(Message::Finish { id: held, finished: finished.unwrap() });
    let owns = |call: Call| match call {
        Call::Operate { of, .. } if matches!(of.operation, Operation::Own(..)) => Some(of),
        _ => None,
    };
    machine.calls().into_iter().find_map(owns).expect("it is to be its own")
}

/// Whether something is asked for anew if a try to own a name is not answered, and the next one finds this
/// of the lock.
fn asks_anew_if_the_next_try_finds(lock: Option<i64>) -> bool {
    let mut machine = Machine::new();
    machine.keeper.options.taken = 1;
    let (agent, _) = machine.open_agent(1);
    let (held, _) = machine.take(agent, "db", 5);
    let serial = machine.shared.table().agent(agent).unwrap();
    machine.request(serial, "db");
    for call in machine.calls() {
        let Call::Operate { of, .. } = call else { continue };
        let results = vec![StepResult::Done];
        let answer = Answer { revision: 6, cluster: 1, succeeded: false, results };
        machine.keeper.done(Done::Operated(of, Ok(answer)));
    }
    let own = owning_by(&mut machine, held);
    machine.keeper.done(Done::Operated(own, Err(Failure::Unknown("lost".to_owned()))));
    let mut calls = machine.calls();
    let Some(Call::Pause { of, .. }) = calls.pop() else { panic!("{calls:?}") };
    machine.keeper.done(Done::Paused(of));
    let mut calls = machine.calls();
    let Some(Call::Operate { of, .. }) = calls.pop() else { panic!("{calls:?}") };
    let results = vec![StepResult::Got(lock), StepResult::Done, StepResult::Got(None)];
    let answer = Answer { revision: 8, cluster: 1, succeeded: false, results };
    machine.keeper.done(Done::Operated(of, Ok(answer)));
    let asks = |call: &Call| match call {
        Call::Operate { of, .. } => matches!(of.operation, Operation::Request(_)),
        _ => false,
    };
    machine.calls().iter().any(asks)
}

#[test]
fn who_waits_keeps_its_place_if_a_try_to_own_the_name_was_not_done() {
    assert!(asks_anew_if_the_next_try_finds(None), "all that waited may be gone");
    assert!(!asks_anew_if_the_next_try_finds(Some(5)));
}

#[test]
fn a_name_whose_key_was_removed_is_not_said_to_be_stolen_once_somebody_else_has_it() {
    let (mut machine, agent) = owner();
    let held = machine.take_own(agent);
    machine.hear_of(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.hear_of(7, &[(1, Phase::Owned, None)]);
    machine.hear_of(8, &[(3, Phase::Held, Some(8))]);
    assert_eq!(machine.lost(held), None);
    machine.pass(Duration::from_secs(1));
    machine.pass(Duration::from_secs(1));
    assert_eq!(machine.lost(held), Some(Lost::Removed));
}

#[test]
fn a_name_whose_key_was_removed_is_looked_after_once() {
    let (mut machine, agent) = owner();
    machine.take_own(agent);
    machine.hear_of(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.calls();
    machine.hear_of(7, &[(1, Phase::Owned, None)]);
    let is_kept = |call: &Call| matches!(call, Call::Keep { lease: OWN, .. });
    assert!(machine.calls().iter().any(is_kept));
    // It would be kept anew with each, and never be renewed.
    for revision in 8..12 {
        machine.hear_of(revision, &[(3, Phase::Queued, Some(revision))]);
        let calls = machine.calls();
        assert!(!calls.iter().any(is_kept), "{calls:?}");
    }
}

#[test]
fn a_name_that_is_ones_own_again_is_not_lost_for_what_became_of_it_before() {
    let (mut machine, agent) = owner();
    machine.hear_of(6, &[(1, Phase::Held, None), (1, Phase::Owned, Some(6))]);
    machine.hear_of(7, &[(1, Phase::Owned, None)]);
    // It is not known yet whether the lease is kept.
    machine.leave();
    machine.answered(8);
    let mut revision = 9;
    while machine.usage().is_none() {
        assert!(revision < 30, "it is never its own again");
        let (held, _) = machine.take(agent, "db", revision);
        machine.hear_of(revision, &[(1, Phase::Held, Some(revision))]);
        machine.release(held, revision + 1);
        if machine.usage().is_none() {
            machine.hear_of(revision + 1, &[(1, Phase::Held, None)]);
        }
        revision += 2;
    }
    let held = machine.take_own(agent);
    machine.pass(Duration::from_secs(1));
    machine.pass(Duration::from_secs(1));
    assert_eq!(machine.lost(held), None);
    assert!(machine.usage().is_some());
}

/// Somebody who comes back to what only an owner knew, which is to be written now: the adoption, the
/// transaction, and where the answer is heard.
fn adoption() -> (Machine, u64, Transaction, oneshot::Receiver<Vec<Option<Ticket>>>) {
    let mut machine = Machine::new();
    let comes = machine.agent(1);
    let (answer, answered) = oneshot::channel();
    let kind = RequestKind::Wait(Mode::Exclusive);
    let token = Some(crate::tokens::counted(MADE, 1));
    let claim = Claim { name: of("db"), kind, token, since: 0 };
    machine.keeper.hear(Message::Recall { serial: comes, claims: vec![claim], answer });
    let mut adopted = adoptions(machine.listed(&[owned_by_another()]));
    let (of, transaction) = adopted.pop().expect("it is adopted");
    (machine, of, transaction, answered)
}

/// What says that a name is another's, under a lease that is not ours.
fn owned_by_another() -> KeyValue {
    let value = ownership::owning(2, LEASE, 0, "").value;
    let key = BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(2);
    KeyValue { key, value, made: MADE, written: MADE, lease: LEASE }
}

/// What is to be written for those who come back.
fn adoptions(calls: Vec<Call>) -> Vec<(u64, Transaction)> {
    let adopts = |call: Call| match call {
        Call::Adopt { of, transaction } => Some((of, transaction)),
        _ => None,
    };
    calls.into_iter().filter_map(adopts).collect()
}

#[test]
fn who_comes_back_to_what_only_an_owner_knew_finds_it_though_a_list_fails() {
    let (mut machine, adoption, transaction, mut answered) = adoption();
    let [Step::Within(within)] = &*transaction.then else { panic!("{transaction:?}") };
    let Step::Put { key, value, lease } = within.then[0].clone() else { panic!("{within:?}") };
    let revision = MADE + 5;
    let within = Answer { revision, cluster: 1, succeeded: true, results: Vec::new() };
    let results = vec![StepResult::Within(within)];
    let answer = Answer { revision, cluster: 1, succeeded: true, results };
    machine.keeper.done(Done::Adopted(adoption, Ok(answer)));
    for call in machine.calls() {
        let Call::List { of, known, .. } = call else { continue };
        let failure = Failure::Unknown("lost".to_owned());
        machine.keeper.done(Done::Listed(of, known, Err(failure)));
    }
    machine.pass(Duration::from_millis(200));
    let lock = KeyValue { key, value, made: revision, written: revision, lease };
    for call in machine.calls() {
        let Call::List { of, known, .. } = call else { continue };
        let listing = Listing { revision, cluster: 1, found: vec![lock.clone()], left_out: 0 };
        machine.keeper.done(Done::Listed(of, known, Ok(listing)));
    }
    assert!(answered.try_recv().expect("it is answered")[0].is_some());
}

#[test]
fn what_is_to_be_written_for_who_comes_back_is_tried_again_in_a_moment() {
    let (mut machine, adoption, _, mut answered) = adoption();
    let lost = || Err(Failure::Unknown("lost".to_owned()));
    machine.keeper.done(Done::Adopted(adoption, lost()));
    assert!(adoptions(machine.listed(&[owned_by_another()])).is_empty(), "at once");
    machine.pass(Duration::from_millis(200));
    let again = adoptions(machine.listed(&[owned_by_another()]));
    assert_eq!(again.len(), 1);
    assert_eq!(answered.try_recv(), Err(oneshot::error::TryRecvError::Empty));
}

#[test]
fn what_cannot_be_written_for_who_comes_back_is_lost() {
    let (mut machine, adoption, _, mut answered) = adoption();
    let within = Answer { revision: 9, cluster: 1, succeeded: false, results: Vec::new() };
    let results = vec![StepResult::Within(within)];
    let answer = Answer { revision: 9, cluster: 1, succeeded: true, results };
    machine.keeper.done(Done::Adopted(adoption, Ok(answer)));
    for call in machine.calls() {
        assert!(!matches!(call, Call::Adopt { .. }));
        let Call::List { of, known, .. } = call else { continue };
        let found = vec![owned_by_another()];
        let listing = Listing { revision: 9, cluster: 1, found, left_out: 0 };
        machine.keeper.done(Done::Listed(of, known, Ok(listing)));
    }
    assert!(adoptions(machine.calls()).is_empty());
    assert_eq!(answered.try_recv().expect("it is answered"), [None]);
}

impl Machine {
    /// Somebody asks for the name, as long as that is not listed. The request, and the list once it is watched.
    fn ask(&mut self, kind: RequestKind, is_granted: bool) -> (RequestId, Option<(Listed, Known)>) {
        let (agent, serial) = self.open_agent(1);
        let (id, _) = self.call(agent, kind);
        self.keeper.hear(Message::Request { bucket: 0, serial, id, name: of("db") });
        let mut list = None;
        while let Some(call) = self.keeper.next_call() {
            match call {
                Call::Lease { .. } => {
                    let sent = Moment::now_at(self.now);
                    let lease = LeaseName { cluster: 1, id: OWN };
                    let term = Term { sent, time_to_live: TIME_TO_LIVE };
                    self.keeper.done(Done::Leased(Ok((lease, term))));
                }
                Call::Operate { of, .. } => {
                    let results = vec![StepResult::Done];
                    let answer = Answer { revision: 5, cluster: 1, succeeded: is_granted, results };
                    self.keeper.done(Done::Operated(of, Ok(answer)));
                }
                Call::Watch { watch, .. } => {
                    self.keeper.hear(Message::Watched { watch, watched: Watched::Up });
                }
                Call::List { of, known, .. } => list = Some((of, known)),
                _ => {}
            }
        }
        (id, list)
    }
}

/// What a list shows of a key of ours that is there since the fifth revision.
fn listed(slot: u64, phase: Phase) -> KeyValue {
    let request = RequestKey { owner: 1, slot };
    let name = BucketKeys::new("n", "b").name(&NameKey::new(&of("db")));
    let key = name.request(phase, Mode::Exclusive, request);
    let value = ownership::owning(1, OWN, 0, "").value;
    KeyValue { key, value, made: 5, written: 5, lease: OWN }
}

/// A request becomes a lock.
fn granted(slot: u64, revision: i64) -> [mirror::Event; 2] {
    let request = RequestKey { owner: 1, slot };
    let lock = told(request, Phase::Held, revision, Some(revision));
    [told(request, Phase::Queued, revision, None), lock]
}

#[test]
fn who_is_granted_a_name_that_is_being_listed_does_not_wait_for_the_list() {
    let mut machine = Machine::new();
    let (waits, list) = machine.ask(RequestKind::Wait(Mode::Exclusive), false);
    machine.hear_of(6, &[(3, Phase::Owned, None)]);
    assert_eq!(machine.shared.table().status(waits), Status::Pending(5));
    machine.hear_all(granted(0, 7).into());
    assert_eq!(machine.shared.table().status(waits), Status::Held(Grant::at(7)));
    // Which is of before that.
    let (of, known) = list.expect("it is being listed");
    let listing = Listing { revision: 5, cluster: 1, found: Vec::new(), left_out: 0 };
    machine.keeper.done(Done::Listed(of, known, Ok(listing)));
    assert_eq!(machine.shared.table().status(waits), Status::Held(Grant::at(7)));
}

#[test]
fn who_is_granted_a_name_that_was_taken_from_one_beside_it_hears_of_that_no_sooner_than_that_one() {
    let mut machine = Machine::new();
    let (robbed, list) = machine.ask(RequestKind::Steal, true);
    assert!(matches!(machine.shared.table().status(robbed), Status::Held(_)));
    let (waits, _) = machine.ask(RequestKind::Wait(Mode::Exclusive), false);
    let thief = RequestKey { owner: 3, slot: 0 };
    machine.hear_all(vec![
        told(RequestKey { owner: 1, slot: 0 }, Phase::Held, 6, None),
        told(thief, Phase::Held, 6, Some(6)),
    ]);
    let [asked, lock] = granted(1, 7);
    machine.hear_all(vec![told(thief, Phase::Held, 7, None), asked, lock]);
    assert_eq!(machine.lost(robbed), None);
    assert_eq!(machine.shared.table().status(waits), Status::Pending(5));
    let (of, known) = list.expect("it is being listed");
    let found = vec![listed(0, Phase::Held), listed(1, Phase::Queued)];
    let listing = Listing { revision: 5, cluster: 1, found, left_out: 0 };
    machine.keeper.done(Done::Listed(of, known, Ok(listing)));
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
    machine.hear_all(events);
    assert_eq!(machine.shared.table().status(first), Status::Held(Grant::at(7)));
    assert_eq!(machine.shared.table().status(second), Status::Pending(5));
    let (of, known) = list.expect("it is being listed");
    let found = vec![listed(0, Phase::Queued), listed(1, Phase::Queued)];
    let listing = Listing { revision: 5, cluster: 1, found, left_out: 0 };
    machine.keeper.done(Done::Listed(of, known, Ok(listing)));
    assert_eq!(machine.lost(first), Some(Lost::Stolen));
    assert_eq!(machine.shared.table().status(second), Status::Held(Grant::at(9)));
}

#[test]
fn a_name_of_which_somebody_has_lost_a_lock_that_only_its_owner_knew_stays_until_its_lease_ends() {
    let mut machine = Machine::new();
    let comes = machine.agent(1);
    let (answer, mut answered) = oneshot::channel();
    let kind = RequestKind::Wait(Mode::Exclusive);
    let claim = |name: &str, token| Claim { name: of(name), kind, token: Some(token), since: 0 };
    let claims = vec![
        claim("db", crate::tokens::counted(MADE, 1)),
        claim("written", crate::tokens::token(MADE)),
    ];
    machine.keeper.hear(Message::Recall { serial: comes, claims, answer });
    machine.listed(&[]);
    assert_eq!(answered.try_recv().expect("it is answered"), [None, None]);
    let spared = machine.keeper.not_gone_on_with();
    let owned = |name: &str| BucketKeys::new("n", "b").name(&NameKey::new(&of(name))).owned(2);
    let is_spared = |name: &str| spared.iter().any(|begin| owned(name).starts_with(begin));
    assert!(is_spared("db") && !is_spared("written") && !is_spared("other"), "{spared:?}");
}

#[test]
fn who_is_late_to_come_back_to_what_only_an_owner_knew_leaves_it_until_its_lease_ends() {
    let mut machine = Machine::new();
    let comes = machine.agent(1);
    let (answer, mut answered) = oneshot::channel();
    let kind = RequestKind::Wait(Mode::Exclusive);
    let token = Some(crate::tokens::counted(MADE, 1));
    let claim = Claim { name: of("db"), kind, token, since: 0 };
    machine.keeper.hear(Message::Recall { serial: comes, claims: vec![claim], answer });
    // Etcd does not answer.
    for _ in 0..60 {
        machine.pass(Duration::from_millis(200));
    }
    assert_eq!(answered.try_recv().expect("it is answered"), [None]);
    assert_eq!(machine.keeper.not_gone_on_with().len(), 1);
}

#[test]
fn a_name_that_becomes_ones_own_while_the_connection_ends_is_given_up() {
    let mut machine = Machine::new();
    machine.keeper.options.taken = 1;
    let (agent, _) = machine.open_agent(1);
    let (held, _) = machine.take(agent, "db", 5);
    let finished = machine.shared.table().finish(held).and_then(|ending| ending.finished);
    machine.keeper.hear(Message::Finish { id: held, finished: finished.unwrap() });
    let mut owning = machine.calls().into_iter().filter_map(|call| match call {
        Call::Operate { of, .. } => Some(of),
        _ => None,
    });
    let owning = owning.next().expect("it is to be its own");
    machine.keeper.quit();
    let (revision, results) = (6, Vec::new());
    let answer = Answer { revision, cluster: 1, succeeded: true, results };
    machine.keeper.done(Done::Operated(owning, Ok(answer)));
    let key = BucketKeys::new("n", "b").name(&NameKey::new(&of("db"))).owned(1);
    assert_eq!(deleted(&machine.calls()), [key]);
    assert!(machine.usage().is_none(), "it is its own still");
}
