//! The clients of a history and what is between them and the broker: sockets, processes, time.

use std::{
    cell::{RefCell, RefMut},
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    rc::Rc,
};

use navlock_core::{
    Lost,
    host::{Backend, RequestKind},
};
use navlock_wire::{Failure, FromDaemon, ToDaemon};

use super::{
    client::{Client, Link, Open},
    history::{Act, Event, History, Operation, Seen, is_shared, seen},
    plan::{Plan, Random, Step},
};
use crate::{Place, client::simulated::SimulatedClient, clock};

/// The world as the broker sees it: all sockets.
#[derive(Clone)]
pub(super) struct World(Rc<RefCell<Inner>>);

#[expect(clippy::struct_excessive_bools, reason = "they are all independent of each other")]
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
    /// Requests that were claimed.
    anew: BTreeSet<usize>,
    /// Whether clients own names, and whether they do something before their claims are settled.
    pub(super) maps: bool,
    is_hasty: bool,
    /// Whether there is a broker, and whether it was killed and does nothing any more.
    pub(super) has_broker: bool,
    pub(super) is_killed: bool,
    /// The questions, each with its client and number there, and the parts of answers.
    questions: BTreeMap<(usize, u64), usize>,
    pub(super) parts: BTreeMap<usize, (Vec<Seen>, Vec<Seen>)>,
    /// How many agents there were.
    pub(super) agents: usize,
    /// How many events there were when the last turns began. Whatever was sent before the first of them was acted on
    /// before the second was over.
    pub(super) turns: [usize; 2],
    /// Whether the last turn may have acted on one message alone, and left others that were sent before it.
    pub(super) lags: bool,
    pub(super) failure: Option<String>,
}

