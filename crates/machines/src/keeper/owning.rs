//! Names that this connection owns: when it begins to own a name, and when that ends.
//!
//! While a name is owned, callers grant it themselves (see [`owned`](crate::table)). The keeper watches
//! whether the name is still owned, and whether anybody waits for it elsewhere.

use navlock_core::Lost;
use navlock_engine::RequestId;

use super::{Agent, AgentSerial, Call, Keeper, wake};
use crate::{
    clock::Uptime,
    keys::NameKey,
    lease::LeaseName,
    mirror::Entry,
    slots::Owner,
    table::{Again, LocalOutcome, QueueOrder, Started, Status},
    tokens,
    transactions::{AskPurpose, Owning, say_held},
    view::{Ownership, View},
};

/// How many names a connection owns at most.
const MOST: usize = 10_000;

impl Keeper {
    /// The lease under which one more name may be owned, if one may.
    pub(super) fn may_own(&self) -> Option<i64> {
        let may_own = self.options.taken > 0 && !self.is_quitting;
        let lease = self.good_lease().filter(|_| may_own)?;
        (self.shared.table().count_owned() < MOST).then_some(lease.id)
    }

    /// Whether this connection owns the name, as far as it has heard.
    pub(super) fn own_state(&self, bucket: u64, name: &NameKey) -> Ownership {
        self.view(bucket, name).map(|view| view.own).unwrap_or_default()
    }

    pub(super) fn set_own(&mut self, bucket: u64, name: &NameKey, own: Ownership) {
        if let Some(view) = self.view_mut(bucket, name) {
            view.set_own(own);
        }
    }

    /// The connection's lease, if it is good.
    pub(super) fn good_lease(&self) -> Option<LeaseName> {
        self.leases.live(self.leases.own()?).map(|lease| lease.name)
    }

    /// Whether this is the connection's lease, and the lease is good.
    pub(super) fn is_good(&self, lease: i64) -> bool {
        self.good_lease().is_some_and(|good| good.id == lease)
    }

    /// To be called when this connection owns a name since this revision, under this lease.
    pub(super) fn begin_owned(&mut self, bucket: u64, name: &NameKey, made: i64, lease: i64) {
        // An owner key that is older than our last try to own the name does not count. The news of
        // it came late.
        if !matches!(self.own_state(bucket, name), Ownership::Asked(after) if after < made) {
            return;
        }
        let of = (bucket, name.clone());
        // If the lease is not our good one, the name is lost with this lease, and requests are made
        // again, because the store removed them when it gave us the name. So are they if a thief may have it.
        let is_late = self.view(bucket, name).is_some_and(View::is_late);
        let Some(lease) = self.good_lease().filter(|good| good.id == lease && !is_late) else {
            self.set_own(bucket, name, Ownership::No);
            return self.ask_all_again(bucket, name);
        };
        let run = self.run(bucket, name);
        let Started { wakers, freed, has_strangers, without_lease } =
            self.shared.table().own(&of, made, lease, &run);
        for (key, id) in freed {
            self.slots.free(key, id, made);
        }
        let is_wanted = self.view_mut(bucket, name).is_some_and(|view| {
            view.begin_owned(made);
            view.deadline.is_some()
        });
        self.limit(bucket, name);
        wake(wakers);
        for serial in without_lease {
            self.need_lease(serial);
        }
        if has_strangers || is_wanted {
            self.note_wanted(bucket, name);
            self.leave(bucket, name);
        }
        self.heed(bucket, name, false);
        if self.is_quitting {
            // The connection is ending, and has given up all its other names already.
            self.leave(bucket, name);
        }
    }

    /// The requests of a run, with their places in the queue of the name. The name is to be owned
    /// for these requests alone.
    fn run(&self, bucket: u64, name: &NameKey) -> Vec<(RequestId, QueueOrder)> {
        let run = self.view(bucket, name).into_iter().flat_map(|view| &view.run);
        let ours = run.filter_map(|entry| match self.slots.owner(entry.request, entry.made) {
            Owner::Request(id) => Some((id, entry.place())),
            _ => None,
        });
        ours.collect()
    }

    /// Takes in the outcome of an operation that was to own a name.
    pub(super) fn owned(
        &mut self,
        bucket: u64,
        name: &NameKey,
        of: Option<i64>,
        owning: &Owning,
        again: bool,
    ) {
        match of {
            Some(made) => self.begin_owned(bucket, name, made, owning.lease),
            None if !matches!(self.own_state(bucket, name), Ownership::Asked(_)) => {}
            None => {
                self.set_own(bucket, name, Ownership::No);
                if again {
                    // The name may have been ours and may be another's by now. In that case, our
                    // requests are gone.
                    self.ask_all_again(bucket, name);
                }
            }
        }
    }

