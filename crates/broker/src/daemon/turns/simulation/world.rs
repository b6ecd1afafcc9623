//! The clients of a history and what is between them and the broker: sockets, processes, time.

use std::{
    cell::{RefCell, RefMut},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use navlock_core::{Lost, host::RequestKind};
use navlock_engine::RequestId;
use navlock_wire::{Failure, FromDaemon, ToDaemon};

use super::{
    client::{Client, Link, Open, operation, request_id},
    history::{Act, Event, History, Operation, Seen, is_shared, name_of, seen},
    plan::{Death, Plan, Random, Step},
};
use crate::clock;

/// The world as the broker sees it: all sockets.
#[derive(Clone)]
pub(super) struct World(Rc<RefCell<Inner>>);

pub(super) struct Inner {
    pub(super) random: Random,
    pub(super) interrupts: bool,
    pub(super) steps: VecDeque<Step>,
    /// How many steps may be taken in the middle of this turn.
    pub(super) meanwhile: usize,
    pub(super) clients: Vec<Client>,
    pub(super) history: History,
    /// What was told of requests: the token, and whether it is lost.
    pub(super) told: BTreeMap<usize, (Option<u64>, bool)>,
    /// Requests that were made anew with the next broker: what they are now.
    anew: BTreeMap<usize, usize>,
    /// Whether there is a broker, and whether it was killed and does nothing any more.
    pub(super) has_broker: bool,
    pub(super) is_killed: bool,
    /// How many events there were when the last broker was killed.
    pub(super) killed_at: usize,
    /// The parts of answers.
    pub(super) parts: BTreeMap<u64, (Vec<Seen>, Vec<Seen>)>,
    /// How many agents there were.
    agents: usize,
    /// How many events there were when the last turns began.
    pub(super) turns: [usize; 2],
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
            anew: BTreeMap::new(),
            has_broker: true,
            is_killed: false,
            killed_at: 0,
            parts: BTreeMap::new(),
            agents: 0,
            turns: [0; 2],
            failure: None,
        })))
    }

    pub(super) fn get(&self) -> RefMut<'_, Inner> {
        self.0.borrow_mut()
    }
}

impl Inner {
    /// Whether some socket or process has something.
    pub(super) fn has_news(&self) -> bool {
        let mut joined = self.clients.iter().filter(|client| client.session.is_some());
        joined.any(|client| client.has_news || client.process_has_ended)
    }

    /// The operation by which this request was made the last time.
    pub(super) fn operation(&self, request: RequestId) -> usize {
        let made = operation(request);
        self.anew.get(&made).copied().unwrap_or(made)
    }

    /// The request of this place is made anew, with the next broker.
    pub(super) fn make_anew(&mut self, client: usize, place: usize) -> usize {
        let Open { request, id, .. } = self.clients[client].open[place];
        let of = self.history.operations[request].clone();
        let anew = self.begin(client, of.act);
        // It counts from when it was made first, or from the death of the broker that may have known it.
        let begun = &mut self.history.operations[anew].begun;
        *begun = (*begun).min(of.begun.max(self.killed_at));
        self.clients[client].open[place].request = anew;
        self.anew.insert(operation(id), anew);
        anew
    }

    pub(super) fn begin_turn(&mut self) {
        self.turns = [self.turns[1], self.history.events.len()];
        self.history.say(format_args!("the broker takes a turn"));
    }

    /// The broker has done something, and meanwhile others may do something.
    pub(super) fn pass(&mut self) {
        if self.random.one_in(3) {
            self.go_on();
        }
    }

    /// Others do one thing or more, as many as they may in this turn.
    pub(super) fn go_on(&mut self) {
        while self.meanwhile > 0 {
            self.meanwhile -= 1;
            if let Some(step) = self.steps.pop_front() {
                match step {
                    Step::Turn { .. } | Step::Pass { .. } => {
                        self.steps.push_front(step);
                        return;
                    }
                    step => self.take(step),
                }
            }
            if self.random.one_in(3) {
                return;
            }
        }
    }

    /// Takes this step, if it can be taken.
    pub(super) fn take(&mut self, step: Step) {
        clock::simulated::set(clock::now() + 1 + self.random.next() % 2000);
        match step {
            Step::Request { client, agent, name, kind } if self.acts(client) => {
                self.request(client, agent, name, kind);
            }
            Step::Finish { client, place } if self.acts(client) => self.finish(client, place),
            Step::Terminate { client, agent } if self.acts(client) => {
                self.end_agent(client, agent, |agent| ToDaemon::Terminate { agent });
            }
            Step::CloseAgent { client, agent } if self.acts(client) => {
                self.end_agent(client, agent, |agent| ToDaemon::CloseAgent { agent });
            }
            Step::Query { client } if self.acts(client) && self.has_link(client) => {
                let query = self.begin(client, Act::Query);
                let bucket = "bucket".into();
                self.say(client, &ToDaemon::Query { query: query as u64, bucket }, Some(query));
            }
            Step::Send { client, bytes } if self.lives(client) => self.send(client, bytes),
            Step::Read { client, bytes } if self.lives(client) => self.read(client, bytes),
            Step::Die { client, how } if self.lives(client) => self.die(client, how),
            Step::Kill if self.has_broker => {
                (self.is_killed, self.meanwhile) = (true, 0);
            }
            Step::Return { client } if self.lives(client) => self.come_back(client),
            _ => {}
        }
    }

    pub(super) fn lives(&self, client: usize) -> bool {
        self.clients[client].is_alive
    }

    /// Whether it does anything. A client that has come back does nothing until all claims are settled.
    pub(super) fn acts(&self, client: usize) -> bool {
        self.lives(client) && self.clients[client].link != Link::Coming
    }

