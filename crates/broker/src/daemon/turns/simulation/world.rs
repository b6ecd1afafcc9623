//! The clients of a history and what is between them and the broker: sockets, processes, time.

use std::{
    cell::{RefCell, RefMut},
    collections::{BTreeMap, VecDeque},
    io,
    rc::Rc,
};

use navlock_core::{Lost, host::RequestKind};
use navlock_wire::{Failure, FromDaemon, ToDaemon};

use super::{
    super::{
        super::process::Process,
        process_key, socket_key,
        sockets::{Socket, Sockets},
    },
    client::{Client, Open, operation, request_id},
    history::{Act, Event, History, Operation, Seen, is_shared, name_of, seen},
    plan::{Death, Plan, Random, Step},
};
use crate::clock;

/// The world as the broker sees it: all sockets.
#[derive(Clone)]
pub(super) struct World(Rc<RefCell<Inner>>);

/// One socket.
pub(super) struct SimulatedSocket {
    world: World,
    client: usize,
}

pub(super) struct Inner {
    random: Random,
    interrupts: bool,
    pub(super) steps: VecDeque<Step>,
    /// How many steps may be taken in the middle of this turn.
    pub(super) meanwhile: usize,
    pub(super) clients: Vec<Client>,
    pub(super) history: History,
    /// What was told of requests: the token, and whether it is lost.
    told: BTreeMap<usize, (Option<u64>, bool)>,
    /// The parts of answers.
    parts: BTreeMap<u64, (Vec<Seen>, Vec<Seen>)>,
    /// How many agents there were.
    agents: usize,
    /// How many events there were when the last turns began.
    turns: [usize; 2],
    pub(super) failure: Option<String>,
}

impl World {
    pub(super) fn new(plan: &Plan) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            random: Random::new(plan.seed),
            interrupts: plan.interrupts,
            steps: plan.steps.iter().copied().collect(),
            meanwhile: 0,
            clients: plan.clients.iter().copied().map(Client::new).collect(),
            history: History::default(),
            told: BTreeMap::new(),
            parts: BTreeMap::new(),
            agents: 0,
            turns: [0; 2],
            failure: None,
        })))
    }

    pub(super) fn get(&self) -> RefMut<'_, Inner> {
        self.0.borrow_mut()
    }

    pub(super) fn socket(&self, client: usize) -> SimulatedSocket {
        SimulatedSocket { world: self.clone(), client }
    }
}

impl Inner {
    /// Whether some socket or process has something.
    pub(super) fn has_news(&self) -> bool {
        self.clients.iter().any(|client| client.has_news || client.process_has_ended)
    }

    pub(super) fn begin_turn(&mut self) {
        self.turns = [self.turns[1], self.history.events.len()];
        self.history.say(format_args!("the broker takes a turn"));
    }

    /// The broker has done something, and meanwhile others may do something.
    fn pass(&mut self) {
        if self.meanwhile > 0 && self.random.one_in(3) {
            self.meanwhile -= 1;
            if let Some(step) = self.steps.pop_front() {
                match step {
                    Step::Turn { .. } => self.steps.push_front(step),
                    step => self.take(step),
                }
            }
        }
    }

    /// Takes this step, if it can be taken.
    pub(super) fn take(&mut self, step: Step) {
        clock::simulated::set(clock::now() + 1 + self.random.next() % 2000);
        match step {
            Step::Request { client, agent, name, kind } if self.lives(client) => {
                self.request(client, agent, name, kind);
            }
            Step::Finish { client, place } if self.lives(client) => self.finish(client, place),
            Step::Terminate { client, agent } if self.lives(client) => {
                self.end_agent(client, agent, |agent| ToDaemon::Terminate { agent });
            }
            Step::CloseAgent { client, agent } if self.lives(client) => {
                self.end_agent(client, agent, |agent| ToDaemon::CloseAgent { agent });
            }
            Step::Query { client } if self.lives(client) => {
                let query = self.begin(client, Act::Query);
                let bucket = "bucket".into();
                self.say(client, &ToDaemon::Query { query: query as u64, bucket }, Some(query));
            }
            Step::Send { client, bytes } if self.lives(client) => self.send(client, bytes),
            Step::Read { client, bytes } if self.lives(client) => self.read(client, bytes),
            Step::Die { client, how } if self.lives(client) => self.die(client, how),
            _ => {}
        }
    }

    fn lives(&self, client: usize) -> bool {
        self.clients[client].is_alive
    }