    /// Makes all waiting requests for a name again, even if they have keys.
    fn ask_all_again(&mut self, bucket: u64, name: &NameKey) {
        let mut table = self.shared.table();
        let all = table.of_name(bucket, name);
        let waiting = all.into_iter().filter(|(.., status)| matches!(status, Status::Pending(_)));
        let again: Vec<_> = waiting.filter_map(|(id, ..)| table.wait_again(id)).collect();
        drop(table);
        self.ask_again(again);
    }

    /// Makes these requests again. Their old keys belong to nobody from here on.
    pub(super) fn ask_again(&mut self, again: Vec<(AgentSerial, Again)>) {
        for (serial, Again { of: (bucket, name), id, key }) in again {
            if let Some(key) = key {
                self.slots.retire(key, id);
            }
            if let Some(opened) = self.buckets.get_mut(&bucket) {
                opened.bucket.push_again(&name, vec![(id, serial)]);
            }
        }
    }

    /// Queues or answers a request whose name is owned. Returns whether nothing else has to be done
    /// for it.
    pub(super) fn take_here(
        &mut self,
        bucket: u64,
        name: &NameKey,
        serial: AgentSerial,
        id: RequestId,
    ) -> bool {
        let mut table = self.shared.table();
        let (here, is_here) = (table.take_here(id), table.is_here(id));
        drop(table);
        if let Some(LocalOutcome::Answered { mut wakers, own, .. }) = here {
            // The caller was told that the request waits, so the caller is woken.
            wakers.extend(own);
            wake(wakers);
            return true;
        }
        // A name whose tokens are used up is given up once nobody holds it.
        let usage = self.shared.table().usage(&(bucket, name.clone()));
        if usage.is_some_and(|usage| usage.is_over()) && !self.is_stray(bucket, name) {
            self.leave(bucket, name);
            return is_here;
        }
        let lease = self.leases.agents.get(&serial).and_then(Agent::lease);
        match lease {
            // The agent's lease was another connection's, so the agent has no part in this name.
            Some(lease) if self.leases.own() != Some(lease) => {
                self.note_wanted(bucket, name);
                self.leave(bucket, name);
                return is_here;
            }
            _ if !is_here => return false,
            _ => {
                let agent = self.leases.agents.get(&serial).map(|agent| agent.id);
                let wakers = agent.map(|agent| self.shared.table().process_of(agent));
                wake(wakers.unwrap_or_default());
                let is_over = agent.is_some_and(|id| self.shared.table().is_over(serial, id));
                if lease.is_none() || is_over {
                    self.need_lease(serial);
                }
            }
        }
        true
    }

    /// Takes in what the watch or a list has told about the owner of a name.
    pub(super) fn heed_owned(&mut self, bucket: u64, name: &NameKey, is_stolen: bool) {
        self.heed(bucket, name, is_stolen);
        if let Some(Entry { made, lease, .. }) = self.stray_owned(bucket, name) {
            self.disown(bucket, name, made, lease);
        }
    }

    /// Takes in what others have done to a name that we own. `is_stolen` says that the name has
    /// just been stolen.
    pub(super) fn heed(&mut self, bucket: u64, name: &NameKey, is_stolen: bool) {
        let Ownership::Since(made) = self.own_state(bucket, name) else { return };
        let Some(View { mirror, .. }) = self.view(bucket, name) else { return };
        let me = self.slots.me();
        let is_there = mirror.owned(me).is_some_and(|owned| owned.made == made);
        if !is_there {
            if !mirror.is_listed() || mirror.revision() < made {
                // The mirror is behind.
                return;
            }
            let how = mirror.why_gone(tokens::token(made));
            // If the owner key has gone without a theft, a later holder has not stolen the name.
            let is_stray = self.is_stray(bucket, name);
            if is_stolen || how == Lost::Stolen && !is_stray {
                return self.lose_name(bucket, name, Lost::Stolen);
            }
            return self.doubt_name(bucket, name);
        }
        let owned = mirror.owned(me);
        let asked = owned.and_then(|owned| AskPurpose::of(&owned.value));
        let is_wanted = mirror.queue().any(|entry| entry.request.owner != me);
        let usage = self.shared.table().usage(&(bucket, name.clone()));
        let is_for_run = usage.is_some_and(|usage| usage.is_for_run);
        if matches!(asked, Some(AskPurpose::ToSee | AskPurpose::ToSeeAll))
            && (is_for_run || !is_wanted)
        {
            return self.show(bucket, name);
        }
        // How the name is held, if that keeps out the request that asks.
        let held = match asked {
            Some(AskPurpose::IfFree(wanted)) => usage.and_then(|usage| usage.keeps_out(wanted)),
            _ => None,
        };
        let held = held.filter(|_| is_for_run || !is_wanted);
        if let (Some(owned), Some(held)) = (owned, held) {
            if let Some(opened) = self.buckets.get(&bucket) {
                let key = opened.bucket.keys.name(name).owned(me);
                let transaction = say_held(&key, owned, held);
                self.calls.push_back(Call::Write { transaction });
            }
            return;
        }
        if is_for_run {
            // Waiters of other machines come after the requests of the run.
            if asked.is_some() {
                self.leave(bucket, name);
            }
            return;
        }
        if is_wanted || asked.is_some() {
            self.note_wanted(bucket, name);
            self.leave(bucket, name);
        }
    }

