//! A session: a connected client, from its settled claims to its end.
//!
//! A session has no socket, and never waits: it is given messages, and leaves what is to be sent. It is one of
//! those that take [turns](super::turns), and has its socket [there](super::turns).

mod admission;
mod messages;
mod queries;

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::BytesMut;
use futures_util::{StreamExt, stream::FuturesUnordered, task::noop_waker_ref};
use navlock_core::{Error, ResourceName, host::RequestKind};
use navlock_engine::RequestId;
use navlock_wire::{Agent, FromDaemon, Slot, ToDaemon, encode};

use self::messages::{asks, handle_client_message, out_of_place};
pub(super) use self::{
    admission::Admission,
    messages::{ends_something, is_question},
};
use super::{
    answers::{Parts, QueryFuture},
    connected::ConnectedClient,
    cycles::InCycle,
    guests::{OpenAnswer, User},
    outcome::Outcome,
    session_ends::End,
    shared_client::{lock, settle_for},
    state::Daemon,
    term_messages::ToldTerms,
};
use crate::LOGS;

/// While this many bytes wait to be sent, no more is said that can wait.
const HIGH_WATER: usize = 256 << 10;

/// The state of one session.
pub(super) struct Session {
    pub(super) connected: ConnectedClient,
    daemon: Arc<Daemon>,
    /// What the client was told of its terms; `None` if locks do not end by themselves.
    terms: Option<ToldTerms>,
    queries: FuturesUnordered<QueryFuture>,
    /// Questions that are not answered yet.
    questions: VecDeque<ToDaemon>,
    /// How many questions were answered, and whether the turns know that this session asks.
    answered: u64,
    is_listed: bool,
    /// An answer that is being sent in parts. It counts for the user, where several share the daemon.
    answer: Option<Parts>,
    open_answer: Option<OpenAnswer>,
    /// What is to be sent.
    outgoing: BytesMut,
    /// Whether nothing can be sent any more, or nobody would read it. A client that was killed may
    /// have sent messages before its end. These are still read, because one of them may tell which
    /// process the client's command is.
    is_mute: bool,
}

impl Session {
    pub(super) fn new(connected: ConnectedClient, daemon: Arc<Daemon>) -> Self {
        let terms = daemon.user_agent.is_leased().then(|| ToldTerms::new(connected.leases()));
        Self {
            connected,
            daemon,
            terms,
            queries: FuturesUnordered::new(),
            questions: VecDeque::new(),
            answered: 0,
            is_listed: false,
            answer: None,
            open_answer: None,
            outgoing: BytesMut::new(),
            is_mute: false,
        }
    }

    /// The client with its locks, whose session has ended.
    pub(super) fn into_connected(self) -> ConnectedClient {
        self.connected
    }

    /// Leaves to be sent what there is to tell the client, besides the answers to its messages.
    pub(super) fn serve(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        if self.is_mute {
            return Ok(());
        }
        self.count(0);
        // Losses are told first, because a new term does not apply to locks that were lost before
        // it began.
        self.say_outcomes(context)?;
        if let Some(terms) = &mut self.terms {
            if terms.poll_look(context).is_ready() {
                say_terms(&mut self.outgoing, terms, &self.connected)?;
            }
        }
        // FAST: to poll an empty set takes time as well.
        while !self.queries.is_empty() && self.answer.is_none() {
            let Poll::Ready(Some(answered)) = self.queries.poll_next_unpin(context) else {
                break;
            };
            if let Some(answered) = answered {
                self.take_answer(answered)?;
            }
        }
        Ok(())
    }

    /// What is to be sent, in its order.
    pub(super) fn outgoing(&mut self) -> &mut BytesMut {
        &mut self.outgoing
    }

