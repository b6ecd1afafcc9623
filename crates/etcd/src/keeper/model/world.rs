//! Machines that share an etcd, and what can happen next.

mod fingerprint;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use navlock_core::{
    AgentInfo, ClientId, Lost, Mode, ResourceName,
    host::{Claim, RequestKind, Ticket},
};
use navlock_engine::{AgentId, FencingToken, RequestId};
use tokio::sync::oneshot;

use super::etcd::{Etcd, order, steals};
use crate::{
    clock::{self, Moment},
    data::Transaction,
    failure::{Failure, place_removed},
    keeper::{AgentSerial, Call, Done, Keeper, Message, Shared},
    keys::{BucketKeys, LockKey, NameKey, Phase},
    lease::{LeaseName, Term, Word},
    mirror::{Event, Put},
    options::EtcdOptions,
    table::{Ending, HeldHere, Here, State, Status, Terminated},
    tokens::{Grant, revision},
    transactions::Owning,
    view::UNUSED,
    watch::Watched,
};

/// So long that nothing but a [cut](Step::Cut) ends it.
const TIME_TO_LIVE: Duration = Duration::from_secs(1000);

/// How much of that is left when a machine counts its leases as over and etcd does not: half of the
/// margin, and what clocks go apart.
const REST: Duration = Duration::from_millis(1500);

/// How many agents of a machine have a lease when it begins.
const WARM: usize = 2;

/// So often each machine looks after itself before it is taken that nothing comes of it.
const ROUNDS: usize = 2;

/// What somebody on a machine does, in this order, whenever the explorer lets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Request(&'static str, RequestKind),
    /// The same by another agent than the first, which is number 0.
    RequestBy(usize, &'static str, RequestKind),
    /// Releases or aborts the nth request.
    Finish(usize),
    /// An agent ends, with all that it has.
    End(usize),
    /// An agent says something of itself.
    Describe(usize),
    /// Nobody uses the bucket any more.
    Close,
    /// An agent comes that uses another bucket.
    OpenElsewhere,
}

impl Act {
    /// Whose request it is, by number on its machine.
    fn agent(&self) -> usize {
        match *self {
            Self::RequestBy(agent, ..) | Self::End(agent) | Self::Describe(agent) => agent,
            Self::Request(..) | Self::Finish(_) | Self::Close | Self::OpenElsewhere => 0,
        }
    }

    /// What it asks for a lock of, if it does.
    fn name(&self) -> Option<&'static str> {
        match *self {
            Self::Request(name, _) | Self::RequestBy(_, name, _) => Some(name),
            _ => None,
        }
    }

    /// What it asks for, if it does.
    fn kind(&self) -> Option<RequestKind> {
        match *self {
            Self::Request(_, kind) | Self::RequestBy(_, _, kind) => Some(kind),
            _ => None,
        }
    }
}

/// What may go wrong, and how often in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// A call is lost, or its answer is, or it comes late.
    pub(super) calls: u32,
    /// A watch ends and begins anew.
    pub(super) watches: u32,
    /// A machine is cut off for longer than its leases last.
    pub(super) cuts: u32,
    /// It notices that before its leases are over for etcd as well.
    pub(super) notices: u32,
    /// A process is killed, and another one goes on for its clients.
    pub(super) kills: u32,
    /// Somebody ends a lease that is kept.
    pub(super) revokes: u32,
    /// Somebody removes a lock or a request.
    pub(super) evictions: u32,
    /// A machine has done nothing for so long that it forgets the names that it does not use.
    pub(super) pauses: u32,
}

