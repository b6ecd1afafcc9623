//! How a world begins.

use super::super::memory::Memory;
use super::super::script::{Act, Faults, Step};
use super::*;
use crate::{
    clock,
    keeper::{Keeper, Message, Shared},
    key_store::KeeperOptions,
    keys::BucketKeys,
};
use navlock_core::{ClientId, Mode, host::RequestKind};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

impl World {
    /// Makes a world in which each machine has a lease. If it is warm, it also watches already the
    /// names that will be used. If it `owns`, it owns names when it has taken them; otherwise it
    /// never does.
    pub(in crate::keeper::model) fn new(
        scripts: &[&[Act]],
        faults: Faults,
        is_warm: bool,
        owns: bool,
    ) -> Self {
        clock::simulation::to(Duration::from_secs(1));
        let mut store = Memory::new(BucketKeys::new("n", "b"));
        let is_looked_at = scripts.iter().any(|script| script.contains(&Act::Query));
        store.past = is_looked_at.then(BTreeMap::new);
        let is_theft =
            |script: &&[Act]| script.iter().any(|act| act.kind() == Some(RequestKind::Steal));
        let mut world = Self {
            store,
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

    /// Gives the first two agents of each machine their leases and, if it is warm, each machine its
    /// watches. The steps to these are always the same.
    pub(super) fn warm_up(&mut self, is_warm: bool) {
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
                // After the first agent, all agents of the machine know the names.
                let unknown = if agent == 0 { names.len() } else { 1 };
                for name in &names[..unknown] {
                    let kind = RequestKind::Wait(Mode::Exclusive);
                    let id = self.machines[nth].request((agent, u64::MAX), name, kind);
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
        self.store.log.clear();
        for machine in &mut self.machines {
            machine.watches.values_mut().for_each(|watching| watching.received = 0);
        }
    }

    pub(super) fn run_dry(&mut self) {
        self.collect();
        while let Some(&step) = self.steps().first() {
            if matches!(step, Step::Tick(_)) {
                break;
            }
            self.take_again(step);
        }
    }

    pub(super) fn machine(&mut self, clients: &[ClientId], script: Vec<Act>) -> Machine {
        self.next_owner += 1;
        let mut options = KeeperOptions { namespace: "n".to_owned(), ..KeeperOptions::default() };
        options.times.time_to_live = TIME_TO_LIVE;
        let shared = Arc::new(Shared::default());
        let mut keeper = Keeper::new("the store", Arc::clone(&shared), options, self.next_owner);
        let bucket = shared.table().open_bucket("b");
        keeper.handle_message(Message::OpenBucket { bucket, name: "b".to_owned() });
        let modelled = |&client_id| {
            let (agent, serial) = shared.table().open_agent(bucket, client_id);
            keeper.handle_message(Message::OpenAgent { bucket: 0, serial, agent, client_id });
            ModelAgent { client: client_id, agent, serial, reclaim: None, claimed: Vec::new() }
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
            is_deaf: false,
            is_stalled: false,
            look: None,
            listed: 0,
        };
        if self.owns {
            machine.own_names();
        }
        machine
    }
}