    /// Tells the client the outcomes of its requests and locks, even if there is no room, because
    /// there are no more outcomes than requests.
    fn say_outcomes(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        let is_in_cycle = loop {
            let mut client = lock(&self.connected.client);
            let outcome = client.poll_outcome(context);
            let Poll::Ready((request, outcome)) = outcome else {
                break client.requests.is_in_cycle();
            };
            drop(client);
            self.say_outcome(request, outcome)?;
        };
        // The texts about cycles are long, and nobody waits for them. So they are sent only as far
        // as there is room.
        while is_in_cycle && self.has_room() {
            let next = lock(&self.connected.client).requests.next_in_cycle();
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
        self.say(&outcome.into_message(request))
    }

    /// Leaves the next parts of the answer to be sent, as far as there is room.
    pub(super) fn fill(&mut self) -> Result<(), End> {
        while let Some(mut answer) = self.answer.take_if(|_| has_room(&self.outgoing)) {
            let (part, last) = answer.next_part();
            self.answer = Some(answer).filter(|_| !last);
            self.open_answer.take_if(|_| last);
            self.say(&part)?;
        }
        Ok(())
    }

    /// From now on nothing is sent. The messages that the client had sent before are read, and then
    /// the end of the stream ends the session. If the client lives after all, it connects anew.
    /// Returns whether this is the first call.
    pub(super) fn fall_silent(&mut self) -> bool {
        if self.is_mute {
            return false;
        }
        self.is_mute = true;
        // This must be done before the client can come back on another connection, because the
        // client's file then belongs to that connection.
        if !lock(&self.connected.client).has_ended() {
            self.connected.give_up();
        }
        self.outgoing.clear();
        self.answer = None;
        self.open_answer = None;
        self.questions.clear();
        self.queries.clear();
        true
    }

    fn has_room(&self) -> bool {
        has_room(&self.outgoing)
    }

    /// Leaves a message to be sent, if there is anybody to read it.
    fn say(&mut self, message: &FromDaemon) -> Result<(), End> {
        if self.is_mute {
            return Ok(());
        }
        say(&mut self.outgoing, message)
    }

    /// Does what a message of the client asks for. An error is the end of the session.
    pub(super) fn handle_message(&mut self, message: ToDaemon) -> Result<(), End> {
        if self.is_mute && asks(&message) {
            // Nobody would read the answer. If the client lives, it asks again on another
            // connection.
            return Ok(());
        }
        if self.user().is_some_and(|user| !self.daemon.counts(user, &message)) {
            return Ok(());
        }
        match message {
            ToDaemon::Request { agent, request, name, kind, slot } => {
                self.request(agent, request, name, kind, slot)
            }
            ToDaemon::Map { nonce } => self.map(nonce),
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

    /// Counts for the user what the client has, with what is to be sent and these bytes that it has sent.
    pub(super) fn count(&self, heard: usize) {
        self.connected.count(0, self.outgoing.len() + heard);
    }

    /// Whose client it is, where several users share the daemon.
    pub(super) fn user(&self) -> Option<&Arc<User>> {
        self.connected.user()
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
        if self.daemon.orphans() > 0 {
            let bucket = lock(client).bucket(agent).cloned();
            if let Some(bucket) = bucket {
                self.daemon.end_left_orphans(&bucket, Some(&name));
            }
        }
        if let Some(user) = self.connected.user().filter(|_| kind.steals()) {
            let bucket = lock(client).bucket(agent).cloned();
            let why = bucket.and_then(|bucket| self.daemon.forbids_theft(user, &bucket, &name));
            if let Some(why) = why {
                return self.say_outcome(request, Outcome::Failed(Error::refused(why)));
            }
        }
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

fn has_room(outgoing: &BytesMut) -> bool {
    outgoing.len() < HIGH_WATER
}

fn say(outgoing: &mut BytesMut, message: &FromDaemon) -> Result<(), End> {
    encode(message, outgoing).map_err(End::from)
}

/// Leaves the terms that have changed to be sent, if there is room; otherwise later.
fn say_terms(
    outgoing: &mut BytesMut,
    terms: &mut ToldTerms,
    connected: &ConnectedClient,
) -> Result<(), End> {
    if has_room(outgoing) {
        let news = terms.news(&lock(&connected.client));
        news.iter().try_for_each(|term| say(outgoing, term))?;
    }
    Ok(())
}