impl Faults {
    pub(super) fn each(&mut self) -> [&mut u32; 8] {
        let Self { calls, watches, cuts, notices, kills, revokes, evictions, pauses } = self;
        [calls, watches, cuts, notices, kills, revokes, evictions, pauses]
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The script of a machine goes on.
    Act(usize),
    /// Etcd gets a call of a machine.
    Execute(usize, usize),
    /// A machine gets an answer.
    Answer(usize, usize),
    /// A machine hears by its nth watch of the next revision.
    Hear(usize, usize),
    Lose(usize, usize),
    LoseAnswer(usize, usize),
    Delay(usize, usize),
    /// All watches of a machine end, and begin anew.
    BreakWatch(usize),
    /// A machine forgets the names that it does not use.
    Pause(usize),
    /// A machine is cut off until its clock has passed the end of its leases, which etcd keeps for a
    /// moment more. What works under its locks is told to end.
    Cut(usize),
    /// It notices that, and etcd can be reached again.
    Notice(usize),
    /// Etcd may end those leases by now. What worked under the locks has ended.
    Over(usize),
    /// Etcd ends a lease that nobody keeps.
    Expire(i64),
    /// Somebody ends the nth lease that a machine keeps.
    Revoke(usize, usize),
    /// Somebody removes the nth lock or request that there is.
    Evict(usize),
    /// A machine hears that a lease of its is gone.
    HearGone(usize),
    Kill(usize),
    /// Nothing else happens: a machine looks after itself.
    Tick(usize),
}

/// A call on its way.
#[derive(Debug)]
enum Flight {
    /// To etcd.
    Out(Call),
    /// Back.
    Back(Done),
    /// Given up by who sent it; etcd may get it still.
    Late(Transaction),
}

pub(super) struct World {
    pub(super) etcd: Etcd,
    machines: Vec<Machine>,
    faults: Faults,
    /// Leases that are not kept any more.
    unkept: Vec<i64>,
    /// How often a machine has looked after itself since this revision.
    ticks: (i64, usize),
    /// The revision at which somebody who had asked the owner of a name for it looked again.
    looked: i64,
    next_owner: u128,
    has_thief: bool,
    /// What could go wrong in all.
    all_faults: Faults,
    owns: bool,
    /// Whether a holder may have lost its lock before it hears of that.
    has_overlap: bool,
    /// Whom something has happened to by which it may lose what it has: machines and agents.
    troubled: BTreeSet<(usize, usize)>,
    /// Which request was granted with each token: of which machine, and its number in the script.
    tokens: BTreeMap<u64, (usize, usize)>,
}

struct Machine {
    script: Vec<Act>,
    acted: usize,
    now: Duration,
    shared: Arc<Shared>,
    keeper: Keeper,
    agents: Vec<ModelAgent>,
    /// What it has asked for, by number in the script.
    requests: Vec<Asked>,
    flights: Vec<Flight>,
    /// By number.
    watches: BTreeMap<u64, Watching>,
    kept: Vec<i64>,
    /// What has come of a cut, until that is over.
    cut: Option<Cut>,
    /// Leases that it still keeps, and that somebody has ended.
    revoked: Vec<i64>,
}

/// A machine's leases are over by its clock, and not by that of etcd.
#[derive(Debug, Default)]
struct Cut {
    leases: Vec<i64>,
    /// The requests under whose locks something works still, by number in the script, and the tokens
    /// of those.
    working: Vec<(usize, FencingToken)>,
}

/// A watch of a name.
struct Watching {
    prefix: Vec<u8>,
    /// How much of the log it has told.
    heard: usize,
}

impl Watching {
    /// What it has not told yet, and where in the log that is.
    fn rest<'a>(&'a self, etcd: &'a Etcd) -> impl Iterator<Item = (usize, Vec<&'a Event>)> {
        let log = etcd.log.iter().enumerate().skip(self.heard);
        let is_its = |event: &&Event| etcd.keys.name(&event.key.name).all() == self.prefix;
        let its = log.map(move |(at, events)| (at, events.iter().filter(is_its).collect()));
        its.filter(|(_, events): &(_, Vec<_>)| !events.is_empty())
    }
}

/// An agent on a machine.
struct ModelAgent {
    client: ClientId,
    agent: AgentId,
    serial: AgentSerial,
    recall: Option<oneshot::Receiver<Vec<Option<Ticket>>>>,
    /// Which of its requests were claimed.
    claimed: Vec<usize>,
}

/// A request, as its user sees it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Whose it is, by number on its machine.
    agent: usize,
    name: &'static str,
    kind: RequestKind,
    since: u64,
    /// `None` while it is being recalled, and once it has ended.
    id: Option<RequestId>,
    ended: bool,
}

impl World {
    /// Each machine has a lease; it watches the names that are to be used already, if it is warm. It
    /// `owns` names once it has taken them, or never does.
    pub(super) fn new(scripts: &[&[Act]], faults: Faults, is_warm: bool, owns: bool) -> Self {
        clock::set::to(Duration::from_secs(1));
        let etcd = Etcd::new(BucketKeys::new("n", "b"));
        let is_theft =
            |script: &&[Act]| script.iter().any(|act| act.kind() == Some(RequestKind::Steal));
        let mut world = Self {
            etcd,
            machines: Vec::new(),
            faults,
            unkept: Vec::new(),
            ticks: (0, 0),
            looked: 0,
            next_owner: 0,
            tokens: BTreeMap::new(),
            has_overlap: false,
            troubled: BTreeSet::new(),
            has_thief: scripts.iter().any(is_theft),
            all_faults: faults,
            owns: false,
        };
        for (nth, script) in scripts.iter().enumerate() {
            let count = script.iter().map(Act::agent).max().unwrap_or_default() + 1;
            let client = |agent| {
                let mut bytes = [u8::try_from(nth).expect("few"); 16];
                bytes[0] = u8::try_from(agent).expect("few");
                ClientId::from_bytes(bytes)
            };
            let clients: Vec<_> = (0..count).map(client).collect();
            let machine = world.machine(&clients, script.to_vec());
            world.machines.push(machine);
        }
        world.warm_up(is_warm);
        world.owns = owns;
        for machine in world.machines.iter_mut().filter(|_| owns) {
            machine.own_names();
        }
        world
    }

    /// Has the first two agents of each machine have their leases, and perhaps each machine its
    /// watches: how it comes to them is the same each time.
    fn warm_up(&mut self, is_warm: bool) {
        let faults = std::mem::take(&mut self.faults);
        let scripts: Vec<_> =
            self.machines.iter_mut().map(|machine| std::mem::take(&mut machine.script)).collect();
        let mut names: Vec<&str> = scripts.iter().flatten().filter_map(Act::name).collect();
        names.sort_unstable();
        names.dedup();
        if !is_warm || names.is_empty() {
            names = vec!["warm"];
        }
        for nth in 0..self.machines.len() {
            for agent in 0..self.machines[nth].agents.len().min(WARM) {
                // By the first of them they are known to all of a machine.
                let unknown = if agent == 0 { names.len() } else { 1 };
                for name in &names[..unknown] {
                    let kind = RequestKind::Wait(Mode::Exclusive);
                    let id = self.machines[nth].request(agent, name, kind);
                    self.run_dry();
                    self.machines[nth].finish(id);
                    self.run_dry();
                }
            }
        }
        self.faults = faults;
        for (machine, script) in self.machines.iter_mut().zip(scripts) {
            machine.script = script;
        }
        self.etcd.log.clear();
        for machine in &mut self.machines {
            machine.watches.values_mut().for_each(|watching| watching.heard = 0);
        }
    }

