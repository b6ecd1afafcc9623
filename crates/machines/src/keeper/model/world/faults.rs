//! The faults.

use super::*;
use crate::{
    keeper::{Call, Message, model::world::machine::name},
    table::Status,
    view::UNUSED,
};
use navlock_core::host::Claim;
use tokio::sync::oneshot;

impl World {
    /// Cuts a machine off, for nearly as long as its leases last.
    pub(super) fn cut(&mut self, nth: usize) {
        self.faults.cuts -= 1;
        self.trouble(nth);
        let machine = &mut self.machines[nth];
        let working = machine.holds();
        machine.now += TIME_TO_LIVE.saturating_sub(REST);
        let leases = std::mem::take(&mut machine.kept);
        machine.cut = Some(Cut { leases, working });
    }

    /// Has the operations of a machine wait, and nothing else.
    pub(super) fn stall(&mut self, nth: usize) {
        self.faults.stalls -= 1;
        self.trouble(nth);
        self.machines[nth].is_stalled = true;
    }

    /// Lets time pass until a machine has forgotten the names that it does not use.
    pub(super) fn pause(&mut self, nth: usize) {
        self.faults.pauses -= 1;
        for _ in 0..2 {
            self.wait(nth, UNUSED + Duration::from_secs(1));
            self.machines[nth].within(Keeper::handle_tick);
        }
    }

    /// Lets the keeper of a machine have a tick, after a time that is longer than all its intervals.
    pub(super) fn tick(&mut self, nth: usize) {
        for _ in 0..3 {
            self.wait(nth, TIME_TO_LIVE / 2);
        }
        let machine = &mut self.machines[nth];
        if !machine.keeper.is_idle() {
            machine.within(Keeper::handle_tick);
        }
    }

    /// Lets this much time pass for a machine, and for those that are deaf or stalled: these hear of nothing
    /// else while another one waits for them.
    fn wait(&mut self, nth: usize, time: Duration) {
        for (other, machine) in self.machines.iter_mut().enumerate() {
            let is_behind = machine.is_deaf || machine.is_stalled;
            if other == nth || is_behind {
                let asked = self.store.asked(&machine.keeper.mailbox());
                machine.wait(time, &asked);
            }
            if other != nth && is_behind {
                machine.within(Keeper::handle_tick);
            }
        }
    }

    pub(super) fn break_watches(&mut self, nth: usize) {
        let watches: Vec<u64> = self.machines[nth].watches.keys().copied().collect();
        for watch in watches {
            self.begin_watch(nth, watch);
        }
    }

    /// Kills the process. Another process goes on for its client, and the client knows what it has
    /// seen.
    pub(super) fn kill(&mut self, nth: usize) {
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
                let claim = Claim { serial: asked.serial, name, kind: asked.kind, token };
                claims[asked.agent].push(claim);
                claimed[asked.agent].push(number);
            }
            requests.push(Asked { id: None, ..asked });
        }
        let now = old.now;
        // An agent that had nothing has nothing to lose.
        let had = claims.iter().enumerate().filter(|(_, claims)| !claims.is_empty());
        self.troubled.extend(had.map(|(agent, _)| (nth, agent)));
        let mut new = self.machine(&clients, script);
        new.now = now;
        for (agent, (claims, claimed)) in claims.into_iter().zip(claimed).enumerate() {
            let (answer, answered) = oneshot::channel();
            let modelled = &mut new.agents[agent];
            (modelled.claimed, modelled.reclaim) = (claimed, Some(answered));
            let serial = modelled.serial;
            new.within(|keeper| keeper.handle_message(Message::Reclaim { serial, claims, answer }));
        }
        new.acted = acted;
        new.flights = late;
        new.requests = requests;
        self.machines[nth] = new;
    }

    /// Notes that all agents of a machine may lose what they have.
    pub(super) fn trouble(&mut self, nth: usize) {
        let agents = 0..self.machines[nth].agents.len();
        self.troubled.extend(agents.map(|agent| (nth, agent)));
    }
}