    /// Whether our owner key of the name has gone, and we do not know why.
    pub(super) fn is_stray(&self, bucket: u64, name: &NameKey) -> bool {
        self.view(bucket, name).is_some_and(|view| view.strayed.is_some())
    }

    /// Whether the name is owned for a run alone.
    pub(super) fn is_for_run(&self, bucket: u64, name: &NameKey) -> bool {
        let usage = self.shared.table().usage(&(bucket, name.clone()));
        usage.is_some_and(|usage| usage.is_for_run)
    }

    pub(super) fn note_wanted(&mut self, bucket: u64, name: &NameKey) {
        if let Some(view) = self.view_mut(bucket, name) {
            view.note_wanted();
        }
    }

    /// To be called when our owner key of a name has gone, with its lease or without.
    fn doubt_name(&mut self, bucket: u64, name: &NameKey) {
        self.shared.table().close(&(bucket, name.clone()));
        let Some(lease) = self.leases.own() else { return };
        let Some(view) = self.view_mut(bucket, name).filter(|view| view.strayed.is_none()) else {
            return;
        };
        view.strayed = Some(Uptime::now());
        self.leases.look_after(lease);
    }

    /// To be called when the store kept this lease at this moment. So somebody has removed the owner
    /// keys that had gone before that.
    pub(super) fn judge_stray(&mut self, lease: i64, kept: Uptime) {
        if self.leases.own() != Some(lease) {
            return;
        }
        let mut due = Vec::new();
        for (&bucket, opened) in &mut self.buckets {
            for (name, view) in &mut opened.bucket.views {
                if view.strayed.take_if(|since| *since <= kept).is_some() {
                    due.push((bucket, name.clone()));
                }
            }
        }
        due.sort_unstable();
        for (bucket, name) in due {
            if matches!(self.own_state(bucket, &name), Ownership::Since(_)) {
                self.lose_name(bucket, &name, Lost::Removed);
                self.step(bucket, &name);
            }
        }
    }

    /// Ends our ownership of a name. Its locks are lost, and its waiting requests are made in the store.
    pub(super) fn lose_name(&mut self, bucket: u64, name: &NameKey, how: Lost) {
        let of = (bucket, name.clone());
        let (wakers, again) = self.shared.table().lose_name(&of, how);
        self.set_own(bucket, name, Ownership::No);
        self.note_wanted(bucket, name);
        wake(wakers);
        self.ask_again(again);
    }

    /// Loses all names that are owned under a lease that is lost.
    pub(super) fn lose_names_under(&mut self, lease: i64, how: Lost) {
        let owned = self.shared.table().owned_under(lease);
        for (bucket, name) in owned {
            self.lose_name(bucket, &name, how);
        }
        if self.leases.own() != Some(lease) {
            return;
        }
        for opened in self.buckets.values_mut() {
            let mut left = Vec::new();
            for (name, view) in &mut opened.bucket.views {
                if view.own != Ownership::No {
                    view.set_own(Ownership::No);
                    left.push(name.clone());
                }
            }
            // Locks that had still to be written are lost as well.
            for name in &left {
                drop(opened.bucket.stop_leaving(name));
            }
        }
    }

    /// An owner key of ours for a name that this connection does not own, as far as it knows.
    fn stray_owned(&self, bucket: u64, name: &NameKey) -> Option<Entry> {
        let view = self.view(bucket, name).filter(|view| !view.is_ending())?;
        let owned = view.mirror.owned(self.slots.me())?;
        let is_known = match self.own_state(bucket, name) {
            Ownership::No => false,
            Ownership::Asked(after) => after < owned.made,
            Ownership::Since(made) | Ownership::Leaving(made) => made == owned.made,
        };
        (!is_known).then(|| owned.clone())
    }
}