    fn run_dry(&mut self) {
        self.collect();
        while let Some(&step) = self.steps().first() {
            if matches!(step, Step::Tick(_)) {
                break;
            }
            self.take_again(step);
        }
    }

    fn machine(&mut self, clients: &[ClientId], script: Vec<Act>) -> Machine {
        self.next_owner += 1;
        let options = EtcdOptions::new(["x"]).namespace("n").time_to_live(TIME_TO_LIVE);
        let shared = Arc::new(Shared::default());
        let mut keeper = Keeper::new(Arc::clone(&shared), options, self.next_owner);
        let bucket = shared.table().open_bucket("b");
        keeper.hear(Message::OpenBucket { bucket, name: "b".to_owned() });
        let modelled = |&client_id| {
            let (agent, serial) = shared.table().open_agent(bucket);
            keeper.hear(Message::OpenAgent { bucket: 0, serial, agent, client_id });
            ModelAgent { client: client_id, agent, serial, recall: None, claimed: Vec::new() }
        };
        let agents = clients.iter().map(modelled).collect();
        let mut machine = Machine {
            script,
            acted: 0,
            now: Duration::from_secs(1),
            shared,
            keeper,
            agents,
            requests: Vec::new(),
            flights: Vec::new(),
            watches: BTreeMap::new(),
            kept: Vec::new(),
            cut: None,
            revoked: Vec::new(),
        };
        if self.owns {
            machine.own_names();
        }
        machine
    }

    /// Whether a name is owned.
    pub(super) fn has_owned(&self) -> bool {
        self.etcd.entries().iter().any(|(key, _)| key.phase == Phase::Owned)
    }

    /// All that can happen next, always in the same order. Empty when nothing is left to happen.
    pub(super) fn steps(&self) -> Vec<Step> {
        let (mut steps, mut later) = (Vec::new(), Vec::new());
        for (nth, machine) in self.machines.iter().enumerate() {
            for (at, flight) in machine.flights.iter().enumerate() {
                match flight {
                    Flight::Out(Call::Pause { of, .. }) if of.asked.is_some() => {
                        later.push(Step::Execute(nth, at));
                    }
                    Flight::Out(_) | Flight::Late(_) => steps.push(Step::Execute(nth, at)),
                    Flight::Back(_) => steps.push(Step::Answer(nth, at)),
                }
            }
            for (at, watching) in machine.watches.values().enumerate() {
                if watching.rest(&self.etcd).next().is_some() {
                    steps.push(Step::Hear(nth, at));
                }
            }
            if machine.may_act() {
                steps.push(Step::Act(nth));
            }
            if !machine.revoked.is_empty() {
                steps.push(Step::HearGone(nth));
            }
            if machine.cut.is_some() {
                steps.push(Step::Over(nth));
            }
        }
        steps.extend(self.unkept.iter().map(|&lease| Step::Expire(lease)));
        let is_busy = !steps.is_empty();
        for (nth, machine) in self.machines.iter().enumerate() {
            for (at, flight) in machine.flights.iter().enumerate() {
                let Flight::Out(Call::Operate { .. }) = flight else { continue };
                if self.faults.calls > 0 {
                    steps.extend([
                        Step::Lose(nth, at),
                        Step::LoseAnswer(nth, at),
                        Step::Delay(nth, at),
                    ]);
                }
            }
            if self.faults.notices > 0 && machine.cut.is_some() {
                steps.push(Step::Notice(nth));
            }
            let has_any = !machine.kept.is_empty();
            if self.faults.watches > 0 && !machine.watches.is_empty() && is_busy {
                steps.push(Step::BreakWatch(nth));
            }
            let is_cut = machine.cut.is_some();
            if self.faults.pauses > 0 && !machine.watches.is_empty() && is_busy && !is_cut {
                steps.push(Step::Pause(nth));
            }
            if self.faults.cuts > 0 && has_any && is_busy && !is_cut {
                steps.push(Step::Cut(nth));
            }
            if self.faults.revokes > 0 && is_busy {
                steps.extend((0..machine.kept.len()).map(|at| Step::Revoke(nth, at)));
            }
            if self.faults.kills > 0 && has_any && is_busy {
                steps.push(Step::Kill(nth));
            }
        }
        if self.faults.evictions > 0 && is_busy {
            steps.extend((0..self.etcd.entries().len()).map(Step::Evict));
        }
        let ticks = self.ticks();
        let is_new = self.looked != self.etcd.revision && !later.is_empty();
        if !is_busy && !is_new && ticks < ROUNDS * self.machines.len() {
            steps.push(Step::Tick(ticks % self.machines.len()));
        }
        if !is_busy && is_new || steps.is_empty() {
            steps.extend(later);
        }
        steps
    }

    fn ticks(&self) -> usize {
        let (revision, ticks) = self.ticks;
        if revision == self.etcd.revision { ticks } else { 0 }
    }

    /// Has it happen, and checks what must hold at any time.
    pub(super) fn take(&mut self, step: Step) {
        self.take_again(step);
        self.check();
    }

