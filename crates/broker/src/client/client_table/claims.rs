//! Claims: the messages by which a new daemon is told everything.

use std::task::Waker;

use bytes::BytesMut;
use navlock_engine::{AgentId, FencingToken, Patience};
use navlock_wire::{Sent, ToDaemon, encode};

use super::{
    Agent, ClientTable, Request, SlotPlace, State, id, index_of_32_bits, link::Link, number,
};

impl ClientTable {
    /// The messages that open and describe an agent.
    pub(super) fn introduction(&self, index: usize) -> Vec<ToDaemon> {
        let Some(Agent { client_id, bucket: Some(bucket), info, .. }) = self.agents.get(index)
        else {
            return Vec::new();
        };
        let agent = number(AgentId::from_index(index_of_32_bits(index)));
        let (client_id, bucket) = (client_id.to_bytes(), bucket.as_ref().to_owned());
        vec![
            ToDaemon::OpenAgent { agent, client_id, bucket },
            ToDaemon::Describe { agent, info: info.clone() },
        ]
    }

    /// Begins a new connection, with a daemon of this reach, by claiming everything. Returns the wakers to call.
    pub(in super::super) fn connected(&mut self, reach: Option<String>) -> Vec<Waker> {
        // A daemon that serves this machine alone does not know of leased locks.
        let mut woken = if reach.is_none() { self.end_terms() } else { Vec::new() };
        self.leave_slots(&mut woken);
        self.reach = reach;
        self.outgoing.clear();
        self.link = Link::Up;
        self.is_given_up = false;
        self.has_heard = false;
        let early = self.early.take();
        self.tell_alone();
        self.say(&ToDaemon::Introduce { client: self.key, returning: early.is_none() });
        if let Some(early) = early {
            self.outgoing.extend_from_slice(&early);
            self.tell_more();
            return woken;
        }
        for message in self.claims(|_| true) {
            // This comes before `Claimed`, because after that the daemon shows everything to
            // lookers.
            if matches!(message, ToDaemon::Claimed) {
                self.tell_more();
            }
            self.say(&message);
        }
        for asked in self.questions.again() {
            self.say(&asked);
        }
        self.say_map();
        woken
    }

    /// Takes requests and locks out of their slots, because a new daemon has recalled all names, or
    /// knows of none. Requests are claimed without their slots, and locks that are held in slots will
    /// be released by a message. Adds the wakers to call to `wakers`.
    fn leave_slots(&mut self, wakers: &mut Vec<Waker>) {
        for (_, request) in &mut self.requests {
            if matches!(request.place, SlotPlace::Slot(_)) {
                request.place = SlotPlace::Outside;
                self.unmapped += 1;
            }
        }
        let lost = self.owned.slots().come_back(wakers);
        for (id, lost) in lost {
            if self.state(id).is_some() {
                self.end(id.index(), &lost.into(), lost, wakers);
            }
        }
        self.count_unmapped(0);
    }

    /// Sends the messages that only lookers need.
    fn tell_more(&mut self) {
        if !self.tells_more() {
            return;
        }
        let pending = self.requests.iter().filter(|(_, request)| request.state.is_pending());
        let more = pending.flat_map(|(index, request)| {
            let request_id = id(index, request.serial);
            let patience = request.patience;
            let patience = (patience != Patience::Endless)
                .then_some(ToDaemon::Patience { request: request_id, patience });
            let inside = request.more.iter().flat_map(|more| &more.inside);
            let inside =
                inside.map(move |lock| ToDaemon::Inside { request: request_id, lock: *lock });
            patience.into_iter().chain(inside)
        });
        for message in more.collect::<Vec<_>>() {
            self.say(&message);
        }
    }

    /// The messages that claim everything: first the agents, then those of their requests and locks
    /// whose state is `wanted`.
    fn claims(&self, wanted: impl Fn(&State) -> bool) -> Vec<ToDaemon> {
        let agents = self.agents.iter().flat_map(|(index, _)| self.introduction(index));
        let requests = self.requests.iter().filter(|(_, request)| wanted(&request.state));
        let mut requests: Vec<_> = requests.collect();
        // A daemon that does not know our clock may take their times for those of the claims.
        requests.sort_by_key(|(_, request)| request.serial);
        let claims = requests.into_iter().filter_map(|(index, request)| {
            let &Request { serial, agent, ref name, kind, since, ref state, ref more, .. } =
                request;
            let (agent, request, name) = (number(agent?), id(index, serial), name.clone());
            let claim = match *state {
                State::Pending(_) => ToDaemon::ClaimRequest { agent, request, name, kind, since },
                State::Held(token, _) => {
                    let mode = kind.mode();
                    ToDaemon::ClaimLock { agent, request, name, mode, token, since }
                }
                _ => return None,
            };
            let why = more.as_ref().map(|more| &more.why).filter(|why| !why.is_empty());
            let why = why.map(|why| ToDaemon::Why { request, why: why.clone() });
            Some(why.into_iter().chain([claim]))
        });
        let taken = if self.is_forked() { Vec::new() } else { self.owned.slots().held() };
        let taken = taken.into_iter().map(|held| ToDaemon::ClaimLock {
            agent: number(held.agent),
            request: held.id,
            name: held.name,
            mode: held.mode,
            token: FencingToken::new(held.token),
            since: held.since,
        });
        agents.chain(claims.flatten()).chain(taken).chain([ToDaemon::Claimed]).collect()
    }

    /// The messages that claim the locks that are held now, for the processes that inherit these locks.
    pub(in super::super) fn inheritable_claims(&self) -> BytesMut {
        let mut bytes = BytesMut::new();
        for claim in self.claims(|state| matches!(state, State::Held(..))) {
            // Encoding cannot fail, as in `say`.
            let _ = encode(&Sent { at: 0, message: &claim }, &mut bytes);
        }
        bytes
    }
}
