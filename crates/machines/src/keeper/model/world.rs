//! Machines that share a store, and what can happen next.

mod beginning;
mod calls;
mod faults;
mod fingerprint;
mod looks;
mod machine;
mod rules;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use navlock_core::{
    ClientId,
    host::{RequestKind, Ticket},
};
use navlock_engine::{AgentId, FencingToken, RequestId};
use tokio::sync::oneshot;

use self::looks::Look;
use super::{
    memory::Memory,
    script::{Act, Faults, Step},
};
use crate::{
    data::Transaction,
    keeper::{AgentSerial, Call, Done, Keeper, Message, News, Shared},
    key_store::LeaseEvent,
    keys::Phase,
    watched::Event,
};

/// The time to live is so long that only a [cut](Step::Cut) ends a lease.
const TIME_TO_LIVE: Duration = Duration::from_secs(1000);

/// How much of it is left when a machine counts its leases as over and the store does not: half of the
/// margin, and the drift of clocks.
const REST: Duration = Duration::from_millis(1500);

/// How many agents of a machine have a lease when it begins.
const WARM: usize = 2;

/// How many ticks each machine gets before the model takes it that nothing more follows.
const ROUNDS: usize = 2;

/// A call on its way.
#[derive(Debug)]
enum Flight {
    /// The call is on its way to the store.
    Out(Call),
    /// The answer is on its way back.
    Back(Done),
    /// The sender has given the call up, but the store may still get it.
    Late(Transaction),
}

pub(super) struct World {
    pub(super) store: Memory,
    machines: Vec<Machine>,
    faults: Faults,
    /// Leases that nobody keeps any more.
    unkept: Vec<i64>,
    /// How many ticks machines have had since this revision.
    ticks: (i64, usize),
    /// The revision at which somebody who had asked the owner of a name for it looked again.
    looked: i64,
    next_owner: u128,
    has_thief: bool,
    /// All faults of the scene.
    all_faults: Faults,
    owns: bool,
    /// Whether a holder may have lost its lock before it hears of the loss.
    has_overlap: bool,
    /// The machines and agents that may lose what they have because of what has happened.
    troubled: BTreeSet<(usize, usize)>,
    /// The request that was granted with each token: its machine, and its number in the script.
    tokens: BTreeMap<u64, (usize, usize)>,
}

struct Machine {
    script: Vec<Act>,
    acted: usize,
    now: Duration,
    shared: Arc<Shared>,
    keeper: Keeper,
    agents: Vec<ModelAgent>,
    /// The requests of the machine, by their numbers in the script.
    requests: Vec<Asked>,
    flights: Vec<Flight>,
    /// The watches, by their numbers.
    watches: BTreeMap<u64, Watching>,
    kept: Vec<i64>,
    /// The consequences of a cut, until the cut is over.
    cut: Option<Cut>,
    /// Leases that the machine still keeps, and that somebody has ended.
    revoked: Vec<i64>,
    /// Whether the watches tell nothing.
    is_deaf: bool,
    /// Whether operations, and their answers, get no further.
    is_stalled: bool,
    /// A query that is not answered yet, and the revision at which its list was read again last.
    look: Option<Look>,
    listed: i64,
}

/// A cut: a machine's leases are over by its own clock, and not by the store's.
#[derive(Debug, Default)]
struct Cut {
    leases: Vec<i64>,
    /// The requests under whose locks work still goes on, by their numbers in the script, and the
    /// tokens of these locks.
    working: Vec<(usize, FencingToken)>,
}

/// A watch of a name.
struct Watching {
    prefix: Vec<u8>,
    /// How much of the log the watch has told.
    received: usize,
}

