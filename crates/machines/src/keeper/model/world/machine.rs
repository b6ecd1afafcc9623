//! The acts of a machine, and what it says that it holds.

use super::super::memory::steals;
use super::super::script::Act;
use super::*;
use crate::{
    call_failure::Failure,
    clock::{self, Uptime},
    keeper::{Call, Done, Keeper, Message, News},
    key_store::LeaseEvent,
    keys::NameKey,
    lease::Renewal,
    table::{Ending, LocalOutcome, Status, Terminated},
    watched::Watched,
};
use navlock_core::{
    AgentInfo, ClientId, Mode, ResourceName,
    host::{RequestDetails, RequestKind},
};
use navlock_engine::{FencingToken, RequestId};
use std::{task::Waker, time::Duration};
use tokio::sync::oneshot;

impl Machine {
    pub(super) fn within<T>(&mut self, act: impl FnOnce(&mut Keeper) -> T) -> T {
        clock::simulation::to(self.now);
        act(&mut self.keeper)
    }

    /// Lets the machine own names when it has taken them.
    pub(super) fn own_names(&mut self) {
        self.keeper.options.taken = 1;
        let views =
            self.keeper.buckets.values_mut().flat_map(|opened| opened.bucket.views.values_mut());
        views.for_each(|view| view.owned_after(1));
    }

    pub(super) fn watched(&mut self, watch: u64, watched: Watched) {
        self.within(|keeper| keeper.handle_news(News::Watched { watch, watched }));
    }

    /// The agents, by number, whose locks and requests are under this lease.
    pub(super) fn agents_under(&self, lease: i64) -> Vec<usize> {
        let is_under = |modelled: &ModelAgent| {
            let agent = self.keeper.leases.agents.get(&modelled.serial);
            agent.is_some_and(|agent| agent.lease() == Some(lease))
        };
        (0..self.agents.len()).filter(|&nth| is_under(&self.agents[nth])).collect()
    }

    pub(super) fn status(&self, id: RequestId) -> (Status, bool) {
        clock::simulation::to(self.now);
        let mut table = self.shared.table();
        let is_over = table.state(id).is_some_and(|(_, is_over)| is_over);
        (table.status(id), is_over)
    }

    pub(super) fn may_act(&self) -> bool {
        let is_reclaiming = self.agents.iter().any(|modelled| modelled.reclaim.is_some());
        match self.script.get(self.acted) {
            Some(_) => !is_reclaiming,
            None => false,
        }
    }

    pub(super) fn act(&mut self) {
        let act = self.script[self.acted];
        self.acted += 1;
        match act {
            Act::Request(name, kind) | Act::RequestBy(_, name, kind) => {
                let agent = act.agent();
                self.now += Duration::from_nanos(1);
                let serial = self.requests.len() as u64;
                let id = self.request((agent, serial), name, kind);
                // An agent that has ended makes no request.
                let ended = id.is_none();
                self.requests.push(Asked { agent, name, kind, serial, id, ended });
            }
            Act::Finish(number) => {
                let asked = &mut self.requests[number];
                asked.ended = true;
                let id = asked.id;
                self.finish(id);
            }
            Act::Describe(agent) => {
                let serial = self.agents[agent].serial;
                let mut info = AgentInfo::default();
                info.pid = u32::try_from(self.acted).expect("few");
                self.within(|keeper| keeper.handle_message(Message::Describe { serial, info }));
            }
            Act::Query => {}
            Act::Close => {
                self.within(|keeper| keeper.handle_message(Message::CloseBucket { bucket: 0 }));
            }
            Act::OpenElsewhere => {
                let mut table = self.shared.table();
                let bucket = table.open_bucket("c");
                let client_id = ClientId::from_bytes([0xFF; 16]);
                let (agent, serial) = table.open_agent(bucket, client_id);
                drop(table);
                let open = Message::OpenAgent { bucket, serial, agent, client_id };
                self.within(|keeper| {
                    keeper.handle_message(Message::OpenBucket { bucket, name: "c".to_owned() });
                    keeper.handle_message(open);
                });
            }
            Act::End(agent) => {
                for asked in self.requests.iter_mut().filter(|asked| asked.agent == agent) {
                    asked.ended = true;
                }
                let ModelAgent { agent, serial, .. } = self.agents[agent];
                clock::simulation::to(self.now);
                let Terminated { ended, over, .. } = self.shared.table().terminate(agent);
                self.within(|keeper| keeper.handle_message(Message::EndAgent { serial, ended }));
                self.leave(over);
            }
        }
    }

