//! Giving up a name that this connection owns: the name's locks and waiting requests are written to
//! the store.

use super::{Agent, Keeper, wake};
use crate::{
    clock::wall_millis_at,
    keys::{NameKey, Phase, RequestKey},
    table::{Handover, Status},
    transactions::{Ask, AskPurpose, Leaving, LeavingEntry, Outcome},
    values::Value,
    view::Ownership,
};
use navlock_core::Lost;
use std::time::Duration;

/// How long this connection goes on owning a name that nobody uses any more.
const IDLE: Duration = Duration::from_secs(10);

impl Keeper {
    /// Gives up a name that this connection owns. Its locks and waiting requests are written to
    /// the store, where they keep their order.
    pub(super) fn leave(&mut self, bucket: u64, name: &NameKey) {
        let Ownership::Since(made) = self.own_state(bucket, name) else { return };
        let Some(lease) = self.good_lease() else { return };
        let leavers = self.shared.table().leave(&(bucket, name.clone()), |id| self.slots.take(id));
        let (mut entries, mut again, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        for (nth, leaver) in leavers.into_iter().enumerate() {
            let (id, agent, is_lock) = (leaver.id, leaver.agent, leaver.grant.is_some());
            let slot = leaver.key;
            // If a request cannot be written, later requests are not written either, so that nobody
            // overtakes.
            let written = self.leaving_entry(nth, leaver, made, lease.id);
            match written.filter(|_| is_lock || again.is_empty()) {
                Some(written) => entries.push(written),
                // A lock that cannot be written is lost.
                None if is_lock => {
                    wakers.extend(self.shared.table().lose(id, Lost::Disconnected));
                    self.slots.retire(slot, id);
                }
                None => again.push((id, agent)),
            }
        }
        wake(wakers);
        for &(id, _) in &again {
            if let Some(key) = self.shared.table().keep_back(id) {
                self.slots.free(key, id, 0);
            }
        }
        self.set_own(bucket, name, Ownership::Leaving(made));
        let me = self.slots.me();
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            opened.bucket.push_again(name, again);
            opened.bucket.push_leaving(name, made, me, entries);
        }
        self.step(bucket, name);
    }

    /// What is written for a lock or request of which others have not heard. `None` if its agent
    /// has its locks under another lease, or has no lease yet. Such a request is made in the usual
    /// way.
    pub(super) fn leaving_entry(
        &self,
        nth: usize,
        leaver: Handover,
        made: i64,
        lease: i64,
    ) -> Option<LeavingEntry> {
        let agent = self.leases.agents.get(&leaver.agent)?;
        let is_under = agent.lease() == Some(lease);
        is_under.then(|| entry_of(agent, (nth, leaver), made, lease))
    }