impl Watching {
    /// The events that the watch has not told yet, and their places in the log.
    fn rest<'a>(&'a self, store: &'a Memory) -> impl Iterator<Item = (usize, Vec<&'a Event>)> {
        let log = store.log.iter().enumerate().skip(self.received);
        let is_its = |event: &&Event| store.keys.name(&event.key.name).all() == self.prefix;
        let its = log.map(move |(at, events)| (at, events.iter().filter(is_its).collect()));
        its.filter(|(_, events): &(_, Vec<_>)| !events.is_empty())
    }
}

/// An agent on a machine.
struct ModelAgent {
    client: ClientId,
    agent: AgentId,
    serial: AgentSerial,
    reclaim: Option<oneshot::Receiver<Vec<Option<Ticket>>>>,
    /// The requests of the agent that were claimed.
    claimed: Vec<usize>,
}

/// A request, as its user sees it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The agent, by its number on the machine.
    agent: usize,
    name: &'static str,
    kind: RequestKind,
    /// Its number, by which all machines know it.
    serial: u64,
    /// The id; `None` while the request is being reclaimed, and when it has ended.
    id: Option<RequestId>,
    ended: bool,
}

impl World {
    /// Whether a name is owned.
    pub(super) fn has_owned(&self) -> bool {
        self.store.entries().iter().any(|(key, _)| key.phase == Phase::Owned)
    }

