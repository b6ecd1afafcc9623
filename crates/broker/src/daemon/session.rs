//! A session: one connection, and the agents of the client at its other end.
//!
//! A session is one task that never waits in the middle of anything. It reads all messages that
//! have come, sends all that it has to say, and sleeps until there is more. If a client does not
//! read, and [`HIGH_WATER`] bytes wait for it, its own messages are not read either. So such a
//! client costs the daemon a bounded amount of memory, and other clients nothing.

mod admission;
mod messages;
mod queries;

use std::{
    future::{Future, poll_fn},
    io::ErrorKind,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use futures_util::{Sink, StreamExt, stream::FuturesUnordered, task::noop_waker_ref};
use navlock_core::{ResourceName, host::RequestKind};
use navlock_engine::RequestId;
use navlock_platform::socket::{AsyncStream, shut_down};
use navlock_wire::{Agent, CodecError, DaemonCodec, FromDaemon, Slot, ToDaemon};
use tokio_util::codec::Framed;

use self::messages::{asks, handle_client_message, out_of_place};
use super::{
    answers::{Parts, QueryFuture},
    client_record::outcome_message,
    connected::ConnectedClient,
    cycles::InCycle,
    outcome::Outcome,
    session_ends::End,
    shared_client::{lock, settle_for},
    state::Daemon,
    term_messages::ToldTerms,
};
use crate::LOGS;

/// While this many bytes wait to be sent, no more messages are read.
const HIGH_WATER: usize = 256 << 10;

/// How many messages are read before the other sessions have their turn.
const TURN: usize = 128;

/// The state of one session.
pub(super) struct Session {
    stream: Stream,
    connected: ConnectedClient,
    daemon: Arc<Daemon>,
    /// What the client was told of its terms; `None` if locks do not end by themselves.
    terms: Option<ToldTerms>,
    queries: FuturesUnordered<QueryFuture>,
    /// Answers that are being sent in parts. No further message is read before they are sent.
    answers: Vec<Parts>,
    /// Whether nothing can be sent any more, or nobody would read it. A client that was killed may
    /// have sent messages before its end. These are still read, because one of them may tell which
    /// process the client's command is.
    is_mute: bool,
}

pub(super) type Stream = Framed<AsyncStream, DaemonCodec>;

impl Session {
    pub(super) fn new(stream: Stream, connected: ConnectedClient, daemon: Arc<Daemon>) -> Self {
        let terms = daemon.user_agent().is_leased().then(|| ToldTerms::new(connected.leases()));
        let (queries, answers) = (FuturesUnordered::new(), Vec::new());
        Self { stream, connected, daemon, terms, queries, answers, is_mute: false }
    }

    /// Serves the client until it has gone. When the client's process has `ended`, only the
    /// messages that it had sent before are read. Returns the client with its locks, and why the
    /// session has ended.
    pub(super) async fn serve(mut self, ended: impl Future<Output = ()>) -> (ConnectedClient, End) {
        let (mut ended, mut has_died) = (pin!(ended), false);
        let end = poll_fn(|context| {
            if !self.is_mute && ended.as_mut().poll(context).is_ready() {
                has_died = true;
                self.fall_silent();
            }
            self.poll_turn(context)
        })
        .await;
        let end = match end {
            // The stream may end in the middle of a message if the client was killed.
            End::Gone | End::Stream(_) if has_died => End::Died,
            end => end,
        };
        (self.connected, end)
    }

    /// One turn: reads and sends what there is. Ready when the session has ended.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<End> {
        match self.turn(context) {
            Ok(More::Later) => Poll::Pending,
            Ok(More::Now) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(end) => Poll::Ready(end),
        }
    }

    /// Reads messages and sends what there is to say. An error is the end of the session.
    fn turn(&mut self, context: &mut Context<'_>) -> Result<More, End> {
        let mut more = More::Now;
        for _ in 0..TURN {
            if !self.has_room() || !self.answers.is_empty() {
                break;
            }
            match self.stream.poll_next_unpin(context) {
                Poll::Ready(Some(message)) => {
                    self.handle_message(message.map_err(End::from)?.message)?
                }
                Poll::Ready(None) => return Err(End::Gone),
                Poll::Pending => {
                    more = More::Later;
                    break;
                }
            }
        }
        if self.is_mute {
            return Ok(more);
        }
        // Losses are told first, because a new term does not apply to locks that were lost before
        // it began.
        self.say_outcomes(context)?;
        if let Some(terms) = &mut self.terms {
            if terms.poll_look(context).is_ready() {
                say_terms(&mut self.stream, terms, &self.connected)?;
            }
        }
        // FAST: to poll an empty set takes time as well.
        while !self.queries.is_empty() {
            let Poll::Ready(Some(answered)) = self.queries.poll_next_unpin(context) else {
                break;
            };
            self.answer(answered)?;
        }
        self.send(context)?;
        // While a client does not read, its messages are not read. When it reads, the stream
        // becomes writable, which wakes us.
        let stuck = !self.has_room() || !self.answers.is_empty();
        Ok(if stuck { More::Later } else { more })
    }

    /// Tells the client the outcomes of its requests and locks, even if there is no room, because
    /// there are no more outcomes than requests.
    fn say_outcomes(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        let is_in_cycle = loop {
            let mut client = lock(&self.connected.client);
            let outcome = client.poll_outcome(context);
            let Poll::Ready((request, outcome)) = outcome else { break client.is_in_cycle() };
            drop(client);
            self.say_outcome(request, outcome)?;
        };
        // The texts about cycles are long, and nobody waits for them. So they are sent only as far
        // as there is room.
        while is_in_cycle && self.has_room() {
            let next = lock(&self.connected.client).next_in_cycle();
            let Some((request, InCycle { told, gives_way })) = next else { break };
            let told = told.as_ref().to_owned();
            self.say(&FromDaemon::Deadlock { request, told, gives_way })?;
        }
        Ok(())
    }

    /// Tells the client the outcome of a request. If this is the grant of a lock that ends by
    /// itself, the term of the lock is told first.
    fn say_outcome(&mut self, request: RequestId, outcome: Outcome) -> Result<(), End> {
        tracing::trace!(target: LOGS, request = request.serial(), ?outcome, "a client is told");
        if let (Some(terms), Outcome::Granted(_, false)) = (&mut self.terms, &outcome) {
            let term = terms.before_grant(&lock(&self.connected.client), request);
            if let Some(said) = term {
                self.say(&said)?;
            }
        }
        self.say(&outcome_message(request, outcome))
    }

    /// Sends what is waiting, as far as the client reads it. Parts of answers follow.
    fn send(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        loop {
            while self.has_room() {
                let Some(answer) = self.answers.last_mut() else {
                    break;
                };
                let (part, last) = answer.next_part();
                if last {
                    self.answers.pop();
                }
                self.say(&part)?;
            }
            match flush(&mut self.stream, context) {
                Poll::Ready(Ok(())) if self.answers.is_empty() => return Ok(()),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.fall_silent();
                    return Ok(());
                }
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// From now on nothing is sent. The messages that the client had sent before are read, and then
    /// the end of the stream ends the session. If the client lives after all, it connects anew.
    fn fall_silent(&mut self) {
        self.is_mute = true;
        // This must be done before the client can come back on another connection, because the
        // client's file then belongs to that connection.
        if !lock(&self.connected.client).has_ended() {
            self.connected.give_up();
        }
        shut_down(self.stream.get_ref());
        self.stream.write_buffer_mut().clear();
        self.answers.clear();
        self.queries.clear();
    }

    fn has_room(&self) -> bool {
        has_room(&self.stream)
    }

    /// Queues a message for sending, if there is anybody to read it.
    fn say(&mut self, message: &FromDaemon) -> Result<(), End> {
        if self.is_mute { Ok(()) } else { say(&mut self.stream, message) }
    }

    /// Does what a message of the client asks for. An error is the end of the session.
    fn handle_message(&mut self, message: ToDaemon) -> Result<(), End> {
        if self.is_mute && asks(&message) {
            // Nobody would read the answer. If the client lives, it asks again on another
            // connection.
            return Ok(());
        }
        match message {
            ToDaemon::Request { agent, request, name, kind, slot } => {
                self.request(agent, request, name, kind, slot)
            }
            ToDaemon::Map { nonce } => self.map(nonce),
            ToDaemon::Query { .. } | ToDaemon::Inspect { .. } | ToDaemon::Position { .. } => {
                self.handle_query(message)
            }
            ToDaemon::Status { query } => {
                let status = self.daemon.status();
                self.say(&FromDaemon::Status { query, status })
            }
            ToDaemon::CloseAgent { agent } => {
                lock(&self.connected.client).close_agent(agent)?;
                if let Some(terms) = &mut self.terms {
                    terms.forget(agent);
                }
                Ok(())
            }
            message => handle_client_message(&mut lock(&self.connected.client), message),
        }
    }

    /// Shares memory with the client, which has no shared memory yet, and sends what the client
    /// needs for that.
    fn map(&mut self, nonce: u64) -> Result<(), End> {
        if lock(&self.connected.client).has_map() {
            return Err(out_of_place());
        }
        match self.connected.map(nonce) {
            Some(mapped) => self.say(&mapped),
            None => Ok(()),
        }
    }

    /// Makes a request for a lock, and tells the client its outcome if that is known at once.
    fn request(
        &mut self,
        agent: Agent,
        request: RequestId,
        name: ResourceName,
        kind: RequestKind,
        slot: Option<Slot>,
    ) -> Result<(), End> {
        let client = &self.connected.client;
        tracing::trace!(target: LOGS, request = request.serial(), ?name, ?kind, "a client asks");
        settle_for(self.daemon.delegations(), client, agent, &name, kind);
        let outcome = lock(client).request(agent, request, name, kind, slot)?;
        let Some(outcome) = outcome else { return Ok(()) };
        if kind.steals() {
            // The victims of the theft are told first, because they may belong to this client as
            // well. This needs no waker: outcomes are polled again at the end of the turn.
            self.say_outcomes(&mut Context::from_waker(noop_waker_ref()))?;
        }
        self.say_outcome(request, outcome)
    }
}

fn has_room(stream: &Stream) -> bool {
    stream.write_buffer().len() < HIGH_WATER
}

fn say(stream: &mut Stream, message: &FromDaemon) -> Result<(), End> {
    Pin::new(stream).start_send(message).map_err(End::from)
}

/// Sends the terms that have changed, if there is room; otherwise later.
fn say_terms(
    stream: &mut Stream,
    terms: &mut ToldTerms,
    connected: &ConnectedClient,
) -> Result<(), End> {
    if has_room(stream) {
        let news = terms.news(&lock(&connected.client));
        news.iter().try_for_each(|term| say(stream, term))?;
    }
    Ok(())
}

/// Sends what is waiting. Pending while the client does not read all of it.
///
/// FAST: `Framed` would gather one buffer with `writev`, which costs more than to send it.
pub(super) fn flush(
    stream: &mut Stream,
    context: &mut Context<'_>,
) -> Poll<Result<(), CodecError>> {
    while !stream.write_buffer().is_empty() {
        match stream.get_ref().try_write(stream.write_buffer()) {
            Ok(sent) => stream.write_buffer_mut().advance(sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                ready!(stream.get_ref().poll_write_ready(context))?;
            }
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
    Poll::Ready(Ok(()))
}

/// Whether the session may have more to do at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Now,
    Later,
}
