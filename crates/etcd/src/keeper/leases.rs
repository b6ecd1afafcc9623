//! The leases under which all stands that is of this connection.
//!
//! The connection has one of its own, which its agents share: it is asked for when the first of them
//! needs it, and kept until the connection ends. Beside that there may be some that another connection
//! had, with whose agents we go on (see [`recalls`](super::recalls)).

use std::{collections::HashSet, time::Duration};

use navlock_core::Lost;

use super::{
    AgentSerial, Call, Keeper, LOOK, Why,
    agent::{Agent, Under},
    lease_states::{Lapsing, Lease, Own, State},
    ownership,
    pending_recall::PATIENCE,
    wake,
};
use crate::{
    LOGS,
    bucket::Todo,
    clock::Moment,
    data::{Step, Transaction},
    ended::Ended,
    failure::Failure,
    keys::{BucketKeys, NameKey, Phase, RequestKey},
    lease::{LeaseName, Share, Term, Word},
    slots::Owner,
    table::Status,
    transactions::MOST,
    values::Value,
};

impl Keeper {
    /// Has an agent use the connection's lease, if there is one that is good. Whether it is so.
    pub(super) fn attach(&mut self, serial: AgentSerial) -> bool {
        let Own::There(id) = self.own else { return false };
        let Some(&Lease { name, state: State::Live, term, .. }) = self.leases.get(&id) else {
            return false;
        };
        let span = self.options.span(term);
        if span.ends <= Moment::now() {
            self.lose_lease(id, Lost::Disconnected);
            return false;
        }
        let Some(agent) = self.agents.get_mut(&serial) else { return false };
        // It has nothing yet that could have been over before.
        let mut table = self.shared.table();
        table.revive(serial, agent.id, span);
        agent.under = Under::Lease(id);
        table.set_lease(serial, agent.id, Share { lease: name, client_id: agent.client_id });
        // It may have waited for that.
        let wakers = table.process_of(agent.id);
        drop(table);
        wake(wakers);
        true
    }

    /// An agent cannot ask for anything, because it has no lease that is good.
    pub(super) fn need_lease(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        match agent.under {
            Under::Coming => {}
            Under::Nothing => {
                let bucket = agent.bucket;
                if self.attach(serial) {
                    return self.step_all(bucket);
                }
                if let Some(agent) = self.agents.get_mut(&serial) {
                    agent.under = Under::Coming;
                }
                if self.own == Own::None {
                    self.own = Own::Coming;
                    self.ask_for_lease(Duration::ZERO);
                }
            }
            // It is over by the clock, or it would not be needed.
            Under::Lease(id) => {
                if self.leases.get(&id).is_some_and(|lease| lease.state == State::Live) {
                    self.lose_lease(id, Lost::Disconnected);
                }
            }
        }
    }

    fn ask_for_lease(&mut self, delay: Duration) {
        self.calls.push_back(Call::Lease { delay });
    }

    /// A lease was asked for.
    pub(super) fn leased(&mut self, result: Result<(LeaseName, Term), Failure>) {
        let (name, term) = match result {
            Ok(leased) => leased,
            Err(failure) => return self.not_leased(failure),
        };
        if self.own != Own::Coming || self.options.span(term).ends <= Moment::now() {
            // Nobody wants it any more, or it took too long to be of use.
            self.revoke(name.id);
            if self.own == Own::Coming {
                self.ask_for_lease(Duration::ZERO);
            }
            return;
        }
        let (state, swept) = (State::Live, Moment::now());
        let lease = Lease { name, state, term, swept, buckets: Vec::new() };
        self.leases.insert(name.id, lease);
        self.own = Own::There(name.id);
        let client_id = ownership::whose(self.slots.me());
        self.shared.table().set_own_share(Share { lease: name, client_id });
        self.keep(name.id, Some(term.time_to_live));
        for serial in self.agents_with(|under| !matches!(under, Under::Lease(_))) {
            self.attach(serial);
        }
        self.step_buckets();
    }

    fn not_leased(&mut self, failure: Failure) {
        if self.own != Own::Coming {
            return;
        }
        let may_wait = matches!(failure, Failure::Unknown(_));
        let patience = if may_wait { self.options.time_to_live } else { Duration::ZERO };
        let error = failure.error();
        let (mut all, mut is_wanted) = (Vec::new(), false);
        for serial in self.agents_with(|under| under == Under::Coming) {
            let Some(agent) = self.agents.get_mut(&serial) else { continue };
            let mut table = self.shared.table();
            let (wakers, waits) = table.fail_agent(serial, agent.id, &error, patience);
            if !waits {
                agent.under = Under::Nothing;
            }
            is_wanted |= waits;
            all.extend(wakers);
        }
        if is_wanted {
            self.ask_for_lease(Duration::from_millis(100));
        } else {
            self.own = Own::None;
        }
        if !all.is_empty() {
            wake(all);
            self.step_buckets();
        }
    }

