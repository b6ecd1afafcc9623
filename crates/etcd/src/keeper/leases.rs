//! The leases of this connection's keys.
//!
//! The connection has one lease of its own, which its agents share. It is requested when the first
//! agent needs it, and kept until the connection ends. There may also be leases of another connection,
//! whose agents this one has taken over (see [`reclaims`](super::reclaims)).

use std::time::Duration;

use navlock_core::Lost;

use super::{
    AgentSerial, CHECK_INTERVAL, Call, Keeper, Why,
    agent::LeaseState,
    lease_states::{Lease, OwnLease, State},
    ownership,
    pending_reclaim::RECLAIM_TIMEOUT,
    wake,
};
use crate::{
    clock::Uptime,
    failure::Failure,
    keep_alive::LeaseEvent,
    lease::{LeaseName, Renewal, Share},
};

impl Keeper {
    /// Puts an agent under the connection's own lease, if that lease is live and its term has not ended.
    /// Returns whether the agent is under the lease now.
    pub(super) fn attach(&mut self, serial: AgentSerial) -> bool {
        let OwnLease::There(id) = self.own else { return false };
        let Some(&Lease { name, state: State::Live, renewal, .. }) = self.leases.get(&id) else {
            return false;
        };
        let term = self.options.times.term(renewal);
        if term.ends <= Uptime::now() {
            self.lose_lease(id, Lost::Disconnected);
            return false;
        }
        let Some(agent) = self.agents.get_mut(&serial) else { return false };
        // The agent has no locks yet, so none can have been lost.
        let mut table = self.shared.table();
        table.revive(serial, agent.id, term);
        agent.under = LeaseState::Lease(id);
        table.set_lease(serial, agent.id, Share { lease: name, client_id: agent.client_id });
        // The agent's requests may have waited for a lease.
        let wakers = table.process_of(agent.id);
        drop(table);
        wake(wakers);
        true
    }

    /// Gets a lease for an agent that cannot make requests because it has no good lease.
    pub(super) fn need_lease(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        match agent.under {
            LeaseState::Coming => {}
            LeaseState::Nothing => {
                let bucket = agent.bucket;
                if self.attach(serial) {
                    return self.step_all(bucket);
                }
                if let Some(agent) = self.agents.get_mut(&serial) {
                    agent.under = LeaseState::Coming;
                }
                if self.own == OwnLease::None {
                    self.own = OwnLease::Coming;
                    self.ask_for_lease(Duration::ZERO);
                }
            }
            // The agent needs another lease only if the term of this one has ended by the clock.
            LeaseState::Lease(id) => {
                if self.leases.get(&id).is_some_and(|lease| lease.state == State::Live) {
                    self.lose_lease(id, Lost::Disconnected);
                }
            }
        }
    }

    fn ask_for_lease(&mut self, delay: Duration) {
        self.calls.push_back(Call::Lease { delay });
    }

    /// Takes in the answer to a request for a lease.
    pub(super) fn leased(&mut self, result: Result<(LeaseName, Renewal), Failure>) {
        let (name, renewal) = match result {
            Ok(leased) => leased,
            Err(failure) => return self.not_leased(failure),
        };
        if self.own != OwnLease::Coming || self.options.times.term(renewal).ends <= Uptime::now() {
            // Nobody wants the lease any more, or it came too late to be of use.
            self.revoke(name.id);
            if self.own == OwnLease::Coming {
                self.ask_for_lease(Duration::ZERO);
            }
            return;
        }
        let (state, swept) = (State::Live, Uptime::now());
        let lease = Lease { name, state, renewal, swept, buckets: Vec::new() };
        self.leases.insert(name.id, lease);
        self.own = OwnLease::There(name.id);
        let client_id = ownership::whose(self.slots.me());
        self.shared.table().own_share = Some(Share { lease: name, client_id });
        self.keep(name.id, Some(renewal.time_to_live));
        for serial in self.agents_with(|under| !matches!(under, LeaseState::Lease(_))) {
            self.attach(serial);
        }
        self.step_buckets();
    }

    fn not_leased(&mut self, failure: Failure) {
        if self.own != OwnLease::Coming {
            return;
        }
        let may_wait = matches!(failure, Failure::Unknown(_));
        let timeout = if may_wait { self.options.times.time_to_live } else { Duration::ZERO };
        let error = failure.error();
        let (mut all, mut is_wanted) = (Vec::new(), false);
        for serial in self.agents_with(|under| under == LeaseState::Coming) {
            let Some(agent) = self.agents.get_mut(&serial) else { continue };
            let mut table = self.shared.table();
            let (wakers, waits) = table.fail_agent(serial, agent.id, &error, timeout);
            if !waits {
                agent.under = LeaseState::Nothing;
            }
            is_wanted |= waits;
            all.extend(wakers);
        }
        if is_wanted {
            self.ask_for_lease(Duration::from_millis(100));
        } else {
            self.own = OwnLease::None;
        }
        if !all.is_empty() {
            wake(all);
            self.step_buckets();
        }
    }

    /// The agents whose lease state is wanted, in the order in which they were opened.
    pub(super) fn agents_with(&self, is_it: impl Fn(LeaseState) -> bool) -> Vec<AgentSerial> {
        let found = self.agents.iter().filter(|(_, agent)| is_it(agent.under));
        let mut found: Vec<_> = found.map(|(&serial, _)| serial).collect();
        found.sort_unstable();
        found
    }

    /// Renews a lease from now on: a new one with this time to live, or one of another connection.
    pub(super) fn keep(&mut self, lease: i64, time_to_live: Option<Duration>) {
        self.calls.push_back(Call::Keep { lease, time_to_live });
    }

