//! Keys of this connection that are gone, and keys that belong to nobody: the reasons, and what
//! follows from them.

use super::{Agent, AgentSerial, Keeper, gone::Gone, wake};
use crate::{
    bucket::Todo,
    clock::Uptime,
    failure::place_removed,
    keys::{LockKey, NameKey, Phase, RequestKey},
    mirror::{Entry, Mirror},
    slots::Owner,
    table::{Again, State, Status, Table},
    values::Value,
};
use navlock_core::{ClientId, Lost};
use navlock_engine::RequestId;
use std::{collections::HashSet, task::Waker};

/// Tells the client of a lock or request that somebody has removed it.
pub(super) fn tell_removed(store: &str, table: &mut Table, id: RequestId) -> Vec<Waker> {
    match table.status(id) {
        Status::Held(_) => table.lose(id, Lost::Removed),
        _ => table.answer(id, State::Failed(place_removed(store))).into_iter().collect(),
    }
}

/// What has to be done because keys of this connection are gone.
pub(super) struct RemovalEffects {
    /// Requests that have to be made again, and their agents.
    pub(super) again: Vec<(AgentSerial, Again)>,
    /// Leases that may have ended.
    pub(super) doubted: Vec<i64>,
    /// Keys that are gone, and whose owners are told when it is known whether their lease has
    /// ended.
    pub(super) held_back: Vec<Gone>,
}

impl Keeper {
    /// Finds out why keys of this connection are gone that this connection has not removed, and
    /// what follows from that.
    ///
    /// After the end of a lease, the watches of the names tell of the deleted keys one after the
    /// other. So if all keys that a name had under a lease are gone, they are judged only when the store
    /// has said whether it still keeps the lease.
    pub(super) fn judge_gone(
        &self,
        bucket: u64,
        name: &NameKey,
        table: &mut Table,
        wakers: &mut Vec<Waker>,
        gone: Vec<(LockKey, RequestId, i64)>,
        thefts: &[i64],
    ) -> RemovalEffects {
        let mut doubted = Vec::new();
        let (mut removed, mut again) = (Vec::new(), Vec::new());
        for (key, id, revision) in gone {
            match (key.phase, table.status(id)) {
                (Phase::Held, Status::Held(_)) if thefts.contains(&revision) => {
                    wakers.extend(table.lose(id, Lost::Stolen));
                }
                // The key of a request is deleted when the request becomes a lock. The event of the
                // lock has told this already.
                (Phase::Held, Status::Held(_)) | (Phase::Queued, Status::Pending(_)) => {
                    removed.push((id, revision));
                }
                _ => {}
            }
        }
        let lease_of = |table: &mut Table, id| {
            let serial = table.agent_of(id)?;
            self.leases.agents.get(&serial).and_then(Agent::lease)
        };
        let is_free_of =
            |mirror: &Mirror, lease| mirror.entries().all(|(_, entry)| entry.lease != lease);
        let here = self.view(bucket, name).map(|view| &view.mirror);
        let is_all_here = |lease| here.is_none_or(|mirror| is_free_of(mirror, lease));
        let is_all = |lease| {
            let mut views = self.buckets.values().flat_map(|opened| opened.bucket.views.values());
            views.all(|view| is_free_of(&view.mirror, lease))
        };
        let mut held_back = Vec::new();
        for &(id, revision) in &removed {
            let Some(lease) = lease_of(table, id) else { continue };
            let is_last = is_all_here(lease);
            if is_last && is_all(lease) {
                // A waiting request is made again, whatever the reason was. The new try will show
                // the reason.
                if let Some(asked) = table.wait_again(id) {
                    again.push(asked);
                    continue;
                }
            }
            if is_last && self.leases.get(lease).is_some() {
                let (name, since) = (name.clone(), Uptime::now());
                held_back.push(Gone { lease, name, id, revision, since });
            } else {
                wakers.extend(tell_removed(self.store, table, id));
            }
            // If this was the name's only key under the lease, the lease may have ended.
            if !doubted.contains(&lease) {
                doubted.push(lease);
            }
        }
        RemovalEffects { again, doubted, held_back }
    }

    /// To be called when the store kept a lease at this moment. So somebody has removed the keys under
    /// the lease that had gone before that.
    pub(super) fn judge_held_back(&mut self, lease: i64, kept: Uptime) {
        let is_due = |gone: &Gone| gone.lease == lease && gone.since <= kept;
        let (due, rest) = std::mem::take(&mut self.gone).into_iter().partition::<Vec<_>, _>(is_due);
        self.gone = rest;
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for Gone { id, revision, .. } in due {
            // A late try may have made the key again.
            let is_gone = match table.status(id) {
                Status::Held(grant) => grant.made <= revision,
                Status::Pending(since) => since <= revision,
                Status::Ended | Status::Absent => false,
            };
            if is_gone {
                wakers.extend(tell_removed(self.store, &mut table, id));
            }
        }
        drop(table);
        wake(wakers);
    }

    /// Does what has to be done because keys are gone.
    pub(super) fn settle_gone(
        &mut self,
        RemovalEffects { again, doubted, held_back }: RemovalEffects,
    ) {
        self.gone.extend(held_back);
        self.ask_again(again);
        for lease in doubted {
            self.leases.look_after(lease);
        }
    }

    /// Removes a key that a try has made after the try was given up and its request was over.
    pub(super) fn remove_late(&mut self, bucket: u64, name: &NameKey, key: RequestKey, over: i64) {
        if self.slots.owner(key, i64::MAX) != Owner::Stray {
            return;
        }
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let late = |&(_, entry): &(_, &Entry)| entry.request == key && entry.made > over;
        let mut entries = opened.bucket.mirror(name).into_iter().flat_map(Mirror::entries);
        if let Some(ended) = entries.find(late).map(|(_, entry)| entry.ended()) {
            drop(entries);
            opened.bucket.push(name.clone(), Todo::Remove(ended, None));
        }
    }
}

/// Describes the keys that agents of this connection may have left behind, which they had through
/// another connection: under which leases, and of which agents.
pub(super) struct LeftBehind {
    leases: Vec<i64>,
    agents: HashSet<ClientId>,
}

impl LeftBehind {
    /// Whether this key was left behind. Keys that the agents still use belong to this connection
    /// already.
    pub(super) fn covers(&self, lease: i64, value: &[u8]) -> bool {
        let is_theirs = |client_id| self.agents.contains(&client_id);
        self.leases.contains(&lease) && Value::client_id(value).is_some_and(is_theirs)
    }
}

impl Keeper {
    pub(super) fn left(&self) -> LeftBehind {
        let mut leases = self.leases.ids();
        leases.retain(|id| self.leases.is_of_another(*id));
        if leases.is_empty() {
            return LeftBehind { leases, agents: HashSet::new() };
        }
        let reclaimed = self.leases.agents.values().filter(|agent| agent.is_reclaimed);
        LeftBehind { leases, agents: reclaimed.map(|agent| agent.client_id).collect() }
    }
}