    /// Those who have what they have so, in the order in which they came.
    pub(super) fn agents_with(&self, is_it: impl Fn(Under) -> bool) -> Vec<AgentSerial> {
        let found = self.agents.iter().filter(|(_, agent)| is_it(agent.under));
        let mut found: Vec<_> = found.map(|(&serial, _)| serial).collect();
        found.sort_unstable();
        found
    }

    /// Has a lease be kept, which is new and made for this long, or was another's.
    pub(super) fn keep(&mut self, lease: i64, time_to_live: Option<Duration>) {
        self.calls.push_back(Call::Keep { lease, time_to_live });
    }

    /// An agent goes on with what it had under a lease of another connection.
    pub(super) fn take_over(&mut self, serial: AgentSerial, id: i64) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        agent.under = Under::Lease(id);
        let bucket = agent.bucket;
        let name = LeaseName { cluster: self.history.cluster(), id };
        let share = Share { lease: name, client_id: agent.client_id };
        self.shared.table().set_lease(serial, agent.id, share);
        match self.leases.get(&id).map(|lease| (lease.state, lease.term)) {
            Some((State::Live, term)) => {
                self.revive(serial, term);
                self.step_buckets();
            }
            Some(_) => {}
            None => {
                let now = Moment::now();
                let term = Term { sent: now, time_to_live: self.options.time_to_live };
                let state = State::Recalled(now);
                let lease = Lease { name, state, term, swept: now, buckets: Vec::new() };
                self.leases.insert(id, lease);
                // For how long it is good is asked: it was made with the settings of that time.
                self.keep(id, None);
            }
        }
        // Whoever goes on says what it has, but not what it has ended while nobody heard of that.
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if !lease.buckets.contains(&bucket) {
            lease.buckets.push(bucket);
            self.calls.push_back(Call::LookUnder { lease: id, why: Why::Left(bucket) });
        }
    }

    /// It could not be seen what agents of a bucket have left under a lease.
    pub(super) fn has_not_looked(&mut self, id: i64, bucket: u64) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.buckets.retain(|&of| of != bucket);
        }
    }

    /// Looks again where it could not be seen.
    fn look_for_left(&mut self) {
        let of = self.agents.values().filter_map(|agent| Some((agent.lease_id()?, agent.bucket)));
        let mut unseen: Vec<_> = of
            .filter(|&(id, bucket)| {
                let lease = self.leases.get(&id).filter(|_| self.is_recalled(id));
                lease.is_some_and(|lease| !lease.buckets.contains(&bucket))
            })
            .collect();
        unseen.sort_unstable();
        unseen.dedup();
        for (id, bucket) in unseen {
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.buckets.push(bucket);
                self.calls.push_back(Call::LookUnder { lease: id, why: Why::Left(bucket) });
            }
        }
    }

    /// Looks into all names of a bucket in which these keys are: what is of agents that have come back
    /// and that they do not go on with is removed when it is seen.
    pub(super) fn view_left(&mut self, bucket: u64, under: &[Vec<u8>]) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let of = under.iter().filter_map(|key| opened.bucket.keys.parse(key));
        let left = of.filter(|key| self.slots.owner(key.request, i64::MAX) == Owner::Foreign);
        let names: Vec<_> = left.map(|key| key.name).collect();
        for name in names {
            self.open_view(bucket, &name, None);
        }
    }

    /// Word of a lease.
    pub(super) fn leased_word(&mut self, id: i64, word: Word) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let (term, state) = match (word, lease.state) {
            (Word::Gone, State::Live) => return self.doubt(id),
            (Word::Gone, _) => return self.lose_lease(id, Lost::Disconnected),
            (Word::Renewed(term), state) => (term, state),
        };
        lease.term = term;
        if matches!(state, State::Recalled(_)) {
            lease.state = State::Live;
            for serial in self.agents_with(|under| under == Under::Lease(id)) {
                self.revive(serial, term);
            }
            self.judge_held_back(id, term.sent);
            self.judge_adrift(id, term.sent);
            return self.step_buckets();
        }
        let span = self.options.span(term);
        let is_kept = {
            let mut table = self.shared.table();
            let mut under = self.agents.iter().filter(|(_, agent)| agent.under == Under::Lease(id));
            under.all(|(&serial, agent)| table.renew(serial, agent.id, span))
        };
        if is_kept {
            self.judge_held_back(id, term.sent);
            self.judge_adrift(id, term.sent);
        } else {
            self.lose_lease(id, Lost::Disconnected);
        }
    }

    /// A transaction found that this lease has ended.
    pub(super) fn lease_is_gone(&mut self, id: i64) {
        match self.leases.get(&id).map(|lease| lease.state) {
            Some(State::Live) => self.doubt(id),
            Some(State::Recalled(_)) => self.lose_lease(id, Lost::Disconnected),
            Some(State::Doubted) | None => {}
        }
    }

    /// Tells those whose leases are over by the clock, and looks after those that were others'.
    pub(super) fn check_leases(&mut self) {
        let now = Moment::now();
        let patience = self.options.time_to_live.min(PATIENCE);
        let is_over = |lease: &Lease| match lease.state {
            State::Live | State::Doubted => self.options.span(lease.term).ends <= now,
            State::Recalled(since) => since.elapsed() >= patience,
        };
        let over = self.leases.iter().filter(|(_, lease)| is_over(lease));
        let mut over: Vec<i64> = over.map(|(&id, _)| id).collect();
        over.sort_unstable();
        for id in over {
            self.lose_lease(id, Lost::Disconnected);
        }
        self.end_own_if_unused();
        self.look_for_left();
        let own = self.own;
        let may_have_any = self.slots.has_spent() || !self.shared.table().is_unused();
        for (&id, lease) in &mut self.leases {
            let is_own = own == Own::There(id);
            let pause = if is_own { LOOK } else { lease.term.time_to_live };
            let is_due = lease.swept.elapsed() >= pause && (!is_own || may_have_any);
            if lease.state == State::Live && is_due {
                lease.swept = now;
                self.calls.push_back(Call::LookUnder { lease: id, why: Why::Sweep });
            }
        }
    }

    /// Ends the connection's lease if it has no agents and a try that was given up may be done late:
    /// that would stand there for as long as the lease does.
    fn end_own_if_unused(&mut self) {
        if self.agents.is_empty() && self.slots.has_spent() {
            self.end_own();
            // Or it was of one before that.
            self.slots.forget_spent();
        }
    }

    /// Ends the connection's lease, under which nobody has anything.
    fn end_own(&mut self) {
        if let Own::There(lease) = self.own {
            self.lose_names_under(lease, Lost::Disconnected);
            self.own = Own::None;
            self.leases.remove(&lease);
            self.slots.forget_spent();
            self.calls.push_back(Call::LetGo { lease });
            self.revoke(lease);
        }
    }

    /// Removes what stands under a lease and is nobody's: where it was another connection's, with which
    /// nobody goes on, as it would have ended by now if each agent had a lease; and what late tries have
    /// made in buckets into which nobody looks any more. These are the keys under it.
    pub(super) fn sweep(&mut self, id: i64, under: &[Vec<u8>]) {
        if !self.leases.contains_key(&id) {
            return;
        }
        let is_own = self.own == Own::There(id);
        let (mut nobodys, mut there) = (Vec::new(), HashSet::new());
        for key in under {
            let found = BucketKeys::around(&self.options.namespace, key);
            let Some(of) = found.and_then(|(_, keys)| keys.parse(key)) else { continue };
            if of.phase == Phase::Owned {
                // Of who had the lease before us, and nobody goes on with that.
                if !is_own {
                    nobodys.push(Step::Delete(key.clone()));
                }
                continue;
            }
            if self.slots.is_spent(of.request) || self.is_over(of.request, of.phase, id) {
                nobodys.push(Step::Delete(key.clone()));
                continue;
            }
            if of.phase == Phase::Held {
                there.insert(of.request);
            }
            let is_foreign = self.slots.owner(of.request, i64::MAX) == Owner::Foreign;
            // Also what was given up before: that may have come to nothing.
            if !is_own && (is_foreign || self.slots.is_given_up(of.request)) {
                // From here on nobody comes back for it: it goes, whenever that is done.
                self.slots.give_up(of.request);
                nobodys.push(Step::Delete(key.clone()));
            }
        }
        for some in nobodys.chunks(MOST) {
            let transaction = Transaction { then: some.to_vec(), ..Transaction::default() };
            self.calls.push_back(Call::Write { transaction });
        }
        self.look_where_it_differs(id, &there);
    }

    /// Whether what stands under a lease is of a request that has been answered otherwise: a late try has
    /// made it. What works under it may not have ended if it was lost with its lease.
    fn is_over(&self, key: RequestKey, phase: Phase, lease: i64) -> bool {
        let is_lapsing = phase == Phase::Held && self.lapsing.contains_key(&lease);
        let whose = self.slots.holder(key).filter(|_| !is_lapsing);
        whose.is_some_and(|id| self.shared.table().status(id) == Status::Ended)
    }

    /// Lists the names in which what is held under a lease is not what is known to be.
    fn look_where_it_differs(&mut self, lease: i64, there: &HashSet<RequestKey>) {
        let is_under = |serial| {
            let agent = self.agents.get(&serial);
            agent.and_then(Agent::lease_id) == Some(lease)
        };
        let table = self.shared.table();
        let differ = table.alive().filter(|&(.., key, is_held, serial)| {
            there.contains(&key) != is_held && is_under(serial)
        });
        let differ: Vec<_> = differ.map(|(bucket, name, ..)| (bucket, name.clone())).collect();
        drop(table);
        // Or it has come since.
        for (bucket, name) in differ {
            self.look(bucket, &name, Duration::ZERO);
        }
    }

    /// Whether this lease was another connection's.
    pub(super) fn is_recalled(&self, id: i64) -> bool {
        self.own != Own::There(id) && self.leases.contains_key(&id)
    }

    /// Asks whether etcd still keeps a lease: something under it has gone.
    pub(super) fn look_after(&mut self, id: i64) {
        if self.leases.get(&id).is_some_and(|lease| lease.state == State::Live) {
            self.keep(id, None);
        }
    }

    /// All that is under a lease is lost. Whose it was get another lease when they ask for something;
    /// what they wait for is asked for again, in the order in which it was.
    pub(super) fn lose_lease(&mut self, id: i64, how: Lost) {
        if !self.leases.contains_key(&id) {
            return;
        }
        // First, since it is known by the lease what that is.
        self.lose_names_under(id, how);
        let Some(lease) = self.leases.remove(&id) else { return };
        self.gone.retain(|gone| gone.lease != id);
        let is_own = self.own == Own::There(id);
        if is_own {
            self.own = Own::None;
            self.slots.forget_spent();
            // Who has come while it was in doubt waits for the next one, which is to be asked for.
            for serial in self.agents_with(|under| under == Under::Coming) {
                if let Some(agent) = self.agents.get_mut(&serial) {
                    agent.under = Under::Nothing;
                }
            }
        }
        let waits_on = self.options.waits_through_outages;
        let (mut wakers, mut again) = (Vec::new(), Vec::new());
        let agents = self.agents_with(|under| under == Under::Lease(id));
        let left = if is_own { Vec::new() } else { self.had_under(id, &agents) };
        for &serial in &agents {
            let Some(agent) = self.agents.get_mut(&serial) else { continue };
            agent.under = Under::Nothing;
            let mut table = self.shared.table();
            let (woken, asked) = table.lose_agent(serial, agent.id, how, waits_on);
            wakers.extend(woken);
            again.extend(asked.into_iter().map(|again| (serial, again)));
        }
        if !agents.is_empty() {
            tracing::warn!(
                target: LOGS,
                lease = id,
                ?how,
                agents = agents.len(),
                asks_again = again.len(),
                "what is held under a lease is lost, if something is"
            );
        }
        wake(wakers);
        // What is on its way under their keys, or is there, is nobody's from here on.
        self.ask_again(again);
        self.calls.push_back(Call::LetGo { lease: id });
        let is_held = |&(phase, ..): &(Phase, _, _, _)| phase == Phase::Held;
        let (held, waits): (Vec<_>, Vec<_>) = left.into_iter().partition(is_held);
        let bare = |(_, bucket, name, ended)| (bucket, name, ended);
        let expires = match how {
            // Others may have been granted all of it before.
            Lost::Reset => Moment::now(),
            _ => self.options.span(lease.term).expires,
        };
        // Others may have come back to it, and lost it again.
        let lapsing = self.lapsing.entry(id).or_insert(Lapsing { expires, is_own, held: vec![] });
        lapsing.expires = lapsing.expires.max(expires);
        lapsing.held.extend(held.into_iter().map(bare));
        // Nobody works under what waits.
        self.remove_all(waits.into_iter().map(bare));
        self.check_lapsing();
        self.step_buckets();
        for serial in agents {
            self.need_lease_to_wait(serial);
        }
    }

    /// An agent that has no lease has one asked for if it waits for anything, also behind what is on its
    /// way for that name: while etcd is away that may take as long as that does, and whoever waits is to be told.
    pub(super) fn need_lease_to_wait(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.get(&serial) else { return };
        // Who ends asks for nothing any more.
        let is_wanted = !self.is_quitting && agent.under == Under::Nothing;
        if is_wanted && self.shared.table().waits(serial, agent.id) {
            self.need_lease(serial);
        }
    }

    fn remove_all(&mut self, all: impl IntoIterator<Item = (u64, NameKey, Ended)>) {
        for (bucket, name, ended) in all {
            if let Some(opened) = self.buckets.get_mut(&bucket) {
                opened.bucket.push(name, Todo::Remove(ended, None));
            }
        }
    }

    /// Ends what is left of leases that are over for others as well: where etcd has come back, nobody
    /// needs to wait until it finds that. One that was another connection's is not ours to end: agents
    /// that have not come back may hold under it still.
    pub(super) fn check_lapsing(&mut self) {
        let now = Moment::now();
        let mut over: Vec<i64> = self.lapsing.keys().copied().collect();
        over.retain(|id| self.lapsing[id].expires <= now);
        over.sort_unstable();
        for id in over {
            let Some(Lapsing { is_own, held, .. }) = self.lapsing.remove(&id) else { continue };
            if is_own {
                self.revoke(id);
            }
            self.remove_all(held);
        }
    }

    /// What these agents have under a lease, as far as it is known: how, where and what.
    fn had_under(&self, lease: i64, agents: &[AgentSerial]) -> Vec<(Phase, u64, NameKey, Ended)> {
        let of =
            |serial| self.agents.get(serial).map(|agent: &Agent| (agent.bucket, agent.client_id));
        let whose: Vec<_> = agents.iter().filter_map(of).collect();
        let mut buckets: Vec<u64> = whose.iter().map(|&(bucket, _)| bucket).collect();
        buckets.sort_unstable();
        buckets.dedup();
        let mut found = Vec::new();
        for bucket in buckets {
            let Some(opened) = self.buckets.get(&bucket) else { continue };
            for (name, phase, entry) in opened.bucket.entries() {
                let is_theirs =
                    Value::client_id(&entry.value).is_some_and(|id| whose.contains(&(bucket, id)));
                if entry.lease == lease && is_theirs {
                    found.push((phase, bucket, name.clone(), entry.ended()));
                }
            }
        }
        found.sort_by_key(|(phase, bucket, _, ended)| {
            (*bucket, ended.request, *phase == Phase::Queued)
        });
        // What is held and waits as well was put there by a late try.
        found.dedup_by_key(|(_, bucket, _, ended)| (*bucket, ended.request));
        found
    }

    /// Lets go of leases that were others' and that no agent of ours goes on with. They end by
    /// themselves: somebody else's agents may still come for what they have there.
    pub(super) fn let_go_unused(&mut self) {
        let is_used = |id| self.agents.values().any(|agent| agent.under == Under::Lease(id));
        let unused = self.leases.keys().copied();
        let unused = unused.filter(|&id| self.own != Own::There(id) && !is_used(id));
        let mut unused: Vec<i64> = unused.collect();
        unused.sort_unstable();
        for lease in unused {
            self.leases.remove(&lease);
            self.gone.retain(|gone| gone.lease != lease);
            self.calls.push_back(Call::LetGo { lease });
        }
    }

    /// Ends a lease, with all that is under it.
    fn revoke(&mut self, lease: i64) {
        self.calls.push_back(Call::Revoke { lease });
    }

    /// The connection ends. Its lease does too, unless it leaves agents behind, with whose locks
    /// another one may go on.
    pub(crate) fn quit(&mut self) {
        self.is_quitting = true;
        if self.agents.is_empty() {
            self.end_own();
            // All that worked under others has ended with its agent.
            self.lapsing.values_mut().for_each(|lapsing| lapsing.expires = Moment::default());
            self.check_lapsing();
            self.step_buckets();
        } else {
            self.leave_all();
        }
    }

    fn step_buckets(&mut self) {
        let mut buckets: Vec<u64> = self.buckets.keys().copied().collect();
        buckets.sort_unstable();
        for bucket in buckets {
            self.step_waiting(bucket);
        }
    }
}