    /// The same where it has happened before, and all that must hold did.
    pub(super) fn take_again(&mut self, step: Step) {
        match step {
            Step::Act(nth) => self.machines[nth].act(),
            Step::Execute(nth, at) => self.execute(nth, at),
            Step::Answer(nth, at) => {
                let Flight::Back(done) = self.machines[nth].flights.remove(at) else { return };
                self.machines[nth].within(|keeper| keeper.done(done));
            }
            Step::Hear(nth, at) => self.hear(nth, at),
            Step::Lose(nth, at) => {
                self.faults.calls -= 1;
                self.machines[nth].fail(at);
            }
            Step::LoseAnswer(nth, at) => {
                self.faults.calls -= 1;
                let machine = &mut self.machines[nth];
                if let Flight::Out(Call::Operate { transaction, .. }) = &machine.flights[at] {
                    let _ = self.etcd.transact(transaction);
                }
                machine.fail(at);
            }
            Step::Delay(nth, at) => {
                self.faults.calls -= 1;
                let machine = &mut self.machines[nth];
                if let Flight::Out(Call::Operate { transaction, .. }) = &machine.flights[at] {
                    let late = Flight::Late(transaction.clone());
                    machine.flights.push(late);
                }
                machine.fail(at);
            }
            Step::BreakWatch(nth) => {
                self.faults.watches -= 1;
                self.break_watches(nth);
            }
            Step::Pause(nth) => {
                self.faults.pauses -= 1;
                self.machines[nth].pause();
            }
            Step::Cut(nth) => self.cut(nth),
            Step::Notice(nth) => {
                self.faults.notices -= 1;
                self.machines[nth].within(Keeper::tick);
            }
            Step::Over(nth) => {
                let machine = &mut self.machines[nth];
                machine.now += REST;
                let cut = machine.cut.take().expect("it was cut off");
                self.unkept.extend(cut.leases);
            }
            Step::Expire(lease) => {
                self.unkept.retain(|&unkept| unkept != lease);
                self.etcd.end_lease(lease);
            }
            Step::Revoke(nth, at) => {
                self.faults.revokes -= 1;
                self.has_overlap = true;
                let machine = &mut self.machines[nth];
                let lease = machine.kept.remove(at);
                machine.revoked.push(lease);
                let of = machine.agents_under(lease);
                self.troubled.extend(of.into_iter().map(|agent| (nth, agent)));
                self.etcd.end_lease(lease);
            }
            Step::Evict(at) => {
                self.faults.evictions -= 1;
                let value = self.etcd.evict(at);
                let whose = |modelled: &ModelAgent| modelled.client == value.client_id;
                for (nth, machine) in self.machines.iter().enumerate() {
                    let agents = machine.agents.iter().position(whose);
                    self.troubled.extend(agents.map(|agent| (nth, agent)));
                    // Or of all of them, what said whose the name is.
                    let me = machine.keeper.slots.me();
                    if value.client_id == ClientId::from_bytes(me.to_be_bytes()) {
                        self.troubled.extend((0..machine.agents.len()).map(|agent| (nth, agent)));
                    }
                }
                self.has_overlap = true;
            }
            Step::HearGone(nth) => {
                let machine = &mut self.machines[nth];
                let lease = machine.revoked.remove(0);
                let word = Word::Gone;
                machine.within(|keeper| keeper.hear(Message::Lease { lease, word }));
            }
            Step::Kill(nth) => self.kill(nth),
            Step::Tick(nth) => {
                self.machines[nth].tick();
                self.ticks = (self.etcd.revision, self.ticks() + 1);
            }
        }
        self.collect();
        self.note_tokens();
    }

    /// Cuts a machine off, for nearly as long as its leases last.
    fn cut(&mut self, nth: usize) {
        self.faults.cuts -= 1;
        self.trouble(nth);
        let machine = &mut self.machines[nth];
        let working = machine.holds();
        machine.now += TIME_TO_LIVE.saturating_sub(REST);
        let leases = std::mem::take(&mut machine.kept);
        machine.cut = Some(Cut { leases, working });
    }

    /// Takes the calls that machines have to make.
    fn collect(&mut self) {
        for nth in 0..self.machines.len() {
            while let Some(call) = self.machines[nth].keeper.next_call() {
                match call {
                    Call::Watch { watch, prefix, from, .. } => {
                        let log = &self.etcd.log;
                        let is_told =
                            |from: i64| log.iter().position(|events| events[0].revision >= from);
                        let heard = from.and_then(is_told).unwrap_or(log.len());
                        let watching = Watching { prefix, heard };
                        self.machines[nth].watches.insert(watch, watching);
                        if from.is_none() {
                            self.begin_watch(nth, watch);
                        }
                    }
                    Call::Unwatch { watch } => {
                        self.machines[nth].watches.remove(&watch);
                    }
                    Call::Keep { lease, time_to_live: Some(_), .. } => {
                        self.machines[nth].kept.push(lease);
                    }
                    Call::LetGo { lease } => {
                        let machine = &mut self.machines[nth];
                        machine.revoked.retain(|&revoked| revoked != lease);
                        // Nor does it begin to keep it.
                        machine.flights.retain(|flight| match flight {
                            Flight::Out(Call::Keep { lease: of, .. }) => *of != lease,
                            _ => true,
                        });
                        if let Some(at) = machine.kept.iter().position(|&kept| kept == lease) {
                            machine.kept.remove(at);
                            // It lasts until then at least.
                            let cut = machine.cut.as_mut().map(|cut| &mut cut.leases);
                            cut.unwrap_or(&mut self.unkept).push(lease);
                        }
                    }
                    call => {
                        self.machines[nth].check_call(&call);
                        self.machines[nth].flights.push(Flight::Out(call));
                    }
                }
            }
            self.machines[nth].take_recalled();
        }
    }

