//! Every deadlock that is reported is one, and every deadlock is reported. Random histories show
//! this: the report is compared with what becomes of the waiters in the most generous of all
//! futures.
//!
//! `cargo test --release -p navlock-core --test deadlocks -- --ignored` tries a million histories.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use navlock_core::{
    ClientId, Mode, ResourceName,
    host::{AgentId, RequestKind},
    look::{
        Agent, Change, Deadlock, Entry, Event, LockId, LockName, Overview, Patience, Root,
        deadlocks, tree,
    },
};
use navlock_engine::{LockManager, RequestId, Status};
use navlock_testkit::Model;

const AGENTS: u8 = 4;

#[test]
fn in_random_histories_a_deadlock_is_told_exactly_where_nobody_can_go_on() {
    explore(0, 20_000);
}

#[test]
#[ignore = "takes minutes: it is run by who changes the search"]
fn in_a_million_random_histories_a_deadlock_is_told_exactly_where_nobody_can_go_on() {
    explore(1 << 32, 1_000_000);
}

/// Runs this many histories, and checks that there were enough of each kind.
fn explore(first: u64, histories: u64) {
    let mut counted = Counted::default();
    for seed in first..first + histories {
        let mut history = History::new(seed);
        for _ in 0..history.random.below(40) + 4 {
            history.step();
        }
        if let Err(what) = history.judge(&mut counted) {
            panic!("seed {seed}: {what}\n{:#?}", history.overview());
        }
    }
    println!("{histories} histories: {counted:?}");
    assert!(counted.stuck > histories / 20, "{counted:?}");
    assert!(counted.free > histories / 20, "{counted:?}");
    assert!(counted.soft > histories / 500, "{counted:?}");
    assert!(counted.several > histories / 500, "{counted:?}");
    assert!(counted.long > histories / 500, "{counted:?}");
    assert!(counted.only_possible > histories / 100, "{counted:?}");
    assert!(counted.given_up > histories / 500, "{counted:?}");
}

/// How many histories ended in each of these ways. A history may count more than once.
#[derive(Debug, Default)]
struct Counted {
    /// Some request or lock could never go on.
    stuck: u64,
    /// Some request waited, and all could go on.
    free: u64,
    /// A deadlock had a soft block.
    soft: u64,
    /// There was more than one deadlock.
    several: u64,
    /// A deadlock had three names or more.
    long: u64,
    /// There was a possible deadlock and no certain one.
    only_possible: u64,
    /// All could go on, but only because some requests may give up.
    given_up: u64,
}

/// The real engine, the model, and which request was made inside which locks.
struct History {
    random: Random,
    engine: LockManager,
    model: Model,
    names: Vec<ResourceName>,
    agents: Vec<ClientId>,
    made: Vec<Made>,
    begin: Instant,
}

#[derive(Clone)]
struct Made {
    id: RequestId,
    agent: AgentId,
    inside: Vec<RequestId>,
    patience: Patience,
}

impl History {
    fn new(seed: u64) -> Self {
        let name = |name: &str| ResourceName::try_from(name).expect("it does not begin with '-'");
        let client_id = |agent| ClientId::from_bytes([agent; 16]);
        Self {
            random: Random(seed),
            engine: LockManager::default(),
            model: Model::default(),
            names: ["a", "b", "c", "d"].map(name).to_vec(),
            agents: (0..AGENTS).map(client_id).collect(),
            made: Vec::new(),
            begin: Instant::now(),
        }
    }

    /// Does one random step.
    fn step(&mut self) {
        match self.random.below(100) {
            0..70 => self.request(),
            70..82 => {
                if let Some(made) = self.random.pick(&self.made).cloned() {
                    self.engine.release_lock(made.id);
                    self.model.release_lock(made.id);
                }
            }
            82..94 => {
                if let Some(made) = self.random.pick(&self.made).cloned() {
                    self.engine.abort_request(made.id);
                    self.model.abort_request(made.id);
                }
            }
            _ => {
                let agent = self.random.agent();
                self.engine.terminate_remaining_locks_and_requests(&[agent]);
                self.model.terminate_remaining_locks_and_requests(&[agent]);
            }
        }
    }

