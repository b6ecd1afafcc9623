//! Completes inspections with what only the daemon knows of locks and requests. The reach that
//! keeps them does not know it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use navlock_core::{AgentInfo, FencingToken, Inspected, Inspection, LockInfo, Owned, ResourceName};
use navlock_wire::Moment;

use super::{
    delegations::Looks,
    entry_key::EntryKey,
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
        // Entries with equal keys share a place in `known`.
        let mut places: HashMap<(bool, EntryKey<'_>), usize> = HashMap::new();
        let mut place = |is_held, lock| {
            let next = places.len();
            *places.entry((is_held, EntryKey::of(lock))).or_insert(next)
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
                let (is_held, mode) = (of.shown.token.is_some(), of.shown.mode);
                let (name, client_id) = (of.shown.name, of.client_id);
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
                        let lock = LockInfo::new(name.clone(), mode, client_id);
                        owned.push(one.owned(lock, delegation.taken(*word)));
                        continue;
                    }
                    if let Some((since, token)) = delegation.shown(*word) {
                        (one.since, one.token) = (since, Some(token));
                    }
                }
                let key = EntryKey { name, mode, client_id };
                if let Some(place) = places.get(&(is_held, key)) {
                    known[*place].push_back(one);
                }
            }
        }
        owned.sort_by(|one, other| one.lock.name.as_bytes().cmp(other.lock.name.as_bytes()));
        // Entries of one agent with equal keys are served in the order of its requests.
        for alike in &mut known {
            alike.make_contiguous().sort_by_key(|known| known.serial);
        }
        let shown = held.iter_mut().zip(held_at).chain(pending.iter_mut().zip(pending_at));
        for (inspected, place) in shown {
            if let Some(known) = known[place].pop_front() {
                let Inspected { agent, age, fencing_token, .. } = inspected;
                *agent = Some(known.info);
                *age = Some(clock::since(known.since));
                *fencing_token = known.token;
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
    /// The entry of a name that its owner does not hold, and has taken `taken` times.
    fn owned(self, lock: LockInfo, taken: u64) -> Owned {
        let mut owned = Owned::new(lock, taken);
        (owned.agent, owned.age) = (Some(self.info), Some(clock::since(self.since)));
        owned
    }
}
