//! Names that are this connection's: when one begins to be, and when it ends.
//!
//! While it is, callers grant it themselves (see [`owned`](crate::table)); here it is looked after that it
//! is ours still, and that nobody waits for it elsewhere.

use std::{collections::btree_map, time::Duration};

use navlock_core::Lost;
use navlock_engine::RequestId;

use super::{
    AgentSerial, Call, Keeper, Operated,
    agent::Agent,
    lease_states,
    ownership::{AGAIN, Adrift, PATIENCE},
    wake,
};
use crate::{
    clock::{Moment, wall_millis},
    data::{Answer, KeyValue},
    keys::{NameKey, Phase, RequestKey},
    lease::LeaseName,
    mirror::Entry,
    slots::Owner,
    table::{Again, Begun, Here, Leaver, Place, Status},
    tokens,
    transactions::{Ask, Force, Kept, Leaving, Operation, Outcome, Owning, Wish, ask_owner},
    values::Value,
    view::Own,
};

/// For how long a name stays ours that nobody takes any more.
const IDLE: Duration = Duration::from_secs(10);

/// How many names are ours at most.
const MOST: usize = 10_000;

impl Keeper {
    /// Under which lease one more name may be ours.
    pub(super) fn may_own(&self) -> Option<i64> {
        let may_own = self.options.taken > 0 && !self.is_quitting;
        let lease = self.good_lease().filter(|_| may_own)?;
        (self.shared.table().count_owned() < MOST).then_some(lease.id)
    }

    /// What is ours of a name by now, as far as it was heard.
    fn own_state(&self, bucket: u64, name: &NameKey) -> Own {
        let view = self.buckets.get(&bucket).and_then(|opened| opened.bucket.views.get(name));
        view.map(|view| view.own).unwrap_or_default()
    }

    fn set_own(&mut self, bucket: u64, name: &NameKey, own: Own) {
        let view = self.buckets.get_mut(&bucket).map(|opened| &mut opened.bucket.views);
        if let Some(view) = view.and_then(|views| views.get_mut(name)) {
            view.own = own;
        }
    }

    /// The connection's lease, if it is good.
    fn good_lease(&self) -> Option<LeaseName> {
        let lease_states::Own::There(id) = self.own else { return None };
        let lease = self.leases.get(&id)?;
        (lease.state == lease_states::State::Live).then_some(lease.name)
    }

    /// Whether this is the connection's lease, and good.
    pub(super) fn is_good(&self, lease: i64) -> bool {
        self.good_lease().is_some_and(|good| good.id == lease)
    }

    /// A name is ours since this revision, under this lease.
    pub(super) fn begin_owned(&mut self, bucket: u64, name: &NameKey, made: i64, lease: i64) {
        // Not one that was there before that was asked, and is told of late.
        if !matches!(self.own_state(bucket, name), Own::Asked(after) if after < made) {
            return;
        }
        self.set_own(bucket, name, Own::No);
        let of = (bucket, name.clone());
        // What was under another is lost with it, and asked for again. So is what has another lease: its
        // requests are gone as well.
        let Some(lease) = self.good_lease().filter(|good| good.id == lease) else {
            return self.ask_all_again(bucket, name);
        };
        let run = self.run(bucket, name);
        let Begun { wakers, freed, has_strangers, without_lease } =
            self.shared.table().own(&of, made, lease, &run);
        for (key, id) in freed {
            self.slots.free(key, id, made);
        }
        // What has become of a key that was there before says nothing of this one.
        self.adrift.remove(&of);
        let opened = self.buckets.get_mut(&bucket);
        if let Some(view) = opened.and_then(|opened| opened.bucket.views.get_mut(name)) {
            view.begin_owned(made);
        }
        wake(wakers);
        for serial in without_lease {
            self.need_lease(serial);
        }
        if has_strangers {
            self.note_wanted(bucket, name);
            self.leave(bucket, name);
        }
        self.heed(bucket, name, false);
        if self.is_quitting {
            // All others have been given up by now.
            self.leave(bucket, name);
        }
    }