    /// All steps that can come next, always in the same order. Empty when nothing is left to
    /// happen.
    pub(super) fn steps(&self) -> Vec<Step> {
        let (mut steps, mut later) = (Vec::new(), Vec::new());
        for (nth, machine) in self.machines.iter().enumerate() {
            for (at, flight) in machine.flights.iter().enumerate() {
                match flight {
                    Flight::Out(Call::Operate { .. }) | Flight::Back(_) if machine.is_stalled => {}
                    Flight::Out(Call::Pause { of, .. }) if of.asked.is_some() => {
                        later.push(Step::Execute(nth, at));
                    }
                    Flight::Out(Call::List { delay, .. })
                        if !delay.is_zero() && machine.listed == self.store.revision =>
                    {
                        later.push(Step::Execute(nth, at));
                    }
                    Flight::Out(_) | Flight::Late(_) => steps.push(Step::Execute(nth, at)),
                    Flight::Back(_) => steps.push(Step::Answer(nth, at)),
                }
            }
            for (at, watching) in machine.watches.values().enumerate() {
                if !machine.is_deaf && watching.rest(&self.store).next().is_some() {
                    steps.push(Step::Receive(nth, at));
                }
            }
            if machine.may_act() {
                steps.push(Step::Act(nth));
            }
            if !machine.revoked.is_empty() {
                steps.push(Step::LearnGone(nth));
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
            if self.faults.deaf > 0 && !machine.is_deaf && !machine.watches.is_empty() && is_busy {
                steps.push(Step::Deafen(nth));
            }
            let calls =
                |of: &Flight| matches!(of, Flight::Out(Call::Operate { .. }) | Flight::Back(_));
            if self.faults.stalls > 0 && !machine.is_stalled && machine.flights.iter().any(calls) {
                steps.push(Step::Stall(nth));
            }
        }
        if self.faults.evictions > 0 && is_busy {
            steps.extend((0..self.store.entries().len()).map(Step::Evict));
        }
        let ticks = self.ticks();
        let is_new = self.looked != self.store.revision && !later.is_empty();
        if !is_busy && !is_new && ticks < ROUNDS * self.machines.len() {
            steps.push(Step::Tick(ticks % self.machines.len()));
        }
        if !is_busy && is_new || steps.is_empty() {
            steps.extend(later);
        }
        let deaf = self.machines.iter().enumerate().filter(|(_, machine)| machine.is_deaf);
        steps.extend(deaf.map(|(nth, _)| Step::Hear(nth)));
        let stalled = self.machines.iter().enumerate().filter(|(_, machine)| machine.is_stalled);
        steps.extend(stalled.filter(|_| !is_busy).map(|(nth, _)| Step::Flow(nth)));
        steps
    }

    fn ticks(&self) -> usize {
        let (revision, ticks) = self.ticks;
        if revision == self.store.revision { ticks } else { 0 }
    }

    /// Takes this step, and checks what must hold at any time.
    pub(super) fn take(&mut self, step: Step) {
        self.take_again(step);
        self.check();
    }

    /// Takes a step that was taken and checked before. It is not checked again.
    pub(super) fn take_again(&mut self, step: Step) {
        match step {
            Step::Act(nth) => self.act(nth),
            Step::Execute(nth, at) => self.execute(nth, at),
            Step::Answer(nth, at) => {
                let Flight::Back(done) = self.machines[nth].flights.remove(at) else { return };
                self.machines[nth].within(|keeper| keeper.handle_done(done));
            }
            Step::Receive(nth, at) => self.receive_events(nth, at),
            Step::Lose(nth, at) => {
                self.faults.calls -= 1;
                self.machines[nth].fail(at);
            }
            Step::LoseAnswer(nth, at) => {
                self.faults.calls -= 1;
                let machine = &mut self.machines[nth];
                if let Flight::Out(Call::Operate { transaction, .. }) = &machine.flights[at] {
                    let _ = self.store.transact(transaction);
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
            Step::Pause(nth) => self.pause(nth),
            Step::Cut(nth) => self.cut(nth),
            Step::Notice(nth) => {
                self.faults.notices -= 1;
                self.machines[nth].within(Keeper::handle_tick);
            }
            Step::Over(nth) => {
                let machine = &mut self.machines[nth];
                machine.now += REST;
                let cut = machine.cut.take().expect("it was cut off");
                self.unkept.extend(cut.leases);
            }
            Step::Expire(lease) => {
                self.unkept.retain(|&unkept| unkept != lease);
                self.store.end_lease(lease);
            }
            Step::Revoke(nth, at) => {
                self.faults.revokes -= 1;
                self.has_overlap = true;
                let machine = &mut self.machines[nth];
                let lease = machine.kept.remove(at);
                machine.revoked.push(lease);
                let of = machine.agents_under(lease);
                self.troubled.extend(of.into_iter().map(|agent| (nth, agent)));
                self.store.end_lease(lease);
            }
            Step::Evict(at) => {
                self.faults.evictions -= 1;
                let value = self.store.evict(at);
                let whose = |modelled: &ModelAgent| modelled.client == value.client_id;
                for (nth, machine) in self.machines.iter().enumerate() {
                    let agents = machine.agents.iter().position(whose);
                    self.troubled.extend(agents.map(|agent| (nth, agent)));
                    // If the key was the machine's owner key, all of its agents may lose what they
                    // have.
                    let me = machine.keeper.slots.me();
                    if value.client_id == ClientId::from_bytes(me.to_be_bytes()) {
                        self.troubled.extend((0..machine.agents.len()).map(|agent| (nth, agent)));
                    }
                }
                self.has_overlap = true;
            }
            Step::LearnGone(nth) => {
                let machine = &mut self.machines[nth];
                let lease = machine.revoked.remove(0);
                let word = LeaseEvent::Gone;
                machine.within(|keeper| keeper.handle_news(News::Lease { lease, word }));
            }
            Step::Kill(nth) => self.kill(nth),
            Step::Deafen(nth) => {
                self.faults.deaf -= 1;
                self.machines[nth].is_deaf = true;
            }
            Step::Hear(nth) => self.machines[nth].is_deaf = false,
            Step::Stall(nth) => self.stall(nth),
            Step::Flow(nth) => {
                self.machines[nth].is_stalled = false;
                // What follows may need a tick.
                self.ticks = (0, 0);
            }
            Step::Tick(nth) => {
                self.tick(nth);
                self.ticks = (self.store.revision, self.ticks() + 1);
            }
        }
        self.collect();
        self.note_tokens();
        self.check_looks();
    }
}
