//! How agents get leases: the connection's own one, or one of another connection.

use std::time::Duration;

use navlock_core::{ClientId, Error, host::wake_all};

use super::{Lease, LeaseCall, LeaseState, Leases, Need, Own, agent::Under};
use crate::{
    clock::Uptime,
    lease::{LeaseName, Renewal, Share},
    table::AgentSerial,
};

impl<N> Leases<N> {
    /// Puts an agent under the connection's own lease, if that is live and its term has not ended. Returns whether
    /// the agent is under the lease now.
    pub(crate) fn attach(&mut self, serial: AgentSerial) -> bool {
        let Some(&Lease { name, renewal, .. }) = self.own().and_then(|own| self.live(own)) else {
            return false;
        };
        let term = self.times.term(renewal);
        let Some(agent) = self.agents.get_mut(&serial).filter(|_| term.ends > Uptime::now()) else {
            return false;
        };
        // The agent has no locks yet, so none can have been lost.
        let mut table = self.shared.table();
        table.revive(serial, agent.id, term);
        agent.under = Under::Lease(name.id);
        table.set_lease(serial, agent.id, Share { lease: name, client_id: agent.client_id });
        // The agent's requests may have waited for a lease.
        let wakers = table.process_of(agent.id);
        drop(table);
        wake_all(wakers);
        true
    }

    /// An agent cannot make requests because it has no good lease: either none, or one whose term is over.
    pub(crate) fn need(&mut self, serial: AgentSerial) -> Need {
        let Some(under) = self.agents.get(&serial).map(|agent| agent.under) else {
            return Need::Waits;
        };
        let over = match under {
            Under::Coming => None,
            Under::Lease(lease) => self.live(lease),
            Under::Nothing if self.attach(serial) => return Need::Has,
            // The connection's own lease could not be used, so it is over if it is live.
            Under::Nothing => self.own().and_then(|own| self.live(own)),
        };
        if let Some(over) = over {
            return Need::Lose(over.name.id);
        }
        if let Some(agent) = self.agents.get_mut(&serial).filter(|agent| agent.has_no_lease()) {
            agent.under = Under::Coming;
            if self.own == Own::None {
                self.own = Own::Coming;
                self.begin(Duration::ZERO);
            }
        }
        Need::Waits
    }

    fn begin(&mut self, delay: Duration) {
        self.calls.push_back(LeaseCall::Begin { delay });
    }

    /// The store has begun the lease that was asked for. Callers are told the share of the connection, which has this
    /// client id. Returns whether the lease is of use: agents are under it from now on.
    pub(crate) fn begun(
        &mut self,
        name: LeaseName,
        renewal: Renewal,
        client_id: ClientId,
        notes: N,
    ) -> bool {
        if self.own != Own::Coming || self.times.term(renewal).ends <= Uptime::now() {
            // Nobody wants the lease any more, or it came too late to be of use.
            self.calls.push_back(LeaseCall::Revoke { lease: name.id });
            if self.own == Own::Coming {
                self.begin(Duration::ZERO);
            }
            return false;
        }
        self.kept.insert(name.id, Lease { name, state: LeaseState::Live, renewal, notes });
        self.own = Own::There(name.id);
        self.shared.table().own_share = Some(Share { lease: name, client_id });
        let time_to_live = Some(renewal.time_to_live);
        self.calls.push_back(LeaseCall::Keep { lease: name.id, time_to_live });
        for serial in self.agents_that(|agent| agent.lease().is_none()) {
            self.attach(serial);
        }
        true
    }

    /// No lease could be had. If `may_wait` is set, that may change, and requests wait for as long as a lease lasts.
    /// Returns whether requests have failed.
    pub(crate) fn not_begun(&mut self, error: &Error, may_wait: bool) -> bool {
        if self.own != Own::Coming {
            return false;
        }
        let timeout = if may_wait { self.times.time_to_live } else { Duration::ZERO };
        let (mut all, mut is_wanted) = (Vec::new(), false);
        for serial in self.agents_that(|agent| agent.under == Under::Coming) {
            let Some(agent) = self.agents.get_mut(&serial) else { continue };
            let (wakers, waits) = self.shared.table().fail_agent(serial, agent.id, error, timeout);
            if !waits {
                agent.under = Under::Nothing;
            }
            is_wanted |= waits;
            all.extend(wakers);
        }
        if is_wanted {
            self.begin(Duration::from_millis(100));
        } else {
            self.own = Own::None;
        }
        let has_failed = !all.is_empty();
        wake_all(all);
        has_failed
    }

    /// An agent goes on with what it had under a lease of another connection, which is renewed from now on. Returns
    /// the last renewal if the lease is live already: then its requests are answered now, and its term begins, and
    /// else when [`renewed`](Self::renewed) names it.
    pub(crate) fn take_over(
        &mut self,
        serial: AgentSerial,
        name: LeaseName,
        notes: N,
    ) -> Option<Renewal> {
        let agent = self.agents.get_mut(&serial)?;
        agent.under = Under::Lease(name.id);
        let share = Share { lease: name, client_id: agent.client_id };
        self.shared.table().set_lease(serial, agent.id, share);
        if self.kept.contains_key(&name.id) {
            return self.live(name.id).map(|lease| lease.renewal);
        }
        let sent = Uptime::now();
        let renewal = Renewal { sent, time_to_live: self.times.time_to_live };
        let state = LeaseState::TakenOver(sent);
        self.kept.insert(name.id, Lease { name, state, renewal, notes });
        // The store is asked for the time to live, because the lease was made with the settings of its own
        // connection.
        self.calls.push_back(LeaseCall::Keep { lease: name.id, time_to_live: None });
        None
    }
}
