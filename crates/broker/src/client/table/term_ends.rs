//! Locks that end by themselves, unless the daemon says further.

use std::{mem, task::Waker, time::Duration};

use navlock_core::{Error, Lost, host};
use navlock_engine::{AgentId, RequestId};
use navlock_wire::{ToDaemon, Uptime};

use super::{
    State, Table, id,
    terms::{AgentTerm, Bounds, TermIndex},
};
use crate::clock;

impl Table {
    /// When a term ends next, or before that.
    pub(in super::super) fn earliest_term(&self) -> Option<Uptime> {
        self.terms.earliest
    }

    /// Whether something may be held longer than its term.
    pub(in super::super) fn is_late(&self) -> bool {
        self.terms.earliest.is_some_and(|earliest| clock::uptime() >= earliest)
    }

    /// The daemon says until when an agent has what it has: its last word counts. What was lost stays
    /// so.
    pub(super) fn set_term(&mut self, agent: navlock_wire::Agent, ends: Uptime) {
        // Of one that is gone it crossed with its end.
        if let Some(agent) = usize::try_from(agent).ok().and_then(|at| self.agents.get_mut(at)) {
            agent.term = Some(AgentTerm { ends, is_over: false, bounds: None });
            self.terms.are_known = true;
            self.terms.add(ends);
        }
    }

    /// The daemon says the rest of an agent's term.
    pub(super) fn set_bounds(
        &mut self,
        agent: navlock_wire::Agent,
        heard: Uptime,
        due: Uptime,
        expires: Uptime,
    ) {
        let agent = usize::try_from(agent).ok().and_then(|at| self.agents.get_mut(at));
        if let Some(term) = agent.and_then(|agent| agent.term.as_mut()) {
            term.bounds = Some(Bounds { heard, due, expires });
        }
    }

    /// An agent's term, as far as it was said. Of one that is over it is known when the maintainer was
    /// last heard of.
    pub(in super::super) fn term(&self, agent: AgentId) -> Option<host::Term> {
        let AgentTerm { ends, bounds, .. } = self.agents.get(agent.index())?.term?;
        let Bounds { heard, due, expires } = bounds?;
        let [now, heard, due, ends, expires] =
            [clock::uptime(), heard, due, ends, expires].map(Duration::from_nanos);
        Some(host::Term { now, heard, due, ends, expires })
    }

    /// If the term was over before the grant that was heard just now, there is again something to end.
    pub(super) fn look_again(&mut self, request: RequestId) {
        let request = self.requests.get(request.index());
        let agent = request.and_then(|request| self.agents.get_mut(request.agent?.index()));
        if let Some(term) = agent.and_then(|agent| agent.term.as_mut()) {
            if mem::take(&mut term.is_over) {
                self.terms.add(term.ends);
            }
        }
    }

    /// Ends what is held longer than its term, and says so. Whom to wake.
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
            // A daemon that goes on must not keep it for us.
            self.say(&ToDaemon::Finish { request });
        }
        wakers
    }

    /// What was held for a term is lost: there is nobody any more to say further. Whom to wake.
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

    /// Ends those of these that are held. Which they were; whom to wake is added.
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