impl World {
    pub(super) fn new(plan: &Plan, place: &Place) -> Self {
        let clients = plan.clients.iter().enumerate();
        let clients = clients.map(|(number, of)| Client::new(number, *of, plan, place));
        Self(Rc::new(RefCell::new(Inner {
            random: Random::new(plan.seed),
            interrupts: plan.interrupts,
            steps: plan.steps.iter().copied().collect(),
            meanwhile: 0,
            clients: clients.collect(),
            history: History::default(),
            told: BTreeMap::new(),
            anew: BTreeSet::new(),
            maps: plan.maps,
            is_hasty: plan.is_hasty,
            has_broker: true,
            is_killed: false,
            questions: BTreeMap::new(),
            parts: BTreeMap::new(),
            agents: 0,
            turns: [0; 2],
            lags: false,
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

    /// The request of this place is claimed: for the next broker it is made anew.
    pub(super) fn make_anew(&mut self, client: usize, place: usize) -> usize {
        let Open { request, ticket, .. } = self.clients[client].open[place];
        let of = self.history.operations[request].clone();
        let anew = self.begin(client, of.act);
        // It counts from when it was made first, or from the death of the broker that may have known it.
        let left_at = self.clients[client].left_at;
        let begun = &mut self.history.operations[anew].begun;
        *begun = (*begun).min(of.begun.max(left_at));
        let of = &mut self.clients[client];
        of.open[place].request = anew;
        let serial = of.with(|real| real.backend().serial(ticket));
        of.by_serial.insert(serial, anew);
        self.anew.insert(anew);
        anew
    }

    pub(super) fn begin_turn(&mut self) {
        let first = usize::from(!mem::take(&mut self.lags));
        self.turns = [self.turns[first], self.history.events.len()];
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
            Step::FinishLast { client } if self.acts(client) => {
                let last = self.clients[client].open.len().saturating_sub(1);
                self.finish(client, last);
            }
            Step::Terminate { client, agent } if self.acts(client) => {
                self.end_agent(client, agent, |real, agent| real.backend().terminate(agent));
            }
            Step::CloseAgent { client, agent } if self.acts(client) => {
                self.end_agent(client, agent, |real, agent| real.backend().close_agent(agent));
            }
            Step::Query { client } if self.acts(client) && self.clients[client].has_link() => {
                let question = self.begin(client, Act::Query);
                let query = self.act(client, &[question], |real| {
                    real.ask(|query| ToDaemon::Query { query, bucket: "bucket".into() })
                });
                self.questions.insert((client, query), question);
                self.clients[client].asks += 1;
            }
            Step::Send { client, bytes } if self.runs(client) => self.send(client, bytes),
            Step::Read { client, bytes } if self.runs(client) => self.read(client, bytes),
            Step::Die { client, how } if self.lives(client) => self.die(client, how),
            Step::Kill if self.has_broker => {
                (self.is_killed, self.meanwhile) = (true, 0);
            }
            Step::Return { client } if self.runs(client) => self.come_back(client),
            Step::Break { client } if self.clients[client].session.is_some() => {
                self.break_off(client);
            }
            Step::Stop { client } => self.clients[client].is_stopped = true,
            Step::Continue { client } => self.clients[client].is_stopped = false,
            _ => {}
        }
    }

    pub(super) fn lives(&self, client: usize) -> bool {
        self.clients[client].lives()
    }

    /// Whether it lives and is not stopped.
    pub(super) fn runs(&self, client: usize) -> bool {
        self.lives(client) && !self.clients[client].is_stopped
    }

    /// Whether it does anything. A client that has come back mostly does nothing until all claims are settled.
    /// Whoever ends something goes on when that is sent, and whoever asks a question or
    /// robs somebody when that is answered.
    pub(super) fn acts(&self, client: usize) -> bool {
        let of = &self.clients[client];
        let ends = |act: &Act| matches!(act, Act::Finish { .. } | Act::EndAgent { .. });
        let ends = |&(_, operation): &(usize, usize)| ends(&self.history.operations[operation].act);
        // A word that is released after a theft was sent counts at once, so the theft may rob whoever has the lock by then.
        let act = |open: &Open| &self.history.operations[open.request].act;
        let is_theft =
            |open: &&Open| matches!(act(open), Act::Request { kind: RequestKind::Steal, .. });
        let robs = || of.open.iter().filter(is_theft).any(|open| !open.is_held);
        let waits = self.maps && (of.asks > 0 || of.ends.iter().any(ends) || robs());
        self.runs(client) && (self.is_hasty || of.link != Link::Coming) && !waits
    }

    pub(super) fn begin(&mut self, client: usize, act: Act) -> usize {
        // A death has no time of sending: it counts before the messages of its turn.
        let is_known = self.clients[client].plan.clock_is_known && !matches!(act, Act::Die);
        let begun = if matches!(act, Act::Lose { .. }) {
            self.clients[client].left_at
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
            is_taken: false,
            may_fail: false,
        });
        number
    }

    /// The client does something, which is these operations, or a part of one.
    pub(super) fn act<T>(
        &mut self,
        client: usize,
        operations: &[usize],
        act: impl FnOnce(&SimulatedClient) -> T,
    ) -> T {
        let of = &mut self.clients[client];
        let done = of.with(act);
        if of.has_said() {
            let end = of.unsent.len();
            of.ends.extend(operations.iter().map(|operation| (end, *operation)));
            if !of.plan.in_pieces {
                self.send(client, usize::MAX);
            }
        } else {
            // Nobody has to be told, or the next broker hears of what is left then. What has ended is over.
            for operation in operations {
                self.complete(*operation);
            }
        }
        done
    }

    pub(super) fn send(&mut self, client: usize, bytes: usize) {
        for sent in self.clients[client].send(bytes) {
            self.history.operations[sent].is_sent = true;
            if self.clients[client].link == Link::Coming {
                self.clients[client].late.push(sent);
            } else {
                self.complete(sent);
            }
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

    /// The broker has told a client this.
    pub(super) fn hear(&mut self, client: usize, message: FromDaemon) {
        let of = &self.clients[client];
        let about = match message {
            FromDaemon::Granted { request, .. }
            | FromDaemon::Lost { request, .. }
            | FromDaemon::Unavailable { request }
            | FromDaemon::Failed { request, .. } => of.by_serial.get(&request.serial()).copied(),
            _ => None,
        };
        // What it hears of a request that it has ended means nothing to it.
        let about = about.filter(|request| self.lives(client) && !of.has_finished(*request));
        let event = match (message, about) {
            (FromDaemon::Granted { token, .. }, Some(request)) => {
                self.told.entry(request).or_default().0 = Some(token.get());
                self.fear_two_holders(request, token.get());
                Event::Granted(request, token.get())
            }
            (FromDaemon::Lost { how: (Lost::Disconnected, _), .. }, Some(request)) => {
                if self.clients[client].is_in_time {
                    self.fail(&format!("{request} is lost, though its client came back in time"));
                }
                return self.lose(client, request);
            }
            (FromDaemon::Lost { .. }, Some(request)) => {
                self.told.entry(request).or_default().1 = true;
                Event::Lost(request)
            }
            (FromDaemon::Unavailable { .. }, Some(request)) => Event::Unavailable(request),
            (FromDaemon::Snapshot { query, held, pending, last }, _) => {
                let Some(&question) = self.questions.get(&(client, query)) else { return };
                let parts = self.parts.entry(question).or_default();
                parts.0.extend(held.iter().map(seen));
                parts.1.extend(pending.iter().map(seen));
                if !last || !self.lives(client) {
                    return;
                }
                self.clients[client].asks -= 1;
                let (mut held, mut pending) = self.parts.remove(&question).unwrap_or_default();
                held.sort_by_key(|seen| seen.name);
                pending.sort_by_key(|seen| seen.name);
                Event::Answered(question, held, pending)
            }
            // It was granted and stolen before the client was told of either.
            (FromDaemon::Failed { failure: Failure::Lost(Lost::Stolen), .. }, Some(request)) => {
                Event::Lost(request)
            }
            (FromDaemon::Settled | FromDaemon::Mapped { .. }, _)
            | (
                FromDaemon::Granted { .. }
                | FromDaemon::Lost { .. }
                | FromDaemon::Unavailable { .. }
                | FromDaemon::Failed { .. },
                None,
            ) => return,
            (other, _) => return self.fail(&format!("client {client} is told {other:?}")),
        };
        self.history.say(format_args!("client {client} is told: {event:?}"));
        self.history.events.push(event);
    }

    /// Whoever has this lock as well was told before that it is lost, as far as there was room. If there is no room
    /// for long, a grant may be told when the lock is stolen already. So it may if the theft is claimed, because those
    /// who come back are told at once.
    pub(super) fn fear_two_holders(&mut self, request: usize, token: u64) {
        let was_full = self.clients[self.history.operations[request].client].was_full;
        let Act::Request { name, kind, .. } = self.history.operations[request].act else { return };
        if self.has_claimed_theft(name) {
            return;
        }
        for (client, of) in self.clients.iter().enumerate() {
            for &Open { request: other, ticket, .. } in &of.open {
                let Act::Request { name: others, kind: how, .. } =
                    self.history.operations[other].act
                else {
                    continue;
                };
                let conflicts = !(is_shared(kind) && is_shared(how));
                let is_late = || was_full || self.anew.contains(&request);
                let holds = match self.told.get(&other) {
                    Some((Some(first), false)) => !of.is_full && (*first < token || !is_late()),
                    _ => false,
                };
                let would_lose = || of.real.as_ref().is_none_or(|real| real.would_lose(ticket));
                if other != request && others == name && conflicts && holds && !would_lose() {
                    self.failure = Some(format!(
                        "{request} is granted while client {client} was not told that {other} is lost"
                    ));
                }
            }
        }
    }

    /// Whether a theft of this name was claimed. Whoever is granted the lock after that may be told before its victims.
    fn has_claimed_theft(&self, name: usize) -> bool {
        let mut acts = self.anew.iter().map(|anew| &self.history.operations[*anew].act);
        acts.any(|act| {
            matches!(act, Act::Request { name: of, kind: RequestKind::Steal, .. } if *of == name)
        })
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
    }
}
