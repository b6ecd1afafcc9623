//! What clients do, and what becomes of their requests.

use std::task::{Poll, Waker};

use navlock_core::{
    ClientId, Error, Lost, Mode, ResourceName,
    host::{Answer, Backend, RequestDetails, RequestKind, Ticket},
};
use navlock_engine::AgentId;

use super::{
    client::Open,
    history::{Act, Event, name_of},
    plan::Death,
    world::Inner,
};
use crate::client::simulated::SimulatedClient;

impl Inner {
    /// Before the history begins, a client opens an agent that has no part in it.
    pub(super) fn open_early(&mut self, client: usize) -> AgentId {
        let id = ClientId::from_bytes([u8::try_from(client).unwrap_or(0); 16]);
        self.act(client, &[], |real| real.backend().open_agent(id))
    }

    /// The agent asks for a lock that nobody else wants.
    pub(super) fn ask_early(&mut self, client: usize, agent: AgentId) -> Ticket {
        let name = format!("early {client}").parse().expect("a name");
        let kind = RequestKind::Wait(Mode::Exclusive);
        let asked = self.act(client, &[], |real| {
            let (ticket, _) = ask(real, agent, &name, kind)?;
            real.backend().made(ticket);
            Ok::<_, Error>(ticket)
        });
        self.send(client, usize::MAX);
        asked.expect("everybody may ask")
    }

    /// If the lock is granted, it is released. Returns whether it is.
    pub(super) fn has_early(&mut self, client: usize, ticket: Ticket) -> bool {
        self.read(client, usize::MAX);
        let is_granted = self.act(client, &[], |real| {
            let is_granted = real.backend().poll_request(ticket, Waker::noop()).is_ready();
            if is_granted {
                real.backend().finish(ticket);
            }
            is_granted
        });
        self.send(client, usize::MAX);
        is_granted
    }

    /// If the client can own names, the agent ends. Returns whether it can.
    pub(super) fn ends_early(&mut self, client: usize, agent: AgentId) -> bool {
        self.read(client, usize::MAX);
        let has_map = self.act(client, &[], |real| {
            if real.can_own() {
                real.backend().close_agent(agent);
            }
            real.can_own()
        });
        self.send(client, usize::MAX);
        has_map
    }

    pub(super) fn request(&mut self, client: usize, place: usize, name: usize, kind: RequestKind) {
        let new = self.agents;
        let (agent, number) = self.clients[client].agent(place, new);
        self.agents += usize::from(number == new);
        self.act(client, &[], |_| ());
        let request = self.begin(client, Act::Request { agent: number, name, kind });
        let name = name_of(name).parse().expect("a name");
        let made = self.act(client, &[request], |real| {
            let made = ask(real, agent, &name, kind)?;
            if made.1.is_pending() {
                real.backend().made(made.0);
            }
            Ok::<_, Error>((made, real.backend().serial(made.0)))
        });
        let ((ticket, answer), serial) = match made {
            Ok(made) => made,
            Err(error) => return self.fail(&format!("{request} is refused: {error}")),
        };
        self.clients[client].by_serial.insert(serial, request);
        let is_held = answer.is_ready();
        self.clients[client].open.push(Open { request, ticket, agent: number, is_held });
        if let Poll::Ready(Answer::Granted(token)) = answer {
            let operation = &mut self.history.operations[request];
            (operation.is_sent, operation.is_taken) = (true, true);
            self.told.entry(request).or_default().0 = Some(token.get());
            self.fear_two_holders(request, token.get());
            self.history.say(format_args!("client {client} takes {request} itself: {token:?}"));
            self.history.events.push(Event::Granted(request, token.get()));
        }
    }

    pub(super) fn finish(&mut self, client: usize, place: usize) {
        let open = &mut self.clients[client].open;
        let Some(place) = place.checked_rem(open.len()) else { return };
        let Open { request, ticket, .. } = open.remove(place);
        self.lose_if_given_up(client, request);
        let finish = self.begin(client, Act::Finish { request });
        self.releases(client, ticket, finish);
        self.act(client, &[finish], |real| real.backend().finish(ticket));
    }

    /// Whoever was given up has lost this lock, though nobody has looked.
    fn lose_if_given_up(&mut self, client: usize, request: usize) {
        let is_told = self.told.get(&request).is_some_and(|(token, lost)| token.is_some() && !lost);
        if is_told && self.clients[client].with(SimulatedClient::is_given_up) {
            self.lose(client, request);
        }
    }

