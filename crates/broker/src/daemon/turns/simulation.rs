//! A simulation of the broker: its sessions and their turns as they are, and beside them clients, sockets and time
//! that follow from one seed.
//!
//! `cargo xtask simulate` runs it, and `--seed` runs one history again. The section "Simulation" of the crate's
//! `ARCHITECTURE.md` says what is simulated, and what is not.

mod acts;
mod broker;
mod cases;
mod checker;
mod client;
mod history;
mod looker;
mod plan;
mod returns;
mod smaller;
mod sockets;
mod world;

use std::{
    env, mem,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use self::{
    broker::Broker,
    checker::Verdict,
    history::{Act, History, Operation},
    plan::{Plan, Step},
    world::World,
};
use crate::{Place, clock};

/// How many histories there are if nobody says otherwise.
const HISTORIES: u64 = 2000;

/// When a history begins, on the clock of the machine.
const BEGIN: u64 = 1_000_000_000;

/// How many rounds of turns it may take after the last fault until everybody is served.
const ROUNDS: usize = 200;

/// Why a history is wrong, and what has happened in it.
struct Failure {
    why: String,
    history: History,
}

/// A history that is right, as far as is known.
#[derive(Debug, PartialEq, Eq)]
struct Right {
    /// Whether the checker could decide that.
    is_decided: bool,
    /// How many locks clients have taken without a message.
    taken: usize,
}

/// Lets the history of this plan happen.
fn run(plan: &Plan) -> Result<Right, Failure> {
    clock::simulated::set(BEGIN);
    let directory = TempDir::new().expect("a directory");
    let place = &Place::at(directory.path().join("sock"));
    let mut brokers =
        Brokers { plan, world: World::new(plan, place), place, broker: None, number: 0 };
    brokers.begin();
    loop {
        let Some(step) = brokers.world.get().steps.pop_front() else { break };
        brokers.take(step);
    }
    let is_served = (0..ROUNDS).any(|_| brokers.come_to_an_end());
    let Brokers { world, broker, .. } = brokers;
    if let Some(broker) = broker {
        broker.kill();
    }
    clock::simulated::set(0);
    let mut world = world.get();
    let (history, failure) = (std::mem::take(&mut world.history), world.failure.take());
    let failed = |why, history| Err(Failure { why, history });
    match failure {
        Some(why) => return failed(why, history),
        None if !is_served => return failed("somebody is not served".to_owned(), history),
        None => {}
    }
    let is_taken = |of: &&Operation| of.is_taken && matches!(of.act, Act::Request { .. });
    let taken = history.operations.iter().filter(is_taken).count();
    match checker::check(&history) {
        Verdict::Linearizable => Ok(Right { is_decided: true, taken }),
        Verdict::Unknown => Ok(Right { is_decided: false, taken }),
        Verdict::Not { event } => {
            let event = history.events.get(event);
            failed(format!("no order of what was done explains that: {event:?}"), history)
        }
    }
}

/// One broker after the other, and their world.
struct Brokers<'a> {
    plan: &'a Plan,
    world: World,
    place: &'a Place,
    broker: Option<Broker>,
    number: u64,
}

