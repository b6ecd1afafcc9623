//! Locks that end by themselves when their term is over, unless the daemon prolongs the term.

use std::{mem, task::Waker, time::Duration};

use navlock_core::{Error, Lost, host};
use navlock_engine::{AgentId, RequestId};
use navlock_wire::{BootTime, TermBounds, ToDaemon};

use super::{
    ClientTable, State, id,
    terms::{AgentTerm, TermIndex},
};
use crate::clock;

impl ClientTable {
    /// When the next term ends, or an earlier moment.
    pub(in super::super) fn earliest_term(&self) -> Option<BootTime> {
        self.terms.earliest
    }

    /// Whether locks may be held whose term is over.
    pub(in super::super) fn is_late(&self) -> bool {
        self.terms.earliest.is_some_and(|earliest| clock::uptime() >= earliest)
    }

    /// Notes the daemon's message until when an agent has its locks and requests. The last message
    /// counts. What was lost stays lost.
    pub(super) fn set_term(
        &mut self,
        agent: navlock_wire::Agent,
        ends: BootTime,
        bounds: Option<TermBounds>,
    ) {
        // A message about an agent that is gone was on its way when the agent ended.
        if let Some(agent) = usize::try_from(agent).ok().and_then(|at| self.agents.get_mut(at)) {
            agent.term = Some(AgentTerm { ends, is_over: false, bounds });
            self.terms.are_known = true;
            self.terms.add(ends);
        }
    }

    /// An agent's term, as far as the daemon has told it. A term that is over still tells when the service
    /// that keeps the locks was last heard of.
    pub(in super::super) fn term(&self, agent: AgentId) -> Option<host::Term> {
        let AgentTerm { ends, bounds, .. } = self.agents.get(agent.index())?.term?;
        let TermBounds { heard, due, expires } = bounds?;
        let [now, heard, due, ends, expires] = [clock::uptime(), heard, due, ends, expires]
            .map(|BootTime(nanos)| Duration::from_nanos(nanos));
        Some(host::Term { now, heard, due, ends, expires })
    }

    /// To be called when a grant has just come: if the agent's term was over before that, there is
    /// again a lock to end.
    pub(super) fn look_again(&mut self, request: RequestId) {
        let request = self.requests.get(request.index());
        let agent = request.and_then(|request| self.agents.get_mut(request.agent?.index()));
        if let Some(term) = agent.and_then(|agent| agent.term.as_mut()) {
            if mem::take(&mut term.is_over) {
                self.terms.add(term.ends);
            }
        }
    }

    /// Ends the locks whose term is over, and tells the daemon. Returns the wakers to call.
    pub(in super::super) fn end_late(&mut self) -> Vec<Waker> {
        let now = clock::uptime();
        let (mut late, mut wakers) = (Vec::new(), Vec::new());
        self.terms.earliest = None;
        for (_, agent) in &mut self.agents {
            let Some(term) = agent.term.as_mut().filter(|term| !term.is_over) else {
                continue;
            };
            if term.ends > now {
                self.terms.add(term.ends);
                continue;
            }
            term.is_over = true;
            late.extend(&agent.requests);
        }
        for request in self.lose_held(late, &mut wakers) {
            // If the daemon goes on, it must not keep the lock for this client.
            self.say(&ToDaemon::Finish { request });
        }
        wakers
    }

    /// Ends all locks that had a term, because no daemon will prolong the term any more. Returns
    /// the wakers to call.
    pub(super) fn end_terms(&mut self) -> Vec<Waker> {
        let (mut over, mut wakers) = (Vec::new(), Vec::new());
        for (_, agent) in &mut self.agents {
            if agent.term.take().is_some() {
                over.extend(&agent.requests);
            }
        }
        self.terms = TermIndex::default();
        self.lose_held(over, &mut wakers);
        wakers
    }

    /// Ends those of these locks that are held, and returns them. Adds the wakers to call to
    /// `wakers`.
    fn lose_held(&mut self, requests: Vec<usize>, wakers: &mut Vec<Waker>) -> Vec<RequestId> {
        let mut ended = Vec::new();
        for index in requests {
            if matches!(self.requests[index].state, State::Held(..)) {
                let lost = Lost::Disconnected;
                self.end(index, &Error::from(lost), lost, wakers);
                ended.push(id(index, self.requests[index].serial));
            }
        }
        ended
    }
}