    /// Makes a request. Mostly, it is inside locks that its agent holds. Sometimes, it is inside
    /// locks of any agent, like the request of a command that runs under another command.
    /// Sometimes, it is inside nothing.
    fn request(&mut self) {
        let agent = self.random.agent();
        let mode = if self.random.below(3) == 0 { Mode::Shared } else { Mode::Exclusive };
        let kind = match self.random.below(20) {
            0 => RequestKind::Steal,
            1 => RequestKind::IfAvailable(mode),
            _ => RequestKind::Wait(mode),
        };
        let whose = self.random.below(10);
        let held = self.made.iter().filter(|made| {
            let is_held = matches!(self.engine.status(made.id), Status::Held(_));
            is_held && (made.agent == agent || whose == 0)
        });
        let held: Vec<_> = held.map(|made| made.id).collect();
        let count = if whose == 1 { 0 } else { 1 + self.random.below(2) };
        let inside = (0..count).filter_map(|_| self.random.pick(&held).copied()).collect();
        let name = self.random.pick(&self.names).expect("there are names").clone();
        let id = self.engine.request_lock(agent, &name, kind);
        self.model.request_lock(id, agent, &name, kind);
        let patience = match self.random.below(6) {
            0 => Patience::MayGiveUp,
            1 | 2 => Patience::GivesWay,
            _ => Patience::Endless,
        };
        self.made.push(Made { id, agent, inside, patience });
    }

    fn lock_id(&self, id: RequestId) -> LockId {
        let made =
            self.made.iter().find(|made| made.id == id).expect("only such ids are asked for");
        LockId { client_id: self.agents[made.agent.index()], serial: id.serial() }
    }

    /// What a looker sees of the engine.
    fn overview(&self) -> Overview {
        let mut changes = Vec::new();
        for agent in &self.agents {
            let details = Agent::new("app".into(), Arc::default(), None);
            changes.push(Change::AgentCame { agent: *agent, details });
        }
        for info in self.engine.snapshot_lock_state() {
            let name = LockName::new("app", info.name.clone());
            let mut entry = Entry::new(self.lock_id(info.id), info.mode);
            entry.since = self.begin + Duration::from_millis(info.id.serial());
            let made = self.made.iter().find(|made| made.id == info.id);
            let inside = made.into_iter().flat_map(|made| &made.inside);
            entry.inside = inside.map(|id| self.lock_id(*id)).collect();
            entry.patience = made.map_or(Patience::Endless, |made| made.patience);
            changes.push(if info.is_held {
                Change::Granted { name, entry }
            } else {
                Change::Requested { name, entry }
            });
        }
        let mut overview = Overview::default();
        for change in changes {
            overview.apply(&Event { at: self.begin, change });
        }
        overview
    }

    /// The locks and requests that never end in the most generous of all futures: there are no more
    /// requests, every request that may give up does so, and every lock is released once all
    /// requests inside it are answered. The locks and requests of `without` end first.
    fn stuck(&self, without: &[LockId]) -> BTreeSet<LockId> {
        self.stuck_if(|made| made.patience == Patience::MayGiveUp, without)
    }

    /// As [`stuck`](Self::stuck), but only the requests that `may_give_up` selects give up.
    fn stuck_if(
        &self,
        may_give_up: impl Fn(&Made) -> bool,
        without: &[LockId],
    ) -> BTreeSet<LockId> {
        let mut model = self.model.clone();
        for made in &self.made {
            let gives_up = may_give_up(made) && model.status(made.id) == Status::Pending;
            if gives_up || without.contains(&self.lock_id(made.id)) {
                model.finish(made.id);
            }
        }
        loop {
            let can_go = self.made.iter().filter(|lock| {
                let waits = |made: &Made| {
                    made.inside.contains(&lock.id) && model.status(made.id) == Status::Pending
                };
                matches!(model.status(lock.id), Status::Held(_)) && !self.made.iter().any(waits)
            });
            let can_go: Vec<_> = can_go.map(|lock| lock.id).collect();
            if can_go.is_empty() {
                break;
            }
            for lock in can_go {
                model.release_lock(lock);
            }
        }
        let left = self.made.iter().filter(|made| model.status(made.id) != Status::Gone);
        left.map(|made| self.lock_id(made.id)).collect()
    }