    /// If the lock stands in a word, that says that it is released before a message does.
    fn releases(&mut self, client: usize, ticket: Ticket, finish: usize) {
        let is_in_map = self.clients[client].with(|real| real.is_in_map(ticket));
        let finish = &mut self.history.operations[finish];
        (finish.is_sent, finish.is_taken) = (is_in_map, is_in_map);
        if is_in_map {
            // It counts before what was sent earlier and is not acted on.
            finish.begun = finish.begun.min(self.turns[0]);
        }
    }

    pub(super) fn end_agent(
        &mut self,
        client: usize,
        place: usize,
        end: impl FnOnce(&SimulatedClient, AgentId),
    ) {
        let of = &self.clients[client];
        let Some((_, number)) = of.agents[place] else { return };
        // What stands in words ends before the rest.
        let theirs = of.open.iter().filter(|open| self.maps && open.agent == number);
        let theirs: Vec<_> = theirs.copied().collect();
        let mut ends = Vec::new();
        for Open { request, ticket, .. } in theirs {
            self.lose_if_given_up(client, request);
            let finish = self.begin(client, Act::Finish { request });
            self.releases(client, ticket, finish);
            ends.push(finish);
        }
        let Some((agent, number)) = self.clients[client].forget_agent(place) else { return };
        ends.push(self.begin(client, Act::EndAgent { agent: number }));
        self.act(client, &ends, |real| end(real, agent));
    }

    /// The client reads so many bytes, and notices what has become of its requests.
    pub(super) fn read(&mut self, client: usize, bytes: usize) {
        self.clients[client].deliver(bytes);
        self.act(client, &[], SimulatedClient::read);
        let of = &mut self.clients[client];
        of.is_late = false;
        if std::mem::take(&mut of.is_cut_off) {
            self.act(client, &[], SimulatedClient::notice_end);
        }
        self.look_at_open(client);
    }

    /// The program asks what has become of its requests and locks.
    pub(super) fn look_at_open(&mut self, client: usize) {
        for Open { request, ticket, is_held, .. } in self.clients[client].open.clone() {
            let outcome = self.act(client, &[], |real| {
                if is_held {
                    return real.backend().lost(ticket).map(Err);
                }
                match real.backend().poll_request(ticket, Waker::noop()) {
                    Poll::Pending => None,
                    Poll::Ready(Ok(answer)) => Some(Ok(answer)),
                    Poll::Ready(Err(error)) => {
                        real.backend().finish(ticket);
                        Some(Err(match error {
                            Error::Lost(lost) => lost,
                            _ => Lost::Terminated,
                        }))
                    }
                }
            });
            let open = &mut self.clients[client].open;
            let place = open.iter().position(|open| open.request == request);
            let (Some(outcome), Some(place)) = (outcome, place) else { continue };
            if matches!(outcome, Ok(Answer::Granted(_))) {
                open[place].is_held = true;
                continue;
            }
            open.remove(place);
            let Err(lost) = outcome else { continue };
            self.act(client, &[], |real| real.backend().finish(ticket));
            if self.told.get(&request).is_some_and(|(_, is_lost)| *is_lost) {
                continue;
            }
            match lost {
                Lost::Stolen => {
                    self.told.entry(request).or_default().1 = true;
                    self.history.say(format_args!("client {client} sees that {request} is stolen"));
                    self.history.events.push(Event::Lost(request));
                }
                Lost::Disconnected
                    if !self.clients[client].has_link() || !self.clients[client].is_in_time =>
                {
                    self.lose(client, request);
                }
                lost => self.fail(&format!("client {client} has lost {request}: {lost}")),
            }
        }
    }

    pub(super) fn die(&mut self, client: usize, how: Death) {
        for Open { request, .. } in self.clients[client].open.clone() {
            self.lose_if_given_up(client, request);
        }
        let death = self.begin(client, Act::Die);
        self.come_first(client);
        self.may_fail(client);
        self.history.say(format_args!("client {client} has died: {how}"));
        self.history.operations[death].is_sent = true;
        self.history.events.push(Event::Complete(death));
        let client = &mut self.clients[client];
        client.real.take().into_iter().for_each(SimulatedClient::die);
        client.open.clear();
        client.has_ended |= !matches!(how, Death::Process);
        client.has_news |= client.has_ended;
        client.process_has_ended = !matches!(how, Death::Stream);
    }
}

fn ask(
    real: &SimulatedClient,
    agent: AgentId,
    name: &ResourceName,
    kind: RequestKind,
) -> Result<(Ticket, Poll<Answer>), Error> {
    real.backend().request(agent, name, kind, RequestDetails::default(), Waker::noop())
}
