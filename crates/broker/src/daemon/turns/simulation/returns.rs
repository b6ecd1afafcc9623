//! What becomes of clients when their broker is killed, and how they come back to the next one.

use std::{collections::BTreeSet, mem};

use navlock_wire::ClientKey;

use super::{
    client::{Link, Open},
    history::{Act, Event},
    plan::PAUSE,
    world::Inner,
};
use crate::{client::simulated::SimulatedClient, clock};

/// The key by which brokers know this client.
pub(super) fn key(client: usize) -> ClientKey {
    (client as u128 + 1).to_be_bytes()
}

impl Inner {
    /// The broker was killed: all connections end.
    pub(super) fn lose_broker(&mut self) {
        self.history.say(format_args!("the broker was killed"));
        (self.has_broker, self.is_killed) = (false, false);
        for event in &mut self.history.events {
            if matches!(event, Event::Answered(..)) {
                *event = Event::Forgotten;
            }
        }
        self.parts.clear();
        for client in 0..self.clients.len() {
            self.disconnect(client);
            self.clients[client].leave();
        }
        self.turns = [self.history.events.len(); 2];
    }

    /// Whether somebody waits for a broker.
    pub(super) fn is_anybody_coming(&self) -> bool {
        self.clients.iter().any(|client| client.lives() && client.link == Link::Coming)
    }

    /// The connection of this client breaks. What it has sent, the broker still reads.
    pub(super) fn break_off(&mut self, client: usize) {
        if !self.lives(client) || self.clients[client].link != Link::Up {
            return;
        }
        self.history.say(format_args!("the connection of client {client} breaks"));
        self.disconnect(client);
        self.come_first(client);
        self.clients[client].left_at = self.turns[0];
        for Open { request, .. } in self.clients[client].open.clone() {
            let lost = self.begin(client, Act::Lose { request });
            self.history.operations[lost].is_sent = true;
        }
        let of = &mut self.clients[client];
        (of.is_broken, of.has_ended, of.has_news) = (true, true, true);
    }

    /// The client has gone: its end comes before the messages of its turn, and so does what it has said before.
    pub(super) fn come_first(&mut self, client: usize) {
        let theirs = self.history.operations.iter_mut().filter(|of| of.client == client);
        theirs.for_each(|of| of.begun = of.begun.min(self.turns[0]));
    }

    /// Whatever this client has asked for, and was told nothing of, may come to nothing.
    pub(super) fn may_fail(&mut self, client: usize) {
        let told: BTreeSet<_> = self.history.events.iter().filter_map(Event::operation).collect();
        for (at, operation) in self.history.operations.iter_mut().enumerate() {
            operation.may_fail |= operation.client == client
                && matches!(operation.act, Act::Request { .. })
                && !told.contains(&at);
        }
    }

    /// The broker hangs up on this client, which has not claimed in time what it has.
    pub(super) fn hang_up(&mut self, client: usize) {
        self.history.say(format_args!("client {client} has claimed too slowly, and is hung up on"));
        self.disconnect(client);
        let of = &mut self.clients[client];
        of.is_in_time = false;
        of.leave();
    }

    /// The connection of this client ends.
    fn disconnect(&mut self, client: usize) {
        let of = &mut self.clients[client];
        if of.link == Link::Down {
            return;
        }
        of.cut_off();
        of.asks = 0;
        let unsent = mem::take(&mut of.ends).into_iter().map(|(_, operation)| operation);
        let unsent: Vec<_> = mem::take(&mut of.late).into_iter().chain(unsent).collect();
        self.may_fail(client);
        if !self.lives(client) {
            return;
        }
        for operation in unsent {
            self.complete(operation);
        }
        // What the broker may have begun, and has told nobody, is over.
        for Open { request, .. } in self.clients[client].open.clone() {
            if self.told.contains_key(&request) {
                continue;
            }
            let forgotten = self.begin(client, Act::Finish { request });
            self.history.operations[forgotten].is_sent = true;
        }
        self.clients[client].left_at = self.history.events.len();
    }

    /// The broker has taken this lock away from its client.
    pub(super) fn lose(&mut self, client: usize, request: usize) {
        self.told.entry(request).or_default().1 = true;
        let lost = self.begin(client, Act::Lose { request });
        self.complete(lost);
    }

    /// Time passes, and clients that no broker has answered look at their files.
    pub(super) fn pause(&mut self) {
        clock::simulated::set(clock::now() + u64::try_from(PAUSE.as_nanos()).unwrap_or(0));
        for client in 0..self.clients.len() {
            self.clients[client].is_late = true;
            if self.runs(client) && self.clients[client].link != Link::Up {
                self.act(client, &[], SimulatedClient::look);
                self.look_at_open(client);
            }
        }
    }

    /// A client connects to the next broker, and claims what it has.
    pub(super) fn come_back(&mut self, client: usize) {
        if self.clients[client].link != Link::Down || self.clients[client].session.is_some() {
            return;
        }
        self.read(client, usize::MAX);
        self.history.say(format_args!("client {client} comes back"));
        self.connect(client);
    }

    /// A client connects, and claims what it has.
    pub(super) fn connect(&mut self, client: usize) {
        let of = &mut self.clients[client];
        of.connect();
        of.has_said();
        let end = of.unsent.len();
        self.look_at_open(client);
        for place in 0..self.clients[client].open.len() {
            let open = self.clients[client].open[place];
            if !open.is_held {
                let anew = self.make_anew(client, place);
                self.clients[client].ends.push_back((end, anew));
            }
        }
        let of = &self.clients[client];
        // A new socket takes its first message whole, which is short.
        let first =
            of.unsent.first_chunk().map_or(0, |length| 4 + u32::from_be_bytes(*length) as usize);
        self.send(client, if of.plan.in_pieces { first } else { usize::MAX });
    }
}