    /// A machine hears what its watch tells next.
    fn hear(&mut self, nth: usize, at: usize) {
        let machine = &mut self.machines[nth];
        let Some((&watch, watching)) = machine.watches.iter_mut().nth(at) else { return };
        let Some((at, events)) = watching.rest(&self.etcd).next() else { return };
        let events: Vec<Event> = events.into_iter().cloned().collect();
        watching.heard = at + 1;
        machine.watched(watch, Watched::Events(events));
    }

    fn break_watches(&mut self, nth: usize) {
        let watches: Vec<u64> = self.machines[nth].watches.keys().copied().collect();
        for watch in watches {
            self.begin_watch(nth, watch);
        }
    }

    fn begin_watch(&mut self, nth: usize, watch: u64) {
        let machine = &mut self.machines[nth];
        if let Some(watching) = machine.watches.get_mut(&watch) {
            watching.heard = self.etcd.log.len();
            machine.watched(watch, Watched::Up);
        }
    }

    fn execute(&mut self, nth: usize, at: usize) {
        let machine = &mut self.machines[nth];
        let sent = Moment::now_at(machine.now);
        let term = Term { sent, time_to_live: TIME_TO_LIVE };
        let done = match machine.flights.remove(at) {
            Flight::Late(transaction) => {
                let _ = self.etcd.transact(&transaction);
                return;
            }
            Flight::Back(_) => return,
            Flight::Out(call) => match call {
                Call::Operate { of, transaction } => {
                    Done::Operated(of, self.etcd.transact(&transaction))
                }
                Call::Pause { of, .. } => {
                    if of.asked.is_some() {
                        self.looked = self.etcd.revision;
                    }
                    Done::Paused(of)
                }
                Call::List { of, known, prefix, .. } => {
                    Done::Listed(of, known, Ok(self.etcd.list(&prefix)))
                }
                Call::Lease { .. } => {
                    let lease = LeaseName { cluster: 1, id: self.etcd.grant_lease() };
                    Done::Leased(Ok((lease, term)))
                }
                Call::Revoke { lease } => {
                    self.unkept.retain(|&unkept| unkept != lease);
                    self.etcd.end_lease(lease);
                    return;
                }
                Call::LookUnder { lease, why } => {
                    Done::Under(lease, why, Ok(self.etcd.under(lease)))
                }
                Call::Write { transaction } => {
                    let _ = self.etcd.transact(&transaction);
                    return;
                }
                Call::Adopt { of, transaction } => {
                    Done::Adopted(of, self.etcd.transact(&transaction))
                }
                Call::Describe { of, transaction } => {
                    let _ = self.etcd.transact(&transaction);
                    Done::Described(of)
                }
                Call::Keep { lease, .. } => {
                    let word = if self.etcd.leases.contains(&lease) {
                        self.unkept.retain(|&unkept| unkept != lease);
                        if let Some(cut) = &mut machine.cut {
                            cut.leases.retain(|&kept| kept != lease);
                        }
                        if !machine.kept.contains(&lease) {
                            machine.kept.push(lease);
                        }
                        Word::Renewed(term)
                    } else {
                        Word::Gone
                    };
                    machine.within(|keeper| keeper.hear(Message::Lease { lease, word }));
                    return;
                }
                _ => return,
            },
        };
        match done {
            Done::Operated(..) => machine.flights.push(Flight::Back(done)),
            // FAST: what else comes back can as well be thought to be asked for later.
            done => machine.within(|keeper| keeper.done(done)),
        }
    }

    /// The process is killed. Another one goes on for its client, who knows what it has seen.
    fn kill(&mut self, nth: usize) {
        self.faults.kills -= 1;
        let old = &mut self.machines[nth];
        self.unkept.append(&mut old.kept);
        self.unkept.extend(old.cut.take().into_iter().flat_map(|cut| cut.leases));
        let late = old.flights.drain(..).filter_map(|flight| match flight {
            Flight::Out(Call::Operate { transaction, .. }) | Flight::Late(transaction) => {
                Some(Flight::Late(transaction))
            }
            _ => None,
        });
        let late: Vec<Flight> = late.collect();
        let clients: Vec<_> = old.agents.iter().map(|modelled| modelled.client).collect();
        let (script, acted) = (old.script.clone(), old.acted);
        let mut claims: Vec<Vec<Claim>> = clients.iter().map(|_| Vec::new()).collect();
        let mut claimed: Vec<Vec<usize>> = clients.iter().map(|_| Vec::new()).collect();
        let mut requests = Vec::new();
        for (number, asked) in std::mem::take(&mut old.requests).into_iter().enumerate() {
            let status = asked.id.map(|id| old.status(id));
            let token = match status {
                Some((Status::Held(grant), false)) => Some(Some(grant.token)),
                Some((Status::Pending(_), _)) => Some(None),
                _ => None,
            };
            if let Some(token) = token.filter(|_| !asked.ended) {
                let name = name(asked.name);
                let claim = Claim { name, kind: asked.kind, token, since: asked.since };
                claims[asked.agent].push(claim);
                claimed[asked.agent].push(number);
            }
            requests.push(Asked { id: None, ..asked });
        }
        let now = old.now;
        // Who had nothing has nothing to lose.
        let had = claims.iter().enumerate().filter(|(_, claims)| !claims.is_empty());
        self.troubled.extend(had.map(|(agent, _)| (nth, agent)));
        let mut new = self.machine(&clients, script);
        new.now = now;
        for (agent, (claims, claimed)) in claims.into_iter().zip(claimed).enumerate() {
            let (answer, answered) = oneshot::channel();
            let modelled = &mut new.agents[agent];
            (modelled.claimed, modelled.recall) = (claimed, Some(answered));
            let serial = modelled.serial;
            new.within(|keeper| keeper.hear(Message::Recall { serial, claims, answer }));
        }
        new.acted = acted;
        new.flights = late;
        new.requests = requests;
        self.machines[nth] = new;
    }

