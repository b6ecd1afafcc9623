//! What must hold after each step, and at the end.

use super::super::memory::order;
use super::*;
use crate::{
    failure::place_removed,
    keeper::model::world::machine::name,
    keys::{LockKey, NameKey, Phase},
    table::{State, Status, simulation::HeldHere},
    tokens::Grant,
    transactions::Owning,
    watched::Put,
};
use navlock_core::{Lost, Mode};
use std::collections::BTreeMap;

impl World {
    /// Checks that the keys of a request stand under the lease of its agent, so that the request ends
    /// together with everything else that the agent has.
    ///
    /// An owner key belongs to no request. It belongs to the machine, and stands under the lease
    /// that the machine had when it asked for the name. The agents may have another lease by now,
    /// because they have lost that lease or go on with what they had before. An owner key keeps
    /// others away, and gives nobody anything. So an agent that holds the name because of the owner
    /// key must be under the same lease, and its lock ends together with the owner key.
    pub(super) fn check_leases(&self) {
        let entries = self.store.entries();
        for machine in &self.machines {
            let table = machine.shared.table();
            let lease_of = |serial| machine.keeper.leases.agents.get(&serial)?.lease();
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

    /// Checks that each token is given only once.
    pub(super) fn note_tokens(&mut self) {
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

    /// Checks what must hold at any time.
    pub(super) fn check(&self) {
        self.check_leases();
        for (nth, machine) in self.machines.iter().enumerate() {
            if !self.has_thief {
                for asked in &machine.requests {
                    let has_ended = !asked.ended
                        && asked.id.is_some_and(|id| machine.status(id).0 == Status::Ended);
                    let is_wait = asked.kind.waits();
                    let troubled = self.troubled.contains(&(nth, asked.agent));
                    assert!(!has_ended || !is_wait || troubled, "{asked:?} is lost for nothing");
                    let mut table = machine.shared.table();
                    let state = asked.id.and_then(|id| Some(table.state(id)?.0));
                    let is_stolen = matches!(state, Some(State::Lost(Lost::Stolen)));
                    assert!(!is_stolen || self.has_overlap, "{asked:?} is said to be stolen");
                    let is_removed = match state {
                        Some(State::Failed(error)) => *error == place_removed("the store"),
                        Some(State::Lost(how)) => *how == Lost::Removed,
                        _ => false,
                    };
                    assert!(!is_removed || self.has_overlap, "{asked:?} is said to be removed");
                }
            }
            // Of the requests that have waited in one queue, the tokens grow in the order of the
            // requests.
            let mut last = BTreeMap::new();
            for asked in &machine.requests {
                let Some((Status::Held(grant), _)) = asked.id.map(|id| machine.status(id)) else {
                    continue;
                };
                if asked.kind.waits() {
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
                // Who was robbed of a lock that stands in the store hears of that later.
                if self.store.stolen.contains(&token) {
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

    /// Checks what must hold when nothing is left to happen.
    pub(in crate::keeper::model) fn check_end(&mut self) {
        let (mut faults, robbed) = (self.all_faults, &self.store.robbed);
        let is_sound = faults.each().into_iter().all(|fault| *fault == 0);
        assert!(!is_sound || robbed.is_empty(), "{robbed:?} could have been asked for");
        let (owned, entries): (Vec<_>, Vec<_>) =
            self.store.entries().into_iter().partition(|(key, _)| key.phase == Phase::Owned);
        let mut known = 0;
        for (key, _) in &owned {
            let whose = |machine: &&Machine| machine.keeper.slots.me() == key.request.owner;
            let usage = self
                .machines
                .iter()
                .find(whose)
                .and_then(|machine| machine.shared.table().usage(&(0, key.name.clone())));
            assert!(usage.is_some_and(|usage| usage.held.is_some()), "{key:?} is kept for nothing");
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
        // All requests that can be granted are granted.
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
            // Only the machine knows which request of a run holds the name.
            let has_run =
                owned.iter().any(|(of, put)| of.name == key.name && Owning::is_for_run(&put.value));
            assert!(!is_first || waits || has_run, "nobody has granted {key:?}");
        }
    }
}