    fn has_link(&self, client: usize) -> bool {
        self.clients[client].link != Link::Down
    }

    pub(super) fn begin(&mut self, client: usize, act: Act) -> usize {
        // A death has no time of sending: it counts before the messages of its turn.
        let is_known = self.clients[client].plan.clock_is_known && !matches!(act, Act::Die);
        let begun = if matches!(act, Act::Lose { .. }) {
            self.killed_at
        } else if is_known {
            self.history.events.len()
        } else {
            self.turns[0]
        };
        let number = self.history.operations.len();
        self.history.say(format_args!("client {client}: {number}: {act:?}"));
        self.history.operations.push(Operation {
            client,
            act,
            begun,
            is_sent: false,
            may_fail: false,
        });
        number
    }

    pub(super) fn say(&mut self, client: usize, message: &ToDaemon, operation: Option<usize>) {
        if !self.has_link(client) {
            // The next broker hears of what is left then. What has ended is over.
            if let Some(operation) = operation {
                self.complete(operation);
            }
            return;
        }
        self.clients[client].say(message, operation);
        if !self.clients[client].plan.in_pieces {
            self.send(client, usize::MAX);
        }
    }

    pub(super) fn send(&mut self, client: usize, bytes: usize) {
        for sent in self.clients[client].send(bytes) {
            self.history.operations[sent].is_sent = true;
            self.complete(sent);
            self.history.say(format_args!("client {client}: {sent} is sent"));
        }
    }

    /// If this ends something, it has done so, as far as its client knows.
    pub(super) fn complete(&mut self, operation: usize) {
        let of = &mut self.history.operations[operation];
        if let Act::Finish { .. } | Act::EndAgent { .. } | Act::Lose { .. } = of.act {
            of.is_sent = true;
            self.history.events.push(Event::Complete(operation));
        }
    }

    fn request(&mut self, client: usize, place: usize, name: usize, kind: RequestKind) {
        let (agent, number, opens) = self.clients[client].agent(place, self.agents);
        if let Some(opens) = opens {
            self.agents += 1;
            self.say(client, &opens, None);
        }
        let request = self.begin(client, Act::Request { agent: number, name, kind });
        let id = request_id(request);
        let since = self.clients[client].now();
        self.clients[client].open.push(Open { request, id, agent: number, is_held: false, since });
        let name = name_of(name).parse().expect("a name");
        let message = ToDaemon::Request { agent, request: id, name, kind, slot: None };
        self.say(client, &message, Some(request));
    }

    pub(super) fn finish(&mut self, client: usize, place: usize) {
        let open = &mut self.clients[client].open;
        if open.is_empty() {
            return;
        }
        let Open { request, id, .. } = open.remove(place % open.len());
        let finish = self.begin(client, Act::Finish { request });
        self.say(client, &ToDaemon::Finish { request: id }, Some(finish));
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
                    if let Some(open) = open.iter_mut().find(|open| open.id == request) {
                        open.is_held = true;
                    }
                }
                FromDaemon::Unavailable { request }
                | FromDaemon::Failed { request, .. }
                | FromDaemon::Lost { request, .. } => {
                    open.retain(|open| open.id != request);
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
        client.file = None;
        client.has_ended = !matches!(how, Death::Process);
        client.has_news |= client.has_ended;
        client.process_has_ended = !matches!(how, Death::Stream);
    }

    /// The broker has told a client this.
    pub(super) fn hear(&mut self, client: usize, message: FromDaemon) {
        let is_over = |world: &Self, request| {
            !world.lives(client) || world.clients[client].has_finished(request)
        };
        let event = match message {
            FromDaemon::Granted { request, token, .. } if !is_over(self, request) => {
                let request = self.operation(request);
                self.told.entry(request).or_default().0 = Some(token.get());
                self.fear_two_holders(request, token.get());
                Event::Granted(request, token.get())
            }
            FromDaemon::Lost { request, how: (Lost::Disconnected, _) }
                if !is_over(self, request) =>
            {
                let request = self.operation(request);
                if self.clients[client].is_in_time {
                    self.fail(&format!("{request} is lost, though its client came back in time"));
                }
                return self.lose(client, request);
            }
            FromDaemon::Lost { request, .. } if !is_over(self, request) => {
                let request = self.operation(request);
                self.told.entry(request).or_default().1 = true;
                Event::Lost(request)
            }
            FromDaemon::Unavailable { request } if !is_over(self, request) => {
                Event::Unavailable(self.operation(request))
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
                Event::Lost(self.operation(request))
            }
            FromDaemon::Settled => return,
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
    /// for long, a grant may be told when the lock is stolen already. So it may if the theft is claimed, because those
    /// who come back are told at once.
    fn fear_two_holders(&mut self, request: usize, token: u64) {
        let was_full = self.clients[self.history.operations[request].client].was_full;
        let Act::Request { name, kind, .. } = self.history.operations[request].act else { return };
        if self.is_claimed_theft(request) {
            return;
        }
        for (client, of) in self.clients.iter().enumerate() {
            for &Open { request: other, .. } in &of.open {
                let Act::Request { name: others, kind: how, .. } =
                    self.history.operations[other].act
                else {
                    continue;
                };
                let conflicts = !(is_shared(kind) && is_shared(how));
                let is_late = || was_full || self.anew.values().any(|anew| *anew == request);
                let holds = match self.told.get(&other) {
                    Some((Some(first), false)) => !of.is_full && (*first < token || !is_late()),
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

    fn is_claimed_theft(&self, request: usize) -> bool {
        let act = &self.history.operations[request].act;
        matches!(act, Act::Request { kind: RequestKind::Steal, .. })
            && self.anew.values().any(|anew| *anew == request)
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
    }
}
