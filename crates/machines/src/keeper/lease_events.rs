//! What follows for names, keys and requests when a lease begins, goes on or ends. Which agent is under which lease
//! is the same for all stores: see [`crate::leases`].

use navlock_core::Lost;

use super::{AgentSerial, CHECK_INTERVAL, Call, Keeper, UnderLease, Why, ownership};
use crate::{
    call_failure::Failure,
    clock::Uptime,
    key_store::LeaseEvent,
    lease::{LeaseName, Renewal},
    leases::{LeaseState, Need, Renewed},
};

impl Keeper {
    /// Gets a lease for an agent that cannot make requests because it has no good lease.
    pub(super) fn need_lease(&mut self, serial: AgentSerial) {
        let bucket = self.leases.agents.get(&serial).map(|agent| agent.bucket);
        match (self.leases.need(serial), bucket) {
            (Need::Has, Some(bucket)) => self.step_all(bucket),
            (Need::Lose(over), _) => {
                self.lose_lease(over, Lost::Disconnected);
                self.need_lease(serial);
            }
            _ => {}
        }
    }

    /// Takes in the answer to a request for a lease.
    pub(super) fn leased(&mut self, result: Result<(LeaseName, Renewal), Failure>) {
        let is_news = match result {
            Ok((name, renewal)) => {
                let client_id = ownership::whose(self.slots.me());
                self.leases.begun(name, renewal, client_id, UnderLease::new())
            }
            Err(failure) => {
                let may_wait = matches!(failure, Failure::Unknown(_));
                self.leases.not_begun(&failure.error(self.store), may_wait)
            }
        };
        if is_news {
            self.step_buckets();
        }
    }

    /// Takes in an event of a lease.
    pub(super) fn lease_event(&mut self, id: i64, word: LeaseEvent) {
        let Some(state) = self.leases.get(id).map(|lease| lease.state) else { return };
        let (renewal, asked) = match word {
            LeaseEvent::Gone if state == LeaseState::Live => return self.doubt(id),
            LeaseEvent::Gone => return self.lose_lease(id, Lost::Disconnected),
            LeaseEvent::Renewed(renewal, asked) => (renewal, asked),
        };
        // What others want is not granted any more when the term is extended.
        self.heed_mailbox(&asked);
        let back = match self.leases.renewed(id, renewal) {
            None => return,
            Some(Renewed::TooLate) => return self.lose_lease(id, Lost::Disconnected),
            Some(Renewed::TakenOver(agents)) => agents,
            Some(Renewed::Kept) => Vec::new(),
        };
        for serial in &back {
            self.revive(*serial, renewal);
        }
        self.judge_held_back(id, renewal.sent);
        self.judge_stray(id, renewal.sent);
        if !back.is_empty() {
            self.step_buckets();
        }
    }

    /// To be called when a transaction has found that this lease has ended.
    pub(super) fn lease_is_gone(&mut self, id: i64) {
        match self.leases.get(id).map(|lease| lease.state) {
            Some(LeaseState::Live) => self.doubt(id),
            Some(LeaseState::TakenOver(_)) => self.lose_lease(id, Lost::Disconnected),
            Some(LeaseState::Doubted) | None => {}
        }
    }

    /// Tells the agents whose leases are over by the clock. Also checks the leases that were other
    /// connections'.
    pub(super) fn check_leases(&mut self) {
        for id in self.leases.over() {
            self.lose_lease(id, Lost::Disconnected);
        }
        self.end_own_if_unused();
        self.look_for_left();
        let may_have_any = self.slots.has_spent() || !self.shared.table().is_unused();
        for id in self.leases.ids() {
            let is_own = self.leases.own() == Some(id);
            let Some(lease) = self.leases.live(id) else { continue };
            let pause = if is_own { CHECK_INTERVAL } else { lease.renewal.time_to_live };
            let is_due = lease.notes.swept.elapsed() >= pause && (!is_own || may_have_any);
            if let Some(notes) = self.leases.notes_mut(id).filter(|_| is_due) {
                notes.swept = Uptime::now();
                self.calls.push_back(Call::LookUnder { lease: id, why: Why::Sweep });
            }
        }
    }

    /// Has the keys under the leases compared with what should be there, as soon as there is a tick.
    pub(super) fn sweep_soon(&mut self) {
        for id in self.leases.ids() {
            if let Some(notes) = self.leases.notes_mut(id) {
                notes.swept = Uptime::default();
            }
        }
    }

    /// Ends the connection's lease if no agent uses it and a try that was given up may still come
    /// late. The key of that try would stay as long as the lease does.
    fn end_own_if_unused(&mut self) {
        if self.leases.agents.is_empty() && self.slots.has_spent() {
            self.end_own();
            // If there is no lease, the late try was under an earlier lease.
            self.slots.forget_spent();
        }
    }

    /// Ends the connection's lease, under which no agent has anything.
    fn end_own(&mut self) {
        if let Some(own) = self.leases.own() {
            self.lose_names_under(own, Lost::Disconnected);
            self.leases.end_own();
            self.slots.forget_spent();
        }
    }

    /// Gets a lease for an agent that has no lease and waits for anything, even behind an operation that is
    /// on its way for that name. That operation may take as long as the store is away. With a lease, the waiter is
    /// told that the store is away.
    pub(super) fn need_lease_to_wait(&mut self, serial: AgentSerial) {
        let Some(agent) = self.leases.agents.get(&serial) else { return };
        // A connection that is ending gets no leases any more.
        let is_wanted = !self.is_quitting && agent.has_no_lease();
        if is_wanted && self.shared.table().waits(serial, agent.id) {
            self.need_lease(serial);
        }
    }

    /// Ends the connection, and with it its lease, unless the connection leaves agents behind whose
    /// locks another connection may take over.
    pub(crate) fn quit(&mut self) {
        self.is_quitting = true;
        if self.leases.agents.is_empty() {
            self.end_own();
            // All work under other leases has ended together with its agents.
            self.leases.expire_all();
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