    /// All agents of a machine may lose what they have.
    fn trouble(&mut self, nth: usize) {
        let agents = 0..self.machines[nth].agents.len();
        self.troubled.extend(agents.map(|agent| (nth, agent)));
    }

    /// What there is of a request stands under the lease of its agent: it ends with what else that has.
    ///
    /// What says whose a name is belongs to no request: it is the machine's, and stands under the lease that
    /// this had when it asked for it. That may be another than its agents have by now, since they have lost
    /// theirs or go on with what they had before. It keeps others away and gives nobody anything: who holds the
    /// name because of it has to be under its lease, and so ends with it.
    fn check_leases(&self) {
        let entries = self.etcd.entries();
        for machine in &self.machines {
            let table = machine.shared.table();
            let lease_of = |serial| machine.keeper.agents.get(&serial)?.lease_id();
            for (_, name, request, _, serial) in table.alive() {
                let Some(lease) = lease_of(serial) else { continue };
                let is_its = |key: &LockKey| {
                    key.phase != Phase::Owned && key.name == *name && key.request == request
                };
                for (key, put) in entries.iter().filter(|(key, _)| is_its(key)) {
                    assert_eq!(
                        put.lease, lease,
                        "{key:?} stands under another lease than its agent's"
                    );
                }
            }
            let me = machine.keeper.slots.me();
            for HeldHere { name, made, lease, agent } in table.held_here() {
                assert_eq!(lease_of(agent), Some(lease), "{name:?} is held under another lease");
                let is_its = |(key, put): &&(LockKey, Put)| {
                    let is_ours = key.phase == Phase::Owned && key.request.owner == me;
                    is_ours && key.name == name && put.made == made
                };
                for (key, put) in entries.iter().filter(is_its) {
                    assert_eq!(put.lease, lease, "{key:?} outlives who holds by it, or they it");
                }
            }
        }
    }

    /// Each token is given once.
    fn note_tokens(&mut self) {
        for (nth, machine) in self.machines.iter().enumerate() {
            for (number, asked) in machine.requests.iter().enumerate() {
                let Some((Status::Held(grant), _)) = asked.id.map(|id| machine.status(id)) else {
                    continue;
                };
                let token = grant.token;
                let whose = (nth, number);
                let is_its = *self.tokens.entry(token.get()).or_insert(whose) == whose;
                assert!(is_its || asked.kind.mode() == Mode::Shared, "a token is given twice");
            }
        }
    }

    /// What must hold at any time.
    fn check(&self) {
        self.check_leases();
        for (nth, machine) in self.machines.iter().enumerate() {
            if !self.has_thief {
                for asked in &machine.requests {
                    let has_ended = !asked.ended
                        && asked.id.is_some_and(|id| machine.status(id).0 == Status::Ended);
                    let is_wait = matches!(asked.kind, RequestKind::Wait(_));
                    let troubled = self.troubled.contains(&(nth, asked.agent));
                    assert!(!has_ended || !is_wait || troubled, "{asked:?} is lost for nothing");
                    let mut table = machine.shared.table();
                    let state = asked.id.and_then(|id| Some(table.state(id)?.0));
                    let is_stolen = matches!(state, Some(State::Lost(Lost::Stolen)));
                    assert!(!is_stolen || self.has_overlap, "{asked:?} is said to be stolen");
                    let is_removed = match state {
                        Some(State::Failed(error)) => *error == place_removed(),
                        Some(State::Lost(how)) => *how == Lost::Removed,
                        _ => false,
                    };
                    assert!(!is_removed || self.has_overlap, "{asked:?} is said to be removed");
                }
            }
            // Of those that wait in one queue, the tokens grow in the order of the requests.
            let mut last = BTreeMap::new();
            for asked in &machine.requests {
                let Some((Status::Held(grant), _)) = asked.id.map(|id| machine.status(id)) else {
                    continue;
                };
                if matches!(asked.kind, RequestKind::Wait(_)) {
                    let before = last.insert((asked.name, asked.agent), grant.token);
                    assert!(before.is_none_or(|before| before <= grant.token), "tokens go back");
                }
            }
        }
        if self.has_overlap {
            return;
        }
        let mut believed: Vec<(&str, Mode)> = Vec::new();
        for machine in &self.machines {
            for (name, mode, token) in machine.believes() {
                // Who was robbed hears of that later, and may grant a name until then of which it was.
                let is_robbed = self.etcd.robbed.contains(&revision(token));
                if is_robbed || self.etcd.stolen.contains(&token) {
                    continue;
                }
                let excludes = |&(other, held): &(&str, Mode)| {
                    other == name && (mode, held) != (Mode::Shared, Mode::Shared)
                };
                assert!(!believed.iter().any(excludes), "two believe that they hold {name}");
                believed.push((name, mode));
            }
        }
    }

