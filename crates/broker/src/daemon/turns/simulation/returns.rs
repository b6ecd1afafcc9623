//! What becomes of clients when their broker is killed, and how they come back to the next one.

use std::{
    collections::BTreeSet,
    fs::File,
    io::ErrorKind,
    mem,
    path::{Path, PathBuf},
    time::Duration,
};

use navlock_core::FencingToken;
use navlock_platform::file::create_private_directory;
use navlock_wire::{ClientKey, ToDaemon};

use super::{
    client::{Link, Open},
    history::{Act, Event, name_of},
    plan::PAUSE,
    world::Inner,
};
use crate::{Place, clock, lock_file};

/// The key by which brokers know this client.
pub(super) fn key(client: usize) -> ClientKey {
    (client as u128 + 1).to_be_bytes()
}

/// Makes and locks the own file of this client.
pub(super) fn register(place: &Place, client: usize) -> (File, PathBuf) {
    match create_private_directory(&place.clients()) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => {}
    }
    lock_own(&place.clients().join(format!("{:032x}", u128::from_be_bytes(key(client)))))
}

fn lock_own(path: &Path) -> (File, PathBuf) {
    let file = lock_file::lock(path, Duration::ZERO).expect("a file can be made");
    (file.expect("nobody else has it locked"), path.to_owned())
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
        }
        let told: BTreeSet<_> = self.history.events.iter().filter_map(Event::operation).collect();
        for (at, operation) in self.history.operations.iter_mut().enumerate() {
            operation.may_fail |=
                matches!(operation.act, Act::Request { .. }) && !told.contains(&at);
        }
        self.killed_at = self.history.events.len();
        self.turns = [self.killed_at; 2];
    }

    /// Whether somebody waits for a broker.
    pub(super) fn is_anybody_coming(&self) -> bool {
        self.clients.iter().any(|client| client.is_alive && client.link == Link::Coming)
    }

    fn disconnect(&mut self, client: usize) {
        let of = &self.clients[client];
        if of.link == Link::Down {
            return;
        }
        if of.is_alive {
            self.read(client, usize::MAX);
        }
        let of = &mut self.clients[client];
        for bytes in
            [&mut of.unsent, &mut of.sent_and_unread, &mut of.unread, &mut of.heard, &mut of.told]
        {
            bytes.clear();
        }
        (of.link, of.session) = (Link::Down, None);
        (of.has_news, of.process_has_ended, of.awaits_room) = (false, false, false);
        (of.is_full, of.was_full) = (false, false);
        let unsent = mem::take(&mut of.ends);
        if !of.is_alive {
            return;
        }
        for (_, operation) in unsent {
            self.complete(operation);
        }
        // What the broker may have begun, and has told nobody, is over.
        let pending: Vec<_> =
            self.clients[client].open.iter().filter(|open| !open.is_held).copied().collect();
        for Open { request, .. } in pending {
            let forgotten = self.begin(client, Act::Finish { request });
            self.history.operations[forgotten].is_sent = true;
        }
    }

    /// The broker has taken this lock away from its client.
    pub(super) fn lose(&mut self, client: usize, request: usize) {
        self.told.entry(request).or_default().1 = true;
        let lost = self.begin(client, Act::Lose { request });
        self.complete(lost);
    }

    /// A client that no broker has answered looks whether a broker has given it up.
    fn look(&mut self, client: usize) {
        if self.clients[client].stands() {
            return;
        }
        let (held, open) = self.clients[client].open.iter().partition(|open| open.is_held);
        self.clients[client].open = open;
        let held: Vec<Open> = held;
        for Open { request, .. } in held {
            self.lose(client, request);
        }
    }

    /// Time passes, and clients that no broker has answered look at their files.
    pub(super) fn pause(&mut self) {
        clock::simulated::set(clock::now() + u64::try_from(PAUSE.as_nanos()).unwrap_or(0));
        for client in 0..self.clients.len() {
            if self.lives(client) && self.clients[client].link != Link::Up {
                self.look(client);
            }
        }
    }

    /// A client connects to the next broker, and claims what it has.
    pub(super) fn come_back(&mut self, client: usize) {
        if self.clients[client].link != Link::Down {
            return;
        }
        self.look(client);
        let of = &mut self.clients[client];
        if let Some((_, path)) = of.file.take_if(|(file, path)| !lock_file::is_at(file, path)) {
            of.file = Some(lock_own(&path));
        }
        of.link = Link::Coming;
        self.history.say(format_args!("client {client} comes back"));
        self.say(client, &ToDaemon::Introduce { client: key(client), returning: true }, None);
        let agents = self.clients[client].introductions();
        for (.., opens) in &agents {
            self.say(client, opens, None);
        }
        for place in 0..self.clients[client].open.len() {
            let Open { request, id, agent, is_held, since } = self.clients[client].open[place];
            let Act::Request { name, kind, .. } = self.history.operations[request].act else {
                continue;
            };
            let Some((_, agent, _)) = agents.iter().find(|(number, ..)| *number == agent) else {
                continue;
            };
            let (agent, name) = (*agent, name_of(name).parse().expect("a name"));
            let token = self.told.get(&request).and_then(|(token, _)| *token);
            if let Some(token) = token.filter(|_| is_held) {
                let (mode, token) = (kind.mode(), FencingToken::new(token));
                let claim = ToDaemon::ClaimLock { agent, request: id, name, mode, token, since };
                self.say(client, &claim, None);
            } else {
                let anew = self.make_anew(client, place);
                let claim = ToDaemon::ClaimRequest { agent, request: id, name, kind, since };
                self.say(client, &claim, Some(anew));
            }
        }
        self.say(client, &ToDaemon::Claimed, None);
    }
}
