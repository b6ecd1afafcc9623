//! Completes inspections with what only the daemon knows of locks and requests. The reach that
//! keeps them does not know it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use navlock_core::{AgentInfo, FencingToken, Inspected, Inspection, LockInfo, ResourceName};
use navlock_wire::Moment;

use super::{
    delegations::Looks,
    shared_client::{SharedClient, lock},
    state::Daemon,
};
use crate::clock;

impl Daemon {
    /// The clients whose locks and requests are inspected, and the clients that own the name. A
    /// question about one name needs no other clients.
    fn clients_of(
        &self,
        inspection: &Inspection,
        bucket: &str,
        name: &ResourceName,
    ) -> Vec<SharedClient> {
        let shown = inspection.held.iter().chain(&inspection.pending);
        let owners = self.delegations();
        let owners = owners.map(|delegations| delegations.agents_of(bucket, name));
        let shown = shown.map(|shown| shown.lock.client_id);
        self.directory().find(shown.chain(owners.into_iter().flatten()))
    }

    /// Adds to an inspection what only the daemon knows.
    pub(super) fn complete(
        &self,
        inspection: &mut Inspection,
        bucket: &str,
        name: Option<&ResourceName>,
        looks: Option<&Looks>,
    ) {
        let looks = looks.map(Looks::by_key).unwrap_or_default();
        let clients = match name {
            Some(name) => self.clients_of(inspection, bucket, name),
            None => self.all_clients(),
        };
        let Inspection { held, pending, owned, .. } = inspection;
        // Equal entries share a place in `known`.
        let mut places: HashMap<(bool, &LockInfo), usize> = HashMap::new();
        let mut place = |is_held, lock| {
            let next = places.len();
            *places.entry((is_held, lock)).or_insert(next)
        };
        let held_at: Vec<_> = held.iter().map(|shown| place(true, &shown.lock)).collect();
        let pending_at: Vec<_> = pending.iter().map(|shown| place(false, &shown.lock)).collect();
        let mut known: Vec<VecDeque<Known>> = Vec::new();
        known.resize_with(places.len(), VecDeque::new);
        for client in clients {
            for of in lock(&client).shown(name) {
                if **of.bucket != *bucket {
                    continue;
                }
                // FAST: the question may be about the holder only, and not about a long queue.
                if pending.is_empty() && of.shown.token.is_none() {
                    continue;
                }
                let is_held = of.shown.token.is_some();
                let lock = LockInfo::new(of.shown.name.clone(), of.shown.mode, of.client_id);
                let mut one = Known {
                    serial: of.id.serial(),
                    since: of.shown.since,
                    token: of.shown.token,
                    info: of.info,
                };
                if let Some(delegation) = of.shown.delegation {
                    let Some(word) = looks.get(&delegation.key()) else { continue };
                    if word.is_lost() {
                        continue;
                    }
                    if !word.is_held() {
                        let mut inspected = Inspected::new(lock);
                        one.token = None;
                        one.tell(&mut inspected);
                        inspected.taken = delegation.taken(*word);
                        owned.push(inspected);
                        continue;
                    }
                    if let Some((since, token)) = delegation.shown(*word) {
                        (one.since, one.token) = (since, Some(token));
                    }
                }
                if let Some(place) = places.get(&(is_held, &lock)) {
                    known[*place].push_back(one);
                }
            }
        }
        owned.sort_by(|one, other| one.lock.name.as_bytes().cmp(other.lock.name.as_bytes()));
        // Entries of one agent that are equal are served in the order of its requests.
        for alike in &mut known {
            alike.make_contiguous().sort_by_key(|known| known.serial);
        }
        let shown = held.iter_mut().zip(held_at).chain(pending.iter_mut().zip(pending_at));
        for (inspected, place) in shown {
            if let Some(known) = known[place].pop_front() {
                known.tell(inspected);
            }
        }
    }
}

struct Known {
    serial: u64,
    since: Moment,
    token: Option<FencingToken>,
    info: Arc<AgentInfo>,
}

impl Known {
    /// Adds this to what is shown.
    fn tell(self, inspected: &mut Inspected) {
        let Inspected { agent, age, fencing_token, .. } = inspected;
        (*agent, *age) = (Some(self.info), Some(clock::since(self.since)));
        *fencing_token = self.token;
    }
}