    /// What must hold when nothing is left to happen.
    pub(super) fn check_end(&mut self) {
        let (mut faults, robbed) = (self.all_faults, &self.etcd.robbed);
        let is_sound = faults.each().into_iter().all(|fault| *fault == 0);
        assert!(!is_sound || robbed.is_empty(), "{robbed:?} could have been asked for");
        let (owned, entries): (Vec<_>, Vec<_>) =
            self.etcd.entries().into_iter().partition(|(key, _)| key.phase == Phase::Owned);
        let mut known = 0;
        for (key, _) in &owned {
            let whose = |machine: &&Machine| machine.keeper.slots.me() == key.request.owner;
            let usage = self
                .machines
                .iter()
                .find(whose)
                .and_then(|machine| machine.shared.table().usage(&(0, key.name.clone())));
            assert!(usage.is_some_and(|usage| usage.is_held), "{key:?} is kept for nothing");
        }
        for machine in &mut self.machines {
            for number in 0..machine.requests.len() {
                let Asked { agent, name: of, kind, id, ended, .. } = &machine.requests[number];
                let client = machine.agents[*agent].client;
                let (of, kind, Some(id), false) = (*of, *kind, *id, *ended) else { continue };
                let (status, is_over) = machine.status(id);
                let phase = match status {
                    Status::Held(_) if !is_over => Phase::Held,
                    Status::Pending(_) => Phase::Queued,
                    _ => continue,
                };
                if machine.shared.table().is_here(id) {
                    let me = machine.keeper.slots.me();
                    let is_its = |(key, _): &(LockKey, _)| {
                        key.name == NameKey::new(&name(of)) && key.request.owner == me
                    };
                    assert!(owned.iter().any(is_its), "{of}: {status:?} is not its machine's");
                    continue;
                }
                let is_it = |(key, put): &&(LockKey, Put)| {
                    let value = crate::values::Value::decode(&put.value).expect("it is ours");
                    let held = match status {
                        Status::Held(held) => Grant::marked(put.made, value.mark) == held,
                        _ => true,
                    };
                    key.name == NameKey::new(&name(of))
                        && key.phase == phase
                        && key.mode == kind.mode()
                        && value.client_id == client
                        && held
                };
                assert!(entries.iter().any(|entry| is_it(&entry)), "{of}: {status:?} is not there");
                known += 1;
            }
        }
        assert_eq!(entries.len(), known, "there is what nobody has asked for: {entries:?}");
        // Whoever can be granted is.
        for (key, put) in entries.iter().filter(|(key, _)| key.phase == Phase::Queued) {
            let others = || entries.iter().filter(|(other, _)| other.name == key.name);
            let is_first = others()
                .filter(|(other, _)| other.phase == Phase::Queued)
                .all(|(_, other)| order(put) <= order(other));
            let mut held = others().filter(|(other, _)| other.phase == Phase::Held);
            let waits = match key.mode {
                Mode::Exclusive => held.next().is_some(),
                Mode::Shared => held.any(|(other, _)| other.mode == Mode::Exclusive),
            };
            // Who holds it as one of a run is known to its machine alone.
            let has_run =
                owned.iter().any(|(of, put)| of.name == key.name && Owning::is_for_run(&put.value));
            assert!(!is_first || waits || has_run, "nobody has granted {key:?}");
        }
    }
}

impl Machine {
    fn within<T>(&mut self, act: impl FnOnce(&mut Keeper) -> T) -> T {
        clock::set::to(self.now);
        act(&mut self.keeper)
    }

    /// It owns names once it has taken them.
    fn own_names(&mut self) {
        self.keeper.options.taken = 1;
        let views =
            self.keeper.buckets.values_mut().flat_map(|opened| opened.bucket.views.values_mut());
        views.for_each(|view| view.owned_after(1));
    }

    fn watched(&mut self, watch: u64, watched: Watched) {
        self.within(|keeper| keeper.hear(Message::Watched { watch, watched }));
    }

    /// Which agents have what they have under this lease, by number.
    fn agents_under(&self, lease: i64) -> Vec<usize> {
        let is_under = |modelled: &ModelAgent| {
            let agent = self.keeper.agents.get(&modelled.serial);
            agent.is_some_and(|agent| agent.lease_id() == Some(lease))
        };
        (0..self.agents.len()).filter(|&nth| is_under(&self.agents[nth])).collect()
    }

    fn status(&self, id: RequestId) -> (Status, bool) {
        clock::set::to(self.now);
        let mut table = self.shared.table();
        let is_over = table.state(id).is_some_and(|(_, is_over)| is_over);
        (table.status(id), is_over)
    }

    fn may_act(&self) -> bool {
        let is_recalling = self.agents.iter().any(|modelled| modelled.recall.is_some());
        match self.script.get(self.acted) {
            Some(_) => !is_recalling,
            None => false,
        }
    }

    fn act(&mut self) {
        let act = self.script[self.acted];
        self.acted += 1;
        match act {
            Act::Request(name, kind) | Act::RequestBy(_, name, kind) => {
                let agent = act.agent();
                self.now += Duration::from_nanos(1);
                let since = u64::try_from(self.now.as_nanos()).expect("it has just begun");
                let id = self.request(agent, name, kind);
                // An agent that has ended asks for nothing.
                let ended = id.is_none();
                self.requests.push(Asked { agent, name, kind, since, id, ended });
            }
            Act::Finish(number) => {
                let asked = &mut self.requests[number];
                asked.ended = true;
                let id = asked.id;
                self.finish(id);
            }
            Act::Describe(agent) => {
                let serial = self.agents[agent].serial;
                let mut info = AgentInfo::default();
                info.pid = u32::try_from(self.acted).expect("few");
                self.within(|keeper| keeper.hear(Message::Describe { serial, info }));
            }
            Act::Close => self.within(|keeper| keeper.hear(Message::CloseBucket { bucket: 0 })),
            Act::OpenElsewhere => {
                let mut table = self.shared.table();
                let bucket = table.open_bucket("c");
                let (agent, serial) = table.open_agent(bucket);
                drop(table);
                let client_id = ClientId::from_bytes([0xFF; 16]);
                let open = Message::OpenAgent { bucket, serial, agent, client_id };
                self.within(|keeper| {
                    keeper.hear(Message::OpenBucket { bucket, name: "c".to_owned() });
                    keeper.hear(open);
                });
            }
            Act::End(agent) => {
                for asked in self.requests.iter_mut().filter(|asked| asked.agent == agent) {
                    asked.ended = true;
                }
                let ModelAgent { agent, serial, .. } = self.agents[agent];
                clock::set::to(self.now);
                let Terminated { ended, over, .. } = self.shared.table().terminate(agent);
                self.within(|keeper| keeper.hear(Message::EndAgent { serial, ended }));
                self.leave(over);
            }
        }
    }