    pub(super) fn finish(&mut self, id: Option<RequestId>) {
        let Some(id) = id else { return };
        clock::simulation::to(self.now);
        let ending = self.shared.table().finish(id);
        let Some(Ending { finished, over, .. }) = ending else { return };
        if let Some(finished) = finished {
            self.within(|keeper| keeper.handle_message(Message::Finish { id, finished }));
        }
        self.leave(over);
    }

    /// Gives up names that were owned for a run that is over.
    fn leave(&mut self, over: impl IntoIterator<Item = (u64, NameKey)>) {
        for (bucket, name) in over {
            self.within(|keeper| keeper.handle_message(Message::Leave { bucket, name }));
        }
    }

    pub(super) fn request(
        &mut self,
        (agent, serial): (usize, u64),
        of: &str,
        kind: RequestKind,
    ) -> Option<RequestId> {
        clock::simulation::to(self.now);
        let agent = self.agents[agent].agent;
        let details = RequestDetails { serial: Some(serial), ..RequestDetails::default() };
        let made = self.shared.table().request(agent, &name(of), kind, details, Waker::noop());
        let (id, serial) = made.ok()?;
        // A caller does the same.
        let name = self.shared.table().name_key(id)?;
        let here = self.shared.table().take_here(id);
        match here {
            Some(LocalOutcome::Answered { .. } | LocalOutcome::Waits { is_known: true }) => {
                return Some(id);
            }
            Some(LocalOutcome::Waits { is_known: false }) | None => {}
        }
        self.within(|keeper| {
            keeper.handle_message(Message::Request { bucket: 0, serial, id, name });
        });
        Some(id)
    }

    /// Fails a call that was not answered.
    pub(super) fn fail(&mut self, at: usize) {
        if let Flight::Out(Call::Operate { of, .. }) = self.flights.remove(at) {
            let failure = Err(Failure::unknown("lost"));
            self.within(|keeper| keeper.handle_done(Done::Operated(of, failure)));
        }
    }

    /// Goes on with the locks and requests that were reclaimed, and asks anew for the others.
    pub(super) fn take_reclaimed(&mut self) {
        for modelled in &mut self.agents {
            let Some(Ok(tickets)) = modelled.reclaim.as_mut().map(oneshot::Receiver::try_recv)
            else {
                continue;
            };
            modelled.reclaim = None;
            for (number, ticket) in std::mem::take(&mut modelled.claimed).into_iter().zip(tickets) {
                self.requests[number].id = ticket.map(|ticket| ticket.id);
            }
        }
    }

    /// The requests, by number, whose locks the machine would say that it holds, and the tokens of
    /// these locks.
    pub(super) fn holds(&self) -> Vec<(usize, FencingToken)> {
        let holds = |nth: usize| {
            let Asked { id, ended, .. } = self.requests[nth];
            match self.status(id.filter(|_| !ended)?) {
                (Status::Held(grant), false) => Some((nth, grant.token)),
                _ => None,
            }
        };
        (0..self.requests.len()).filter_map(holds).collect()
    }

    /// The locks that the machine would say that it holds, and the locks under which work still
    /// goes on, each with its token.
    pub(super) fn believes(&self) -> Vec<(&'static str, Mode, FencingToken)> {
        let working = self.cut.iter().flat_map(|cut| &cut.working);
        let working = working.copied().filter(|&(nth, _)| !self.requests[nth].ended);
        let all = working.chain(self.holds()).map(|(nth, token)| {
            let asked = &self.requests[nth];
            (asked.name, asked.kind.mode(), token)
        });
        all.collect()
    }

    /// Checks a call that the machine is about to make: a theft must be for a request that has not
    /// ended.
    pub(super) fn check_call(&self, call: &Call) {
        let Call::Operate { of, transaction, .. } = call else { return };
        if !steals(transaction) {
            return;
        }
        let thieves = of.operation.own();
        let thieves = thieves.iter().filter_map(|key| self.keeper.slots.holder(*key));
        for thief in thieves {
            let asked = self.requests.iter().find(|asked| asked.id == Some(thief));
            assert!(asked.is_none_or(|asked| !asked.ended), "{asked:?} has ended, and steals");
        }
    }

    /// Lets this much time pass. After that, the store renews the leases that the machine keeps, and the machine
    /// reads this in its mailbox.
    pub(super) fn wait(&mut self, time: Duration, asked: &[Vec<u8>]) {
        self.now += time;
        let renewal = Renewal { sent: Uptime::now_at(self.now), time_to_live: TIME_TO_LIVE };
        for lease in self.kept.clone() {
            let word = LeaseEvent::Renewed(renewal, asked.to_vec());
            self.within(|keeper| keeper.handle_news(News::Lease { lease, word }));
        }
    }
}

pub(super) fn name(name: &str) -> ResourceName {
    ResourceName::try_from(name).expect("it is no reserved one")
}