    fn begin(&mut self, client: usize, act: Act) -> usize {
        // A death has no time of sending: it counts before the messages of its turn.
        let is_known = self.clients[client].plan.clock_is_known && !matches!(act, Act::Die);
        let begun = if is_known { self.history.events.len() } else { self.turns[0] };
        let number = self.history.operations.len();
        self.history.say(format_args!("client {client}: {number}: {act:?}"));
        self.history.operations.push(Operation { client, act, begun, is_sent: false });
        number
    }

    fn say(&mut self, client: usize, message: &ToDaemon, operation: Option<usize>) {
        self.clients[client].say(message, operation);
        if !self.clients[client].plan.in_pieces {
            self.send(client, usize::MAX);
        }
    }

    pub(super) fn send(&mut self, client: usize, bytes: usize) {
        for sent in self.clients[client].send(bytes) {
            let operation = &mut self.history.operations[sent];
            operation.is_sent = true;
            if let Act::Finish { .. } | Act::EndAgent { .. } = operation.act {
                self.history.events.push(Event::Complete(sent));
            }
            self.history.say(format_args!("client {client}: {sent} is sent"));
        }
    }

    fn request(&mut self, client: usize, place: usize, name: usize, kind: RequestKind) {
        let (agent, number, opens) = self.clients[client].agent(place, self.agents);
        if let Some(opens) = opens {
            self.agents += 1;
            self.say(client, &opens, None);
        }
        let request = self.begin(client, Act::Request { agent: number, name, kind });
        self.clients[client].open.push(Open { request, agent: number, is_held: false });
        let id = request_id(request);
        let name = name_of(name).parse().expect("a name");
        let message = ToDaemon::Request { agent, request: id, name, kind, slot: None };
        self.say(client, &message, Some(request));
    }

    pub(super) fn finish(&mut self, client: usize, place: usize) {
        let open = &mut self.clients[client].open;
        if open.is_empty() {
            return;
        }
        let Open { request, .. } = open.remove(place % open.len());
        let finish = self.begin(client, Act::Finish { request });
        self.say(client, &ToDaemon::Finish { request: request_id(request) }, Some(finish));
    }

    fn end_agent(&mut self, client: usize, place: usize, message: impl Fn(u32) -> ToDaemon) {
        let Some((agent, number)) = self.clients[client].forget_agent(place) else { return };
        let end = self.begin(client, Act::EndAgent { agent: number });
        self.say(client, &message(agent), Some(end));
    }

    pub(super) fn read(&mut self, client: usize, bytes: usize) {
        for message in self.clients[client].read(bytes) {
            let open = &mut self.clients[client].open;
            match message {
                FromDaemon::Granted { request, .. } => {
                    let of = open.iter_mut().find(|open| open.request == operation(request));
                    if let Some(open) = of {
                        open.is_held = true;
                    }
                }
                FromDaemon::Unavailable { request }
                | FromDaemon::Failed { request, .. }
                | FromDaemon::Lost { request, .. } => {
                    open.retain(|open| open.request != operation(request));
                }
                _ => {}
            }
        }
    }

    fn die(&mut self, client: usize, how: Death) {
        let death = self.begin(client, Act::Die);
        self.history.say(format_args!("client {client} has died: {how}"));
        self.history.operations[death].is_sent = true;
        self.history.events.push(Event::Complete(death));
        let client = &mut self.clients[client];
        client.is_alive = false;
        client.open.clear();
        client.has_ended = !matches!(how, Death::Process);
        client.has_news |= client.has_ended;
        client.process_has_ended = !matches!(how, Death::Stream);
    }