    fn finish(&mut self, id: Option<RequestId>) {
        let Some(id) = id else { return };
        clock::set::to(self.now);
        let ending = self.shared.table().finish(id);
        let Some(Ending { finished, over, .. }) = ending else { return };
        if let Some(finished) = finished {
            self.within(|keeper| keeper.hear(Message::Finish { id, finished }));
        }
        self.leave(over);
    }

    /// Names were its for a run that is over.
    fn leave(&mut self, over: impl IntoIterator<Item = (u64, NameKey)>) {
        for (bucket, name) in over {
            self.within(|keeper| keeper.hear(Message::Leave { bucket, name }));
        }
    }

    fn request(&mut self, agent: usize, of: &str, kind: RequestKind) -> Option<RequestId> {
        clock::set::to(self.now);
        let agent = self.agents[agent].agent;
        let made = self.shared.table().request(agent, &name(of), kind, Waker::noop());
        let (id, serial) = made.ok()?;
        let name = name(of);
        // As a caller does.
        let here = self.shared.table().take_here(id);
        match here {
            Some(Here::Answered { .. } | Here::Waits { is_known: true }) => return Some(id),
            Some(Here::Waits { is_known: false }) | None => {}
        }
        self.within(|keeper| keeper.hear(Message::Request { bucket: 0, serial, id, name }));
        Some(id)
    }

    /// A call that was not answered.
    fn fail(&mut self, at: usize) {
        if let Flight::Out(Call::Operate { of, .. }) = self.flights.remove(at) {
            let failure = Err(Failure::Unknown("lost".to_owned()));
            self.within(|keeper| keeper.done(Done::Operated(of, failure)));
        }
    }

    /// Goes on with what was recalled; asks anew for what was not.
    fn take_recalled(&mut self) {
        for modelled in &mut self.agents {
            let Some(Ok(tickets)) = modelled.recall.as_mut().map(oneshot::Receiver::try_recv)
            else {
                continue;
            };
            modelled.recall = None;
            for (number, ticket) in std::mem::take(&mut modelled.claimed).into_iter().zip(tickets) {
                self.requests[number].id = ticket.map(|ticket| ticket.id);
            }
        }
    }

    /// The requests that it would say it holds, by number, and the tokens of their locks.
    fn holds(&self) -> Vec<(usize, FencingToken)> {
        let holds = |nth: usize| {
            let Asked { id, ended, .. } = self.requests[nth];
            match self.status(id.filter(|_| !ended)?) {
                (Status::Held(grant), false) => Some((nth, grant.token)),
                _ => None,
            }
        };
        (0..self.requests.len()).filter_map(holds).collect()
    }

    /// What it would say that it holds, and under what something works still, each with its token.
    fn believes(&self) -> Vec<(&'static str, Mode, FencingToken)> {
        let working = self.cut.iter().flat_map(|cut| &cut.working);
        let working = working.copied().filter(|&(nth, _)| !self.requests[nth].ended);
        let all = working.chain(self.holds()).map(|(nth, token)| {
            let asked = &self.requests[nth];
            (asked.name, asked.kind.mode(), token)
        });
        all.collect()
    }

    /// What must hold of a call that it is about to make: whoever is robbed is so for somebody.
    fn check_call(&self, call: &Call) {
        let Call::Operate { of, transaction } = call else { return };
        if !steals(transaction) {
            return;
        }
        let thieves = of.operation.own();
        let thieves = thieves.iter().filter_map(|key| self.keeper.slots.holder(*key));
        for thief in thieves {
            let asked = self.requests.iter().find(|asked| asked.id == Some(thief));
            assert!(asked.is_none_or(|asked| !asked.ended), "{asked:?} has ended, and steals");
        }
    }

    /// It does nothing until it has forgotten the names that it does not use.
    fn pause(&mut self) {
        for _ in 0..2 {
            self.now += UNUSED + Duration::from_secs(1);
            self.renew_all();
            self.within(Keeper::tick);
        }
    }

    /// It looks after itself, after longer than it goes without any of its looks. What it keeps is
    /// renewed meanwhile.
    fn tick(&mut self) {
        for _ in 0..3 {
            self.now += TIME_TO_LIVE / 2;
            self.renew_all();
        }
        if !self.keeper.is_idle() {
            self.within(Keeper::tick);
        }
    }

    /// Etcd has renewed the leases that it keeps.
    fn renew_all(&mut self) {
        let term = Term { sent: Moment::now_at(self.now), time_to_live: TIME_TO_LIVE };
        for lease in self.kept.clone() {
            let word = Word::Renewed(term);
            self.within(|keeper| keeper.hear(Message::Lease { lease, word }));
        }
    }
}

fn name(name: &str) -> ResourceName {
    ResourceName::try_from(name).expect("it is no reserved one")
}