    /// Takes in an event of a lease.
    pub(super) fn lease_event(&mut self, id: i64, word: LeaseEvent) {
        let Some(state) = self.leases.get(&id).map(|lease| lease.state) else { return };
        let (renewal, asked) = match word {
            LeaseEvent::Gone if state == State::Live => return self.doubt(id),
            LeaseEvent::Gone => return self.lose_lease(id, Lost::Disconnected),
            LeaseEvent::Renewed(renewal, asked) => (renewal, asked),
        };
        // What others want is not granted any more when the term is extended.
        self.heed_mailbox(&asked);
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.renewal = renewal;
        if matches!(state, State::Reclaimed(_)) {
            lease.state = State::Live;
            for serial in self.agents_with(|under| under == LeaseState::Lease(id)) {
                self.revive(serial, renewal);
            }
            self.judge_held_back(id, renewal.sent);
            self.judge_stray(id, renewal.sent);
            return self.step_buckets();
        }
        let term = self.options.times.term(renewal);
        let is_kept = {
            let mut table = self.shared.table();
            let mut under =
                self.agents.iter().filter(|(_, agent)| agent.under == LeaseState::Lease(id));
            under.all(|(&serial, agent)| table.renew(serial, agent.id, term))
        };
        if is_kept {
            self.judge_held_back(id, renewal.sent);
            self.judge_stray(id, renewal.sent);
        } else {
            self.lose_lease(id, Lost::Disconnected);
        }
    }

    /// To be called when a transaction has found that this lease has ended.
    pub(super) fn lease_is_gone(&mut self, id: i64) {
        match self.leases.get(&id).map(|lease| lease.state) {
            Some(State::Live) => self.doubt(id),
            Some(State::Reclaimed(_)) => self.lose_lease(id, Lost::Disconnected),
            Some(State::Doubted) | None => {}
        }
    }

    /// Tells the agents whose leases are over by the clock. Also checks the leases that were other
    /// connections'.
    pub(super) fn check_leases(&mut self) {
        let now = Uptime::now();
        let timeout = self.options.times.time_to_live.min(RECLAIM_TIMEOUT);
        let is_over = |lease: &Lease| match lease.state {
            State::Live | State::Doubted => self.options.times.term(lease.renewal).ends <= now,
            State::Reclaimed(since) => since.elapsed() >= timeout,
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
            let is_own = own == OwnLease::There(id);
            let pause = if is_own { CHECK_INTERVAL } else { lease.renewal.time_to_live };
            let is_due = lease.swept.elapsed() >= pause && (!is_own || may_have_any);
            if lease.state == State::Live && is_due {
                lease.swept = now;
                self.calls.push_back(Call::LookUnder { lease: id, why: Why::Sweep });
            }
        }
    }

    /// Has the keys under the leases compared with what should be there, as soon as there is a tick.
    pub(super) fn sweep_soon(&mut self) {
        self.leases.values_mut().for_each(|lease| lease.swept = Uptime::default());
    }

    /// Ends the connection's lease if no agent uses it and a try that was given up may still come
    /// late. The key of that try would stay as long as the lease does.
    fn end_own_if_unused(&mut self) {
        if self.agents.is_empty() && self.slots.has_spent() {
            self.end_own();
            // If there is no lease, the late try was under an earlier lease.
            self.slots.forget_spent();
        }
    }

    /// Ends the connection's lease, under which no agent has anything.
    fn end_own(&mut self) {
        if let OwnLease::There(lease) = self.own {
            self.lose_names_under(lease, Lost::Disconnected);
            self.own = OwnLease::None;
            self.leases.remove(&lease);
            self.slots.forget_spent();
            self.calls.push_back(Call::LetGo { lease });
            self.revoke(lease);
        }
    }

    /// Asks whether etcd still keeps a lease, because a key under the lease has gone.
    pub(super) fn look_after(&mut self, id: i64) {
        if self.leases.get(&id).is_some_and(|lease| lease.state == State::Live) {
            self.calls.push_back(Call::Renew { lease: id });
        }
    }

    /// Gets a lease for an agent that has no lease and waits for anything, even behind an operation that is
    /// on its way for that name. That operation may take as long as etcd is away. With a lease, the waiter is
    /// told that etcd is away.
    pub(super) fn need_lease_to_wait(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.get(&serial) else { return };
        // A connection that is ending gets no leases any more.
        let is_wanted = !self.is_quitting && agent.under == LeaseState::Nothing;
        if is_wanted && self.shared.table().waits(serial, agent.id) {
            self.need_lease(serial);
        }
    }

    /// Ends a lease, with all keys under it.
    pub(super) fn revoke(&mut self, lease: i64) {
        self.calls.push_back(Call::Revoke { lease });
    }

    /// Ends the connection, and with it its lease, unless the connection leaves agents behind whose
    /// locks another connection may take over.
    pub(crate) fn quit(&mut self) {
        self.is_quitting = true;
        if self.agents.is_empty() {
            self.end_own();
            // All work under other leases has ended together with its agents.
            self.expiring.values_mut().for_each(|expiring| expiring.expires = Uptime::default());
            self.check_expiring();
            self.step_buckets();
        } else {
            self.leave_all();
        }
    }

    pub(super) fn step_buckets(&mut self) {
        let mut buckets: Vec<u64> = self.buckets.keys().copied().collect();
        buckets.sort_unstable();
        for bucket in buckets {
            self.step_waiting(bucket);
        }
    }
}