impl Brokers<'_> {
    /// All clients connect to the first broker.
    fn begin(&mut self) {
        let mut world = self.world.get();
        // Nothing happens meanwhile.
        let steps = mem::take(&mut world.steps);
        for client in 0..world.clients.len() {
            world.connect(client);
        }
        drop(world);
        self.broker = Some(Broker::new(self.plan, &self.world, self.place, 0));
        while self.world.get().is_anybody_coming() {
            let mut world = self.world.get();
            (0..world.clients.len()).for_each(|client| world.send(client, usize::MAX));
            drop(world);
            self.turn(0);
        }
        if self.plan.maps {
            self.make_maps();
        }
        let mut world = self.world.get();
        (world.steps, world.history) =
            (steps, History { is_by_agent: self.plan.maps, ..History::default() });
    }

    /// Each client has a lock twice before anything happens, and so a map.
    fn make_maps(&mut self) {
        let all = 0..self.plan.clients.len();
        let agents: Vec<_> =
            all.clone().map(|client| self.world.get().open_early(client)).collect();
        for _ in 0..2 {
            let asks = |client| self.world.get().ask_early(client, agents[client]);
            let asked: Vec<_> = all.clone().map(asks).collect();
            for client in all.clone() {
                while !self.world.get().has_early(client, asked[client]) {
                    self.turn(0);
                }
            }
        }
        for client in all {
            while !self.world.get().ends_early(client, agents[client]) {
                self.turn(0);
            }
        }
        while self.broker.as_ref().is_some_and(Broker::is_due) {
            self.turn(0);
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Turn { meanwhile } => self.turn(meanwhile),
            Step::Pass { pauses } => {
                self.world.get().history.say(format_args!("{pauses} pauses begin"));
                (0..pauses).for_each(|_| self.pause());
            }
            step => self.world.get().take(step),
        }
        if self.world.get().is_killed {
            self.broker.take().into_iter().for_each(Broker::kill);
            self.world.get().lose_broker();
        }
        if self.broker.is_none() && self.world.get().is_anybody_coming() {
            self.number += 1;
            self.broker = Some(Broker::new(self.plan, &self.world, self.place, self.number));
        }
    }

    fn turn(&mut self, meanwhile: usize) {
        if let Some(broker) = &mut self.broker {
            broker.turn(meanwhile);
        }
    }

    fn pause(&mut self) {
        self.world.get().pause();
        if let Some(broker) = &mut self.broker {
            broker.pause();
        }
        self.turn(0);
    }

    /// All clients go on until they have nothing. Returns whether that is so.
    fn come_to_an_end(&mut self) -> bool {
        for client in 0..self.plan.clients.len() {
            self.take(Step::Continue { client });
        }
        if self.plan.kills || self.plan.breaks {
            (0..self.plan.clients.len()).for_each(|client| self.take(Step::Return { client }));
            self.take(Step::Pass { pauses: 1 });
        }
        self.take(Step::Turn { meanwhile: 0 });
        come_to_an_end(&self.world);
        let is_due = self.broker.as_ref().is_some_and(Broker::is_due);
        !is_due && self.world.get().clients.iter().all(|client| client.open.is_empty())
    }
}

/// All clients read, send and release what they have.
fn come_to_an_end(world: &World) {
    let world = &mut *world.get();
    for client in 0..world.clients.len() {
        world.send(client, usize::MAX);
        if world.runs(client) {
            world.read(client, usize::MAX);
        }
        if !world.acts(client) {
            continue;
        }
        let is_held = |world: &mut world::Inner| {
            world.clients[client].open.iter().position(|open| open.is_held)
        };
        while let Some(place) = is_held(world) {
            world.finish(client, place);
        }
        world.send(client, usize::MAX);
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_history_is_one_that_clients_of_one_lock_manager_could_see() {
    let first = number("NAVLOCK_SIMULATE_SEED").unwrap_or(0);
    let most = number("NAVLOCK_SIMULATE_HISTORIES").unwrap_or(HISTORIES);
    let hours = number("NAVLOCK_SIMULATE_HOURS").unwrap_or(u64::MAX);
    let (began, long) = (Instant::now(), Duration::from_secs(hours.saturating_mul(3600)));
    let (mut histories, mut undecided, mut taken) = (0, 0, 0);
    for seed in (first..).take_while(|seed| seed - first < most && began.elapsed() < long) {
        histories += 1;
        let plan = Plan::of(seed);
        match run(&plan) {
            Ok(right) => {
                let is_decided = right.is_decided;
                taken += right.taken;
                undecided += u64::from(!is_decided);
                if !is_decided {
                    eprintln!("seed {seed}: too long to decide");
                }
            }
            Err(failure) => {
                let (plan, Failure { why, history }) = smaller::smaller(plan, failure);
                let clients = plan.clients.iter().enumerate();
                let clients: Vec<_> =
                    clients.map(|(n, of)| format!("client {n}: {of:?}")).collect();
                let (clients, words) = (clients.join("\n"), history.words.join("\n"));
                panic!("seed {seed}: {why}\n{words}\n{clients}");
            }
        }
    }
    eprintln!("{histories} histories, {undecided} of which were too long to decide");
    eprintln!("{taken} locks were taken without a message");
    assert!(undecided * 20 <= histories, "too many histories are undecided");
    assert!(taken > 0 || histories < 100, "nobody owns a name");
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..20 {
        let plan = Plan::of(seed);
        let words = || run(&plan).map(|_| ()).map_err(|failure| failure.history.words);
        assert_eq!(words(), words());
    }
}