    /// To be called when the locks and requests of a name that is given up were written, or could
    /// not be.
    pub(super) fn given_up(
        &mut self,
        bucket: u64,
        name: &NameKey,
        leaving: &Leaving,
        written: bool,
        outcomes: &[(RequestKey, Outcome)],
    ) {
        let gone = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Gone);
        let mut gone: Vec<_> = gone.map(|&(key, _)| key).collect();
        // Or else there is more to write, or this owner key was a stray key.
        let is_over = (!written || leaving.is_last)
            && self.own_state(bucket, name) == Ownership::Leaving(leaving.made);
        if is_over {
            self.set_own(bucket, name, Ownership::No);
            let rest = self.buckets.get_mut(&bucket).map(|opened| opened.bucket.stop_leaving(name));
            gone.extend(rest.into_iter().flatten().map(|entry| entry.ask.request));
        }
        let why =
            |of| self.view(bucket, name).map_or(Lost::Removed, |view| view.mirror.why_gone(of));
        let (mut wakers, mut again) = (Vec::new(), Vec::new());
        let mut table = self.shared.table();
        for id in gone.into_iter().filter_map(|key| self.slots.holder(key)) {
            match table.status(id) {
                Status::Held(grant) => wakers.extend(table.lose(id, why(grant.token))),
                _ => again.extend(table.wait_again(id)),
            }
        }
        drop(table);
        wake(wakers);
        self.ask_again(again);
    }

    /// Whether it is still wanted to write the locks and requests of a name that is given up. All
    /// of them may be lost already.
    pub(super) fn is_leaving(&self, bucket: u64, name: &NameKey, leaving: &Leaving) -> bool {
        leaving.entries.is_empty()
            || self.own_state(bucket, name) == Ownership::Leaving(leaving.made)
    }

    /// Gives up a name, because others have to see its locks and waiters, or because the name was
    /// owned for a run that is over.
    pub(super) fn give_up(&mut self, bucket: u64, name: &NameKey) {
        if !matches!(self.own_state(bucket, name), Ownership::Since(_)) {
            return;
        }
        if !self.is_for_run(bucket, name) {
            self.note_wanted(bucket, name);
        }
        self.leave(bucket, name);
    }

    /// To be called when the store refuses to write the locks that are held. Waiting requests are told
    /// of this. The locks stay held, and the name stays owned, until the locks are released. Then
    /// there is nothing left to write.
    pub(super) fn not_left(
        &mut self,
        bucket: u64,
        name: &NameKey,
        leaving: &Leaving,
    ) -> Vec<LeavingEntry> {
        let rest = self.buckets.get_mut(&bucket).map(|opened| opened.bucket.stop_leaving(name));
        let all = leaving.entries.iter().cloned().chain(rest.into_iter().flatten());
        let (held, waiting): (Vec<_>, Vec<_>) =
            all.partition(|entry: &LeavingEntry| entry.phase == Phase::Held);
        let held: Vec<_> = held
            .iter()
            .filter_map(|entry| Some((entry.ask.request, self.slots.holder(entry.ask.request)?)))
            .collect();
        // If the lease was lost meanwhile, all locks of the name were lost with it.
        let is_leaving = self.own_state(bucket, name) == Ownership::Leaving(leaving.made);
        if let Some(lease) = self.good_lease().filter(|_| is_leaving) {
            let ids: Vec<_> = held.iter().map(|&(_, id)| id).collect();
            let of = (bucket, name.clone());
            self.shared.table().keep_lease(&of, leaving.made, lease, &ids);
            self.set_own(bucket, name, Ownership::Since(leaving.made));
            for (key, id) in held {
                self.slots.retire(key, id);
            }
        }
        waiting
    }

    /// Removes an owner key of this connection that the connection does not know of. A late try has
    /// made it.
    pub(super) fn disown(&mut self, bucket: u64, name: &NameKey, made: i64, lease: i64) {
        if self.leases.is_expiring(lease) {
            return;
        }
        let me = self.slots.me();
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            opened.bucket.push_leaving(name, made, me, Vec::new());
        }
    }

    /// Gives up the names that nobody uses any more, and the names that are not granted any more
    /// and that nobody holds. Owners' keys in which a question stands still are looked at again.
    pub(super) fn check_owned(&mut self) {
        let (mut over, mut asked) = (Vec::new(), Vec::new());
        let me = self.slots.me();
        let table = self.shared.table();
        for (&bucket, opened) in &mut self.buckets {
            for (name, view) in &mut opened.bucket.views {
                let Ownership::Since(_) = view.own else { continue };
                let Some(usage) = table.usage(&(bucket, name.clone())) else { continue };
                let is_idle = view.idle_since(usage.granted).elapsed() >= IDLE && !usage.is_used;
                if is_idle && usage.granted == 0 {
                    // It was of no use to own the name.
                    view.note_wanted();
                }
                if is_idle || usage.is_over() {
                    over.push((bucket, name.clone()));
                } else if view
                    .mirror
                    .owned(me)
                    .and_then(|owned| AskPurpose::of(&owned.value))
                    .is_some()
                {
                    // What was answered may not have been written.
                    asked.push((bucket, name.clone()));
                }
            }
        }
        drop(table);
        for (bucket, name) in asked {
            self.heed(bucket, &name, false);
        }
        for (bucket, name) in over {
            if !self.is_stray(bucket, &name) {
                self.leave(bucket, &name);
            }
        }
    }

    /// Gives up all names that this connection owns.
    pub(super) fn leave_all(&mut self) {
        let mut all = Vec::new();
        for (&bucket, opened) in &self.buckets {
            let owned = opened.bucket.views.iter().filter(|(_, view)| view.own != Ownership::No);
            all.extend(owned.map(|(name, _)| (bucket, name.clone())));
        }
        for (bucket, name) in all {
            self.leave(bucket, &name);
        }
    }
}

/// A lock or request of a name that is owned since the revision `made`, as it is written to the store.
pub(super) fn entry_of(
    agent: &Agent,
    (nth, leaver): (usize, Handover),
    made: i64,
    lease: i64,
) -> LeavingEntry {
    let Handover { key, name, mode, grant, place, since, serial, said, .. } = leaver;
    let phase = if grant.is_some() { Phase::Held } else { Phase::Queued };
    // A request that had a place in the queue before has it again.
    let (order, place) = place.unwrap_or((made, nth as u64));
    let order = u64::try_from(order).unwrap_or_default();
    let value = Value {
        client_id: agent.client_id,
        since: wall_millis_at(since),
        serial,
        place,
        mark: grant.map_or(order, |grant| grant.token.get()),
        info: agent.info.clone(),
        said,
        name,
    };
    LeavingEntry { phase, ask: Ask { request: key, mode, lease, value: value.encode() } }
}
