//! Completes inspections with what only the daemon knows of locks and requests. The reach that
//! keeps them does not know it.

use std::{cmp::Reverse, collections::HashMap};

use navlock_core::{Inspected, Inspection, LockInfo, ResourceName};

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
        self.directory.find(shown.chain(owners.into_iter().flatten()))
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
        // What is known of these, first of what waits and then of what is held, with the serial numbers.
        let mut known: [HashMap<LockInfo, Vec<(u64, Inspected)>>; 2] = [&*pending, &*held]
            .map(|all| all.iter().map(|shown| (shown.lock.clone(), Vec::new())).collect());
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
                let mut one = Inspected::new(lock);
                (one.agent, one.fencing_token) = (Some(of.info), of.shown.token);
                one.age = Some(clock::since(of.shown.since));
                if let Some(delegation) = of.shown.delegation {
                    let Some(word) = looks.get(&delegation.key()) else { continue };
                    if word.is_lost() {
                        continue;
                    }
                    if !word.is_held() {
                        (one.fencing_token, one.taken) = (None, delegation.taken(*word));
                        owned.push(one);
                        continue;
                    }
                    if let Some((since, token)) = delegation.shown(*word) {
                        (one.age, one.fencing_token) = (Some(clock::since(since)), Some(token));
                    }
                }
                // FAST: of many holders, a question about a position shows one.
                if let Some(alike) = known[usize::from(is_held)].get_mut(&one.lock) {
                    alike.push((of.id.serial(), one));
                }
            }
        }
        owned.sort_by(|one, other| one.lock.name.as_bytes().cmp(other.lock.name.as_bytes()));
        for (known, shown) in known.iter_mut().zip([pending, held]) {
            // Entries of one agent that are equal are served in the order of its requests.
            for alike in known.values_mut() {
                alike.sort_by_key(|(serial, _)| Reverse(*serial));
            }
            for inspected in shown {
                if let Some((_, known)) = known.get_mut(&inspected.lock).and_then(Vec::pop) {
                    *inspected = known;
                }
            }
        }
    }
}