    /// The broker has told a client this.
    fn hear(&mut self, client: usize, message: FromDaemon) {
        let is_over = |world: &Self, request| {
            !world.lives(client) || world.clients[client].has_finished(operation(request))
        };
        let event = match message {
            FromDaemon::Granted { request, token, .. } if !is_over(self, request) => {
                let request = operation(request);
                self.told.entry(request).or_default().0 = Some(token.get());
                self.fear_two_holders(request, token.get());
                Event::Granted(request, token.get())
            }
            FromDaemon::Lost { request, .. } if !is_over(self, request) => {
                self.told.entry(operation(request)).or_default().1 = true;
                Event::Lost(operation(request))
            }
            FromDaemon::Unavailable { request } if !is_over(self, request) => {
                Event::Unavailable(operation(request))
            }
            FromDaemon::Snapshot { query, held, pending, last } => {
                let parts = self.parts.entry(query).or_default();
                parts.0.extend(held.iter().map(seen));
                parts.1.extend(pending.iter().map(seen));
                if !last || !self.lives(client) {
                    return;
                }
                let (mut held, mut pending) = self.parts.remove(&query).unwrap_or_default();
                held.sort_by_key(|seen| seen.name);
                pending.sort_by_key(|seen| seen.name);
                Event::Answered(usize::try_from(query).unwrap_or(0), held, pending)
            }
            // It was granted and stolen before the client was told of either.
            FromDaemon::Failed { request, failure: Failure::Lost(Lost::Stolen) }
                if !is_over(self, request) =>
            {
                Event::Lost(operation(request))
            }
            // What it hears of a request that it has ended means nothing to it.
            FromDaemon::Granted { request, .. }
            | FromDaemon::Lost { request, .. }
            | FromDaemon::Unavailable { request }
            | FromDaemon::Failed { request, .. }
                if is_over(self, request) =>
            {
                return;
            }
            other => return self.fail(&format!("client {client} is told {other:?}")),
        };
        self.history.say(format_args!("client {client} is told: {event:?}"));
        self.history.events.push(event);
    }

    /// Whoever has this lock as well was told before that it is lost, as far as there was room. If there is no room
    /// for long, a grant may be told when the lock is stolen already.
    fn fear_two_holders(&mut self, request: usize, token: u64) {
        let was_full = self.clients[self.history.operations[request].client].was_full;
        let Act::Request { name, kind, .. } = self.history.operations[request].act else { return };
        for (client, of) in self.clients.iter().enumerate() {
            for &Open { request: other, .. } in &of.open {
                let Act::Request { name: others, kind: how, .. } =
                    self.history.operations[other].act
                else {
                    continue;
                };
                let conflicts = !(is_shared(kind) && is_shared(how));
                let holds = match self.told.get(&other) {
                    Some((Some(first), false)) => !of.is_full && (*first < token || !was_full),
                    _ => false,
                };
                if other != request && others == name && conflicts && holds {
                    self.failure = Some(format!(
                        "{request} is granted while client {client} was not told that {other} is lost"
                    ));
                }
            }
        }
    }

    fn fail(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
    }
}

impl Sockets for World {
    type Socket = SimulatedSocket;

    fn ask(&mut self, keys: &mut Vec<usize>) {
        let world = &mut *self.get();
        world.pass();
        let mut ready = Vec::new();
        for (key, client) in world.clients.iter_mut().enumerate() {
            if std::mem::take(&mut client.has_news) {
                ready.push(socket_key(key));
            }
            if std::mem::take(&mut client.process_has_ended) {
                ready.push(process_key(key));
            }
        }
        while !ready.is_empty() {
            let next = world.random.below(ready.len());
            keys.push(ready.swap_remove(next));
        }
    }

    fn await_room(&self, socket: &SimulatedSocket, _: usize, awaits: bool) {
        let client = &mut self.get().clients[socket.client];
        client.awaits_room = awaits;
        // As with epoll, what there is already is told as well.
        client.has_news |= awaits && client.unread.len() < client.plan.room;
    }

    fn leave(&self, socket: &SimulatedSocket, _: usize) {
        let world = &mut *self.get();
        if world.lives(socket.client) {
            world.fail(&format!("the broker hangs up on client {}", socket.client));
        }
        let client = &mut world.clients[socket.client];
        (client.has_news, client.process_has_ended) = (false, false);
    }

    fn await_end(&self, _: &Process, _: usize) {}

    fn leave_process(&self, _: &Process, _: usize) {}
}

impl SimulatedSocket {
    /// What the system does to any call.
    fn call(&self) -> io::Result<RefMut<'_, Inner>> {
        let mut world = self.world.get();
        world.pass();
        if world.interrupts && world.random.one_in(8) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(world)
    }
}

impl Socket for SimulatedSocket {
    fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut world = self.call()?;
        let client = &mut world.clients[self.client];
        let bytes = client.sent_and_unread.len().min(into.capacity() - into.len());
        if bytes == 0 && !client.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        into.extend_from_slice(&client.sent_and_unread.split_to(bytes));
        Ok(bytes)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.call()?;
        let client = &mut world.clients[self.client];
        if client.has_ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = client.plan.room.saturating_sub(client.unread.len()).min(bytes.len());
        client.is_full = room == 0;
        client.was_full |= room == 0;
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for message in client.take(&bytes[..room]) {
            world.hear(self.client, message);
        }
        Ok(room)
    }

    fn shut_down(&self) {
        let client = &mut self.world.get().clients[self.client];
        client.has_ended = true;
        client.has_news = true;
    }
}