    /// For whom alone a name is to be ours, and where they were in its queue.
    fn run(&self, bucket: u64, name: &NameKey) -> Vec<(RequestId, Place)> {
        let view = self.buckets.get(&bucket).and_then(|opened| opened.bucket.views.get(name));
        let run = view.into_iter().flat_map(|view| &view.run);
        let ours = run.filter_map(|entry| match self.slots.owner(entry.request, entry.made) {
            Owner::Request(id) => Some((id, entry.place())),
            _ => None,
        });
        ours.collect()
    }

    /// An operation that was to have a name be ours has come to this.
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
            None if !matches!(self.own_state(bucket, name), Own::Asked(_)) => {}
            None => {
                self.set_own(bucket, name, Own::No);
                if again {
                    // It may have been ours, and be another's by now: then nothing is left of what waits.
                    self.ask_all_again(bucket, name);
                }
            }
        }
    }

    /// What waits for a name is asked for again, whatever is there of it.
    fn ask_all_again(&mut self, bucket: u64, name: &NameKey) {
        let mut table = self.shared.table();
        let all = table.of_name(bucket, name);
        let waiting = all.into_iter().filter(|(.., status)| matches!(status, Status::Pending(_)));
        let again: Vec<_> = waiting.filter_map(|(id, ..)| table.wait_again(id, true)).collect();
        drop(table);
        self.ask_again(again);
    }

    /// These are asked for again, and what there is of them is nobody's.
    pub(super) fn ask_again(&mut self, again: Vec<(AgentSerial, Again)>) {
        for (serial, Again { bucket, name, id, key }) in again {
            if let Some(key) = key {
                self.slots.retire(key, id);
            }
            if let Some(opened) = self.buckets.get_mut(&bucket) {
                opened.bucket.push_again(&NameKey::new(&name), vec![(id, serial)]);
            }
        }
    }

    /// Does what a request asks for whose name is ours. Whether it needs nothing else.
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
        if let Some(Here::Answered { mut wakers, own, .. }) = here {
            // Whoever asked was told that it waits.
            wakers.extend(own);
            wake(wakers);
            return true;
        }
        // Those of which no more can be granted are given up, once nobody holds them.
        let usage = self.shared.table().usage(&(bucket, name.clone()));
        if usage.is_some_and(|usage| usage.is_over()) && !self.is_adrift(bucket, name) {
            self.leave(bucket, name);
            return is_here;
        }
        let lease = self.agents.get(&serial).and_then(Agent::lease_id);
        match lease {
            // What it has was another connection's: this name is not its.
            Some(lease) if self.own != lease_states::Own::There(lease) => {
                self.note_wanted(bucket, name);
                self.leave(bucket, name);
                return is_here;
            }
            _ if !is_here => return false,
            _ => {
                let agent = self.agents.get(&serial).map(|agent| agent.id);
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

    /// Sees what the watch or a list has told of whose a name is.
    pub(super) fn heed_owned(&mut self, bucket: u64, name: &NameKey, is_stolen: bool) {
        self.heed(bucket, name, is_stolen);
        if let Some(Entry { made, lease, .. }) = self.stray_owned(bucket, name) {
            self.disown(bucket, name, made, lease);
        }
    }

    /// Sees what others have done to a name of ours. It may just have been stolen.
    pub(super) fn heed(&mut self, bucket: u64, name: &NameKey, is_stolen: bool) {
        let Own::Since(made) = self.own_state(bucket, name) else { return };
        let Some(mirror) = self.buckets.get(&bucket).and_then(|opened| opened.bucket.mirror(name))
        else {
            return;
        };
        let me = self.slots.me();
        let is_there = mirror.owned(me).is_some_and(|owned| owned.made == made);
        if !is_there {
            if !mirror.is_listed() || mirror.revision() < made {
                // It is behind.
                return;
            }
            let how = mirror.why_gone(tokens::token(made));
            // What was seen to go without a theft is not stolen by who has come since.
            let is_adrift = self.is_adrift(bucket, name);
            if is_stolen || how == Lost::Stolen && !is_adrift {
                return self.lose_name(bucket, name, Lost::Stolen);
            }
            return self.doubt_name(bucket, name);
        }
        let asked = mirror.owned(me).and_then(|owned| Wish::of(&owned.value));
        let is_wanted = mirror.queue().any(|entry| entry.request.owner != me);
        if self.is_for_run(bucket, name) {
            // Who waits comes after those for whom it is.
            if asked.is_some() {
                self.note_shown(bucket, name);
                self.leave(bucket, name);
            }
            return;
        }
        if is_wanted || asked == Some(Wish::ToHave) {
            self.note_wanted(bucket, name);
        } else if asked.is_some() {
            self.note_shown(bucket, name);
        }
        if is_wanted || asked.is_some() {
            self.leave(bucket, name);
        }
    }

    /// Whether its key has gone, and it is not known why.
    fn is_adrift(&self, bucket: u64, name: &NameKey) -> bool {
        self.adrift.contains_key(&(bucket, name.clone()))
    }

    /// Whether it is ours for a run alone.
    fn is_for_run(&self, bucket: u64, name: &NameKey) -> bool {
        let usage = self.shared.table().usage(&(bucket, name.clone()));
        usage.is_some_and(|usage| usage.is_for_run)
    }

    fn note_wanted(&mut self, bucket: u64, name: &NameKey) {
        let opened = self.buckets.get_mut(&bucket);
        if let Some(view) = opened.and_then(|opened| opened.bucket.views.get_mut(name)) {
            view.note_wanted();
        }
    }

    /// Others look at a name that is ours: it is given up for that.
    pub(super) fn note_shown(&mut self, bucket: u64, name: &NameKey) {
        let opened = self.buckets.get_mut(&bucket);
        if let Some(view) = opened.and_then(|opened| opened.bucket.views.get_mut(name)) {
            view.note_shown();
        }
    }

    /// The key is gone that says that a name is ours, be it with its lease or by itself.
    fn doubt_name(&mut self, bucket: u64, name: &NameKey) {
        let of = (bucket, name.clone());
        self.shared.table().close(&of);
        let lease_states::Own::There(lease) = self.own else { return };
        // Once: each time that it is looked after it begins to be kept anew.
        if let btree_map::Entry::Vacant(vacant) = self.adrift.entry(of) {
            vacant.insert(Adrift { lease, since: Moment::now() });
            self.look_after(lease);
        }
    }

    /// Etcd kept a lease at this moment: names that had gone from under it before were taken away.
    pub(super) fn judge_adrift(&mut self, lease: i64, kept: Moment) {
        let mut due = Vec::new();
        self.adrift.retain(|of, adrift| {
            let is_due = adrift.lease == lease && adrift.since <= kept;
            if is_due {
                due.push(of.clone());
            }
            !is_due
        });
        for (bucket, name) in due {
            if matches!(self.own_state(bucket, &name), Own::Since(_)) {
                self.lose_name(bucket, &name, Lost::Removed);
                self.step(bucket, &name);
            }
        }
    }

    /// A name is not ours any more. What was held of it is lost, and what waits is asked for.
    fn lose_name(&mut self, bucket: u64, name: &NameKey, how: Lost) {
        let of = (bucket, name.clone());
        let waits_on = self.options.waits_through_outages;
        let (wakers, again) = self.shared.table().lose_name(&of, how, waits_on);
        self.set_own(bucket, name, Own::No);
        self.note_wanted(bucket, name);
        wake(wakers);
        self.ask_again(again);
        self.say_where();
    }

    /// One of ours has taken these locks from whoever held them. The name may have been ours.
    pub(super) fn robbed(&mut self, bucket: u64, name: &NameKey, victims: &[Vec<u8>]) {
        if victims.is_empty() || !matches!(self.own_state(bucket, name), Own::Since(_)) {
            return;
        }
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let owned = opened.bucket.keys.name(name).owned(self.slots.me());
        if victims.contains(&owned) {
            self.lose_name(bucket, name, Lost::Stolen);
        }
    }

    /// The same of all that is ours under a lease, which is lost.
    pub(super) fn lose_names_under(&mut self, lease: i64, how: Lost) {
        self.adrift.retain(|_, adrift| adrift.lease != lease);
        let owned = self.shared.table().owned_under(lease);
        for (bucket, name) in owned {
            self.lose_name(bucket, &name, how);
        }
        if self.own != lease_states::Own::There(lease) {
            return;
        }
        for opened in self.buckets.values_mut() {
            let mut left = Vec::new();
            for (name, view) in &mut opened.bucket.views {
                if view.own != Own::No {
                    view.own = Own::No;
                    left.push(name.clone());
                }
            }
            // What was not written is lost with what was.
            for name in &left {
                drop(opened.bucket.stop_leaving(name));
            }
        }
    }

    /// Gives up a name that is ours. What is held of it, and who waits, is written to etcd, where all go
    /// on in their order.
    pub(super) fn leave(&mut self, bucket: u64, name: &NameKey) {
        let Own::Since(made) = self.own_state(bucket, name) else { return };
        let Some(lease) = self.good_lease() else { return };
        let leavers = self.shared.table().leave(&(bucket, name.clone()), &mut self.slots);
        let (mut kept, mut again, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        for (nth, leaver) in leavers.into_iter().enumerate() {
            let (id, agent, is_lock) = (leaver.id, leaver.agent, leaver.grant.is_some());
            let slot = leaver.key;
            // Nor who came after such a one: nobody overtakes.
            let written = self.kept(nth, leaver, made, lease.id);
            match written.filter(|_| is_lock || again.is_empty()) {
                Some(written) => kept.push(written),
                // Nobody holds what is not written.
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
        self.set_own(bucket, name, Own::Leaving(made));
        let me = self.slots.me();
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            opened.bucket.push_again(name, again);
            opened.bucket.push_leaving(name, made, me, kept);
        }
        self.step(bucket, name);
    }

    /// What is written of a lock or request, of which others have not heard. `None` if its agent has what it has
    /// under another lease, or none yet: that is asked for by itself.
    fn kept(&self, nth: usize, leaver: Leaver, made: i64, lease: i64) -> Option<Kept> {
        let Leaver { agent, key, name, mode, grant, place, asked, said, .. } = leaver;
        let agent = self.agents.get(&agent).filter(|agent| agent.lease_id() == Some(lease))?;
        let phase = if grant.is_some() { Phase::Held } else { Phase::Queued };
        // Who had a place before has it again.
        let (order, place) = place.unwrap_or((made, nth as u64));
        let order = u64::try_from(order).unwrap_or_default();
        let name = NameKey::new(&name).is_hash().then_some(name);
        let value = Value {
            client_id: agent.client_id,
            since: wall_millis(),
            asked,
            place,
            mark: grant.map_or(order, |grant| grant.token.get()),
            info: agent.info().clone(),
            said,
            name,
        };
        Some(Kept { phase, ask: Ask { request: key, mode, lease, value: value.encode() } })
    }

    /// What was to be written to give a name up has been, or has come to nothing.
    pub(super) fn given_up(
        &mut self,
        bucket: u64,
        name: &NameKey,
        leaving: &Leaving,
        written: bool,
        outcomes: &[(RequestKey, Outcome)],
    ) {
        let why = |of| {
            let mirror = self.buckets.get(&bucket).and_then(|opened| opened.bucket.mirror(name));
            mirror.map_or(Lost::Removed, |mirror| mirror.why_gone(of))
        };
        let (mut wakers, mut again) = (Vec::new(), Vec::new());
        let mut table = self.shared.table();
        for &(key, outcome) in outcomes {
            let Some(id) = self.slots.holder(key) else { continue };
            match (outcome, table.status(id)) {
                (Outcome::Held(made), Status::Held(_)) => table.settle(id, made),
                (Outcome::Gone, Status::Held(grant)) => {
                    wakers.extend(table.lose(id, why(grant.token)));
                }
                (Outcome::Gone, Status::Pending(_)) => again.extend(table.wait_again(id, true)),
                // The others are as any that etcd answers.
                _ => {}
            }
        }
        drop(table);
        wake(wakers);
        self.ask_again(again);
        self.say_where();
        // There is more to be written, or it was a stray.
        let is_over = !written || leaving.is_last;
        if !is_over || self.own_state(bucket, name) != Own::Leaving(leaving.made) {
            return;
        }
        self.set_own(bucket, name, Own::No);
        let rest = self.buckets.get_mut(&bucket).map(|opened| opened.bucket.stop_leaving(name));
        let gone: Vec<_> =
            rest.into_iter().flatten().map(|kept| (kept.ask.request, Outcome::Gone)).collect();
        if !gone.is_empty() {
            self.given_up(bucket, name, leaving, false, &gone);
        }
    }

    /// Others know of locks of which they did not, or these are lost.
    fn say_where(&mut self) {
        let (news, told) = self.shared.table().say_where();
        for (outer, tell) in told {
            tell(outer);
        }
        for serial in news {
            self.say_anew(serial);
        }
    }

    /// Whether what is to be written to give a name up is wanted: all of it may be lost by now.
    pub(super) fn is_leaving(&self, bucket: u64, name: &NameKey, leaving: &Leaving) -> bool {
        leaving.kept.is_empty() || self.own_state(bucket, name) == Own::Leaving(leaving.made)
    }

    /// Others are to see what is held of a name, and who waits, or it was ours for a run that is over.
    pub(super) fn give_up(&mut self, bucket: u64, name: &NameKey) {
        if !matches!(self.own_state(bucket, name), Own::Since(_)) {
            return;
        }
        if !self.is_for_run(bucket, name) {
            self.note_wanted(bucket, name);
        }
        self.leave(bucket, name);
    }

    /// Whether a request has found that the name is another's, who may not need it or is to cease to
    /// grant it. Then that is asked for it, and the request is made again in a moment.
    pub(super) fn asks_owner(&mut self, of: &Operated, answer: &Answer) -> bool {
        let (ask, steals) = match &of.operation {
            Operation::IfAvailable(ask) => (ask, None),
            Operation::Steal(ask, _) => (ask, Some(Operation::Steal(ask.clone(), Force::Robs))),
            _ => return false,
        };
        let Some(owned) = of.operation.read(of.tries > 0, answer).owner else { return false };
        if steals.is_none() && Owning::is_for_run(&owned.value) {
            return false;
        }
        let id = self.slots.holder(ask.request);
        let status = id.map(|id| self.shared.table().status(id));
        if !matches!(status, Some(Status::Pending(_))) {
            return false;
        }
        let keys = self.buckets.get(&of.bucket).map(|opened| &opened.bucket.keys);
        let key = keys.and_then(|keys| keys.parse(&owned.key));
        // Nothing else is done about the name meanwhile, so a connection cannot give up its own. And what
        // no machine has written is given up by none.
        let can_be_asked =
            owned.lease != 0 && key.is_some_and(|key| key.request.owner != self.slots.me());
        let patience = self.patience_with_owners();
        let (begun, asked) = (of.asked.unwrap_or_else(Moment::now), self.note_asked(&owned));
        // Etcd may not take the mark by which it is asked.
        let is_late = asked.elapsed() >= patience || begun.elapsed() >= patience;
        let (operation, delay) = if !can_be_asked || is_late {
            let Some(robs) = steals else { return false };
            (robs, Duration::ZERO)
        } else {
            if Wish::ToHave.says_more(&owned) {
                let transaction = ask_owner(&owned, Wish::ToHave);
                self.calls.push_back(Call::Write { transaction });
            }
            // Ever more rarely, of one that does not answer.
            let rest = patience.saturating_sub(asked.elapsed());
            (of.operation.clone(), AGAIN.max((begun.elapsed() / 4).min(rest)))
        };
        let of = Operated { asked: Some(begun), operation, ..of.clone() };
        self.calls.push_back(Call::Pause { of, delay });
        true
    }

    /// How long it is waited for the owner of a name that was asked for it. Who looks has twice that.
    pub(super) fn patience_with_owners(&self) -> Duration {
        self.options.time_to_live.min(PATIENCE) / 2
    }

    /// Since when it was seen that the owner of a name, which this key says, is asked for it: who asks the next
    /// time does not wait anew for one that does not answer.
    pub(super) fn note_asked(&mut self, owned: &KeyValue) -> Moment {
        let (made, asked) = self.asked.entry(owned.key.clone()).or_insert((0, Moment::now()));
        if *made != owned.made || Wish::of(&owned.value).is_none() {
            (*made, *asked) = (owned.made, Moment::now());
        }
        *asked
    }

    /// Forgets owners that were asked so long ago that their leases have ended if they do not answer.
    pub(super) fn forget_asked(&mut self) {
        let long = 2 * self.options.time_to_live;
        self.asked.retain(|_, (_, asked)| asked.elapsed() < long);
    }

    /// Etcd refuses to have it written. Who waits is told; what is held stays what it is, with the name,
    /// until it is released: then there is nothing to be written.
    pub(super) fn not_left(&mut self, bucket: u64, name: &NameKey, leaving: &Leaving) -> Vec<Kept> {
        let rest = self.buckets.get_mut(&bucket).map(|opened| opened.bucket.stop_leaving(name));
        let all = leaving.kept.iter().cloned().chain(rest.into_iter().flatten());
        let (held, waiting): (Vec<_>, Vec<_>) =
            all.partition(|kept: &Kept| kept.phase == Phase::Held);
        let held: Vec<_> = held
            .iter()
            .filter_map(|kept| Some((kept.ask.request, self.slots.holder(kept.ask.request)?)))
            .collect();
        // If its lease was lost meanwhile, all of it was.
        let is_leaving = self.own_state(bucket, name) == Own::Leaving(leaving.made);
        if let Some(lease) = self.good_lease().filter(|_| is_leaving) {
            let ids: Vec<_> = held.iter().map(|&(_, id)| id).collect();
            let of = (bucket, name.clone());
            self.shared.table().stay(&of, leaving.made, lease, &ids);
            self.set_own(bucket, name, Own::Since(leaving.made));
            for (key, id) in held {
                self.slots.retire(key, id);
            }
        }
        waiting
    }

    /// Removes a key that says that a name is ours, of which we do not know: a late try has made it.
    fn disown(&mut self, bucket: u64, name: &NameKey, made: i64, lease: i64) {
        if self.lapsing.contains_key(&lease) {
            return;
        }
        let me = self.slots.me();
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            opened.bucket.push_leaving(name, made, me, Vec::new());
        }
    }

    /// Others are to see what is held of a name, and who waits: a list has shown this key, by which it is ours.
    pub(super) fn show(&mut self, bucket: u64, name: &NameKey, owned: &KeyValue) {
        if self.own_state(bucket, name) == Own::No {
            self.disown(bucket, name, owned.made, owned.lease);
            self.step(bucket, name);
        } else {
            self.note_shown(bucket, name);
            self.leave(bucket, name);
        }
    }

    /// The key of ours that says that a name is ours, though it is not as far as we know.
    fn stray_owned(&self, bucket: u64, name: &NameKey) -> Option<Entry> {
        let mirror = self.buckets.get(&bucket)?.bucket.mirror(name)?;
        let owned = mirror.owned(self.slots.me())?;
        let is_known = match self.own_state(bucket, name) {
            Own::No => false,
            Own::Asked(after) => after < owned.made,
            Own::Since(made) | Own::Leaving(made) => made == owned.made,
        };
        (!is_known).then(|| owned.clone())
    }

    /// Gives up names that nobody takes any more, and those of which no more can be granted.
    pub(super) fn check_owned(&mut self) {
        let mut over = Vec::new();
        let table = self.shared.table();
        for (&bucket, opened) in &mut self.buckets {
            for (name, view) in &mut opened.bucket.views {
                let Own::Since(_) = view.own else { continue };
                let Some(usage) = table.usage(&(bucket, name.clone())) else { continue };
                let is_idle = view.idle_since(usage.granted).elapsed() >= IDLE && !usage.is_used;
                if is_idle && usage.granted == 0 {
                    // It was of no use that it is ours.
                    view.note_wanted();
                }
                if is_idle || usage.is_over() {
                    over.push((bucket, name.clone()));
                }
            }
        }
        drop(table);
        for (bucket, name) in over {
            if !self.is_adrift(bucket, &name) {
                self.leave(bucket, &name);
            }
        }
    }

    /// Gives up all names that are ours.
    pub(super) fn leave_all(&mut self) {
        let mut all = Vec::new();
        for (&bucket, opened) in &self.buckets {
            let owned = opened.bucket.views.iter().filter(|(_, view)| view.own != Own::No);
            all.extend(owned.map(|(name, _)| (bucket, name.clone())));
        }
        for (bucket, name) in all {
            self.leave(bucket, &name);
        }
    }
}
