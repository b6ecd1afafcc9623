//! How leases go on, and what becomes of what stands under one that is lost.

use navlock_core::{Lost, host::wake_all};

use super::{
    Expiring, Lease, LeaseCall, LeaseState, Leases, Loss, Own, RECLAIM_TIMEOUT, Renewed,
    agent::Under,
};
use crate::{clock::Uptime, lease::Renewal};

impl<N> Leases<N> {
    /// The store has renewed a lease. `None` if the lease is not kept any more.
    pub(crate) fn renewed(&mut self, id: i64, renewal: Renewal) -> Option<Renewed> {
        let lease = self.kept.get_mut(&id)?;
        lease.renewal = renewal;
        if matches!(lease.state, LeaseState::TakenOver(_)) {
            lease.state = LeaseState::Live;
            return Some(Renewed::TakenOver(self.under(id)));
        }
        let term = self.times.term(renewal);
        let mut table = self.shared.table();
        let mut under = self.agents.iter().filter(|(_, agent)| agent.under == Under::Lease(id));
        let is_kept = under.all(|(&serial, agent)| table.renew(serial, agent.id, term));
        Some(if is_kept { Renewed::Kept } else { Renewed::TooLate })
    }

    /// Has a lease renewed now, because something under it has gone.
    pub(crate) fn look_after(&mut self, lease: i64) {
        if self.live(lease).is_some() {
            self.calls.push_back(LeaseCall::Renew { lease });
        }
    }

    /// The store does not know a lease any more that should have lasted longer. Others may have been granted what was
    /// held under it. Returns whether the store has to be asked for the reason, after which the lease is
    /// [lost](Self::lose).
    pub(crate) fn doubt(&mut self, lease: i64) -> bool {
        let found = self.kept.get_mut(&lease);
        let is_kept = found.map(|found| found.state = LeaseState::Doubted).is_some();
        if is_kept {
            self.shared.table().close_under(lease);
        }
        is_kept
    }

    /// The leases that have to be [lost](Self::lose) because their terms are over by the clock, or because they could
    /// not be taken over.
    pub(crate) fn over(&self) -> Vec<i64> {
        let (now, timeout) = (Uptime::now(), self.times.time_to_live.min(RECLAIM_TIMEOUT));
        let is_over = |lease: &Lease<N>| match lease.state {
            LeaseState::Live | LeaseState::Doubted => self.times.term(lease.renewal).ends <= now,
            LeaseState::TakenOver(since) => since.elapsed() >= timeout,
        };
        let mut over = self.ids();
        over.retain(|id| self.get(*id).is_some_and(is_over));
        over
    }

    /// Loses the locks and requests that the store has under a lease. Agents of it that wait for something
    /// [need](Self::need) another one now, the others when they ask. `None` if the lease is not kept.
    ///
    /// The names that are owned under the lease have to be lost before ([`Table::lose_name`]), because the store does
    /// not know of their locks.
    ///
    /// [`Table::lose_name`]: crate::table::Table::lose_name
    pub(crate) fn lose(&mut self, id: i64, how: Lost) -> Option<Loss> {
        let lease = self.kept.remove(&id)?;
        let is_own = self.own() == Some(id);
        if is_own {
            self.own = Own::None;
            // Agents that have come while the lease was in doubt wait for the next lease, which has to be asked for.
            let waiting = self.agents.values_mut().filter(|agent| agent.under == Under::Coming);
            waiting.for_each(|agent| agent.under = Under::Nothing);
        }
        let (mut wakers, mut again) = (Vec::new(), Vec::new());
        let agents = self.under(id);
        for &serial in &agents {
            let Some(agent) = self.agents.get_mut(&serial) else { continue };
            agent.under = Under::Nothing;
            let (woken, asked) = self.shared.table().lose_agent(serial, agent.id, how);
            wakers.extend(woken);
            again.extend(asked.into_iter().map(|again| (serial, again)));
        }
        self.calls.push_back(LeaseCall::LetGo { lease: id });
        let expires = match how {
            // Others may have been granted all of these locks already.
            Lost::Reset => Uptime::now(),
            _ => self.times.term(lease.renewal).expires,
        };
        // It may have been taken over and lost once already.
        let expiring = self.expiring.entry(id).or_insert(Expiring { expires, is_own });
        expiring.expires = expiring.expires.max(expires);
        wake_all(wakers);
        Some(Loss { agents, again })
    }

    /// Forgets the lost leases that are over for others as well, and returns them. The connection's own ones are
    /// ended, so that nobody has to wait until the store notices by itself. A lease that was another connection's must
    /// not be ended here, because agents that have not come back may still hold locks under it.
    pub(crate) fn expired(&mut self) -> Vec<i64> {
        let now = Uptime::now();
        let over = self.expiring.iter().filter(|(_, expiring)| expiring.expires <= now);
        let mut over: Vec<i64> = over.map(|(id, _)| *id).collect();
        over.sort_unstable();
        for &lease in &over {
            if self.expiring.remove(&lease).is_some_and(|expiring| expiring.is_own) {
                self.calls.push_back(LeaseCall::Revoke { lease });
            }
        }
        over
    }

    /// All lost leases are [over](Self::expired) from now on, since all work under them has ended.
    pub(crate) fn expire_all(&mut self) {
        self.expiring.values_mut().for_each(|expiring| expiring.expires = Uptime::default());
    }

    /// Ends the connection's own lease, if there is one, under which no agent has anything.
    pub(crate) fn end_own(&mut self) {
        if let Some(lease) = self.own() {
            self.own = Own::None;
            self.kept.remove(&lease);
            self.calls.extend([LeaseCall::LetGo { lease }, LeaseCall::Revoke { lease }]);
        }
    }

    /// Lets go of leases that were other connections' and that no agent uses, and returns them. They end by
    /// themselves, because other agents may still come for what they have under them.
    pub(crate) fn let_go_unused(&mut self) -> Vec<i64> {
        let mut unused = self.ids();
        unused.retain(|id| self.own() != Some(*id) && self.under(*id).is_empty());
        for lease in &unused {
            self.kept.remove(lease);
            self.calls.push_back(LeaseCall::LetGo { lease: *lease });
        }
        unused
    }
}