    fn judge(&self, counted: &mut Counted) -> Result<(), String> {
        let overview = self.overview();
        let found = deadlocks(&overview);
        let (certain, possible): (Vec<_>, Vec<_>) =
            found.iter().partition(|deadlock| deadlock.is_certain);
        let stuck = self.stuck(&[]);
        if certain.is_empty() != stuck.is_empty() {
            return Err(format!("told {certain:#?}\nstuck {stuck:?}"));
        }
        for deadlock in &certain {
            // It is still a deadlock if all other locks and requests end.
            let members: BTreeSet<_> = ids(deadlock).collect();
            let all = self.made.iter().map(|made| self.lock_id(made.id));
            let others: Vec<_> = all.filter(|id| !members.contains(id)).collect();
            if self.stuck(&others) != members {
                return Err(format!("is none by itself: {deadlock:#?}"));
            }
            check_shape(deadlock)?;
        }
        // Without the request that gives way, a deadlock is none. Once all these requests have failed, and those
        // of the deadlocks that there are then, nobody is stuck.
        let (mut rest, mut failed) = (self.overview(), Vec::new());
        loop {
            let found = deadlocks(&rest);
            let certain: Vec<_> = found.iter().filter(|deadlock| deadlock.is_certain).collect();
            if certain.is_empty() {
                break;
            }
            for deadlock in certain {
                let (name, id) = (deadlock.members[0].name.clone(), deadlock.gives_way());
                rest.apply(&Event { at: self.begin, change: Change::Aborted { name, id } });
                failed.push(id);
            }
        }
        let left = self.stuck(&failed);
        if !left.is_empty() {
            return Err(format!("told {certain:#?}\nwithout {failed:?} still stuck {left:?}"));
        }
        possible.iter().try_for_each(|deadlock| check_shape(deadlock))?;
        check_tree(&overview, &tree(&overview), &stuck)?;

        let pending = overview.queues.values().any(|queue| !queue.pending.is_empty());
        counted.stuck += u64::from(!stuck.is_empty());
        counted.free += u64::from(stuck.is_empty() && pending);
        counted.several += u64::from(certain.len() > 1);
        counted.only_possible += u64::from(certain.is_empty() && !possible.is_empty());
        counted.given_up +=
            u64::from(stuck.is_empty() && !self.stuck_if(|_| false, &[]).is_empty());
        let soft = |deadlock: &&&Deadlock| {
            deadlock.members.windows(2).any(|two| !two[0].is_held && !two[1].is_held)
        };
        counted.soft += u64::from(certain.iter().any(|deadlock| soft(&deadlock)));
        let names = |deadlock: &Deadlock| {
            deadlock.members.iter().map(|member| &member.name).collect::<BTreeSet<_>>().len()
        };
        counted.long += u64::from(certain.iter().any(|deadlock| names(deadlock) > 2));
        Ok(())
    }
}

fn ids(deadlock: &Deadlock) -> impl Iterator<Item = LockId> {
    deadlock.members.iter().map(|member| member.entry.id)
}

/// Checks that the deadlock begins with the request that gives way, and has a line for each request.
fn check_shape(deadlock: &Deadlock) -> Result<(), String> {
    let requests: Vec<_> = deadlock.members.iter().filter(|member| !member.is_held).collect();
    let order = |entry: &Entry| (entry.patience == Patience::GivesWay, entry.since);
    let last = requests.iter().map(|member| order(&member.entry)).max();
    let is_first = last == Some(order(&deadlock.members[0].entry)) && !deadlock.members[0].is_held;
    if !is_first || deadlock.lines(Instant::now()).len() != requests.len() {
        return Err(format!("has another shape: {deadlock:#?}\n{deadlock}"));
    }
    Ok(())
}

/// Checks that the tree shows every waiter once. If some locks never end, a cycle must be shown,
/// and no root outside a cycle may be one of these locks.
fn check_tree(
    overview: &Overview,
    roots: &[Root<'_>],
    stuck: &BTreeSet<LockId>,
) -> Result<(), String> {
    let mut shown: BTreeMap<LockId, usize> = BTreeMap::new();
    for row in roots.iter().flat_map(|root| &root.rows) {
        *shown.entry(row.entry.id).or_default() += 1;
    }
    let pending: Vec<_> = overview.queues.values().flat_map(|queue| &queue.pending).collect();
    if let Some(missing) = pending.iter().find(|entry| shown.get(&entry.id) != Some(&1)) {
        return Err(format!("shown {:?} times: {missing:?} in {roots:#?}", shown.get(&missing.id)));
    }
    if let Some(twice) = shown.iter().find(|(_, times)| **times != 1) {
        return Err(format!("shown twice: {twice:?} in {roots:#?}"));
    }
    for root in roots {
        let first = &root.rows[0];
        let below = root.rows.iter().skip(1).filter(|row| !row.is_held).count();
        if first.below + 1 != root.rows.len() || below > root.blocks {
            return Err(format!("counts are wrong: {root:#?}"));
        }
        if !root.is_cycle && stuck.contains(&first.entry.id) {
            return Err(format!("never ends and is said to wait for nothing: {root:#?}"));
        }
    }
    if !stuck.is_empty() && !roots.iter().any(|root| root.is_cycle) {
        return Err(format!("no cycle is shown: {roots:#?}"));
    }
    Ok(())
}

/// The generator `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn agent(&mut self) -> AgentId {
        AgentId::from_index(u32::try_from(self.below(AGENTS.into())).unwrap_or(0))
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.next()).unwrap_or(0).checked_rem(from.len())?;
        from.get(at)
    }
}
