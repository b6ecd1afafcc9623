//! The backend: one bucket, seen through a connection.

use std::{
    fmt, future, mem,
    pin::Pin,
    sync::Arc,
    task::{Poll, Waker},
};

use navlock_core::{
    AgentInfo, ClientId, Error, Lost, ResourceName,
    host::{
        Answer, Backend, InspectFuture, PositionFuture, QueryFuture, RequestDetails, RequestKind,
        Term, Ticket,
    },
    look::{InDeadlock, LockId, Patience},
};
use navlock_engine::{AgentId, RequestId};
use navlock_wire::{MAX_BUCKET, MAX_NAME, Query, ToDaemon};

use navlock_delegation::Released;

use super::{
    client_table::{ClientTable, State},
    connection::Connection,
    owned::{self, Owned, Take},
    query,
    questions::QuestionAnswer,
    reader::wake,
};
use crate::{surrounding, this_client};

/// One bucket of the broker.
pub(super) struct BrokerBackend {
    connection: Arc<Connection>,
    /// The names that the connection owns.
    owned: Arc<Owned>,
    name: Arc<str>,
    /// Why the bucket's broker cannot be connected to. The connection is then that to another broker.
    unreachable: Option<Error>,
}

impl BrokerBackend {
    pub(super) fn new(connection: Arc<Connection>, name: &str) -> Self {
        let owned = Arc::clone(&connection.shared().owned);
        Self { connection, owned, name: name.into(), unreachable: None }
    }

    /// A bucket whose broker cannot be connected to, for this reason: each request for a lock fails with it.
    pub(super) fn unreachable(connection: Arc<Connection>, name: &str, why: Error) -> Self {
        Self { unreachable: Some(why), ..Self::new(connection, name) }
    }

    /// Tells the daemon more of a request. What is told before the request is [made](Backend::made) is sent
    /// together with the request.
    fn tell_more(&self, ticket: Ticket, change: impl FnOnce(&mut ClientTable)) {
        let is_made = self.connection.change_quietly(|table| {
            change(table);
            table.is_made(ticket.id)
        });
        if is_made {
            self.connection.change(|_| ());
        }
    }

    /// Ends the locks that are not ours any more, if there is no daemon to tell us of them, or if this process
    /// may have been stopped. To be called before asking whether a lock that was taken in the map is held.
    #[inline]
    fn look(&self) {
        self.connection.shared().hear_if_late();
        if self.owned.is_alone() {
            self.connection.shared().end_given_up();
        }
    }

    /// Whether a lock that was just taken in the map is ours, as far as this can be known. This has
    /// to be checked after the take: a lock that a daemon frees after the check is lost like any
    /// other held lock.
    #[inline]
    fn is_still_held(&self, taken: &Take) -> bool {
        // FAST: if there was a daemon just before that moment, the lock is ours, because otherwise
        // this daemon would have recalled the word.
        !self.owned.is_alone() && self.owned.was_linked(taken.moment) || self.look_after(taken)
    }

    #[cold]
    fn look_after(&self, taken: &Take) -> bool {
        let shared = self.connection.shared();
        if self.owned.is_alone() {
            shared.end_given_up();
        } else if !shared.has_hung_up() {
            self.owned.set_linked(taken.moment);
        } else if !shared.stands_for_certain() {
            return false;
        }
        self.owned.holds(taken.ticket.id)
    }

    /// To be called when the release has found that the client no longer owns the name, or that the
    /// lock was lost or released before.
    #[cold]
    fn finish_taken(&self, taken: RequestId) {
        let note = self.connection.end(|table| table.finish_taken(taken));
        // The wakers are the caller's code, so they are dropped without the table locked.
        drop(note);
    }

    /// # Errors
    ///
    /// If there is no such bucket in any broker, or its broker cannot be connected to.
    fn check_bucket(&self) -> Result<(), Error> {
        if let Some(why) = &self.unreachable {
            return Err(why.clone());
        }
        too_long("bucket's name", self.name.len(), MAX_BUCKET)
    }
}

impl Backend for BrokerBackend {
    fn lanes(&self) -> usize {
        2
    }

    fn open_agent(&self, client_id: ClientId) -> AgentId {
        let bucket = self.check_bucket().is_ok().then_some(&self.name);
        let info = this_client();
        self.connection.change(|table| table.open_agent(client_id, bucket, info))
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        self.connection.change(|table| table.describe(agent, info));
    }

    fn close_agent(&self, agent: AgentId) {
        wake(self.connection.end(|table| table.close_agent(agent)));
    }

    fn terminate(&self, agent: AgentId) {
        wake(self.connection.end(|table| table.terminate(agent)));
    }

    /// The agents end in one change of the table. A grant may be on its way to one of them because
    /// another one has ended: it finds all of them ended.
    fn terminate_all(&self, agents: &[AgentId]) {
        let end = |table: &mut ClientTable| {
            agents.iter().flat_map(|agent| table.terminate(*agent)).collect::<Vec<_>>()
        };
        wake(self.connection.end(end));
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        RequestDetails { why, .. }: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        // A map has no place for what a lock is for.
        let taken =
            why.is_empty().then(|| self.owned.take(&self.name, agent, name, kind)).flatten();
        if let Some(taken) = taken {
            if self.is_still_held(&taken) {
                return Ok((taken.ticket, Poll::Ready(Answer::Granted(taken.token))));
            }
            self.finish(taken.ticket);
        }
        self.check_bucket()?;
        too_long("name", name.as_bytes().len(), MAX_NAME)?;
        if self.connection.shared().only_questions {
            let why = "this connection to the broker is for questions only; make another for locks";
            return Err(Error::refused(why));
        }
        let ask = |table: &mut ClientTable| table.request(agent, name, kind, why, waker);
        let id = self.connection.change_quietly(ask)?;
        Ok((Ticket { lane: 0, id }, Poll::Pending))
    }

    fn made(&self, ticket: Ticket) {
        // The request is sent together with the locks inside which it was made, so that nobody sees
        // it without them.
        self.connection.change(|table| table.note_made(ticket.id));
        self.connection.await_word();
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        if ticket.lane == owned::LANE {
            // The request was answered at once.
            let lost = self.lost(ticket).unwrap_or(Lost::Terminated);
            return Poll::Ready(Err(lost.into()));
        }
        let mut table = self.connection.table_in_time();
        let lost = table.lost();
        let Some(state) = table.state(ticket.id) else {
            let ended = lost == Lost::Terminated;
            return Poll::Ready(Err(if ended { Error::Terminated } else { lost.into() }));
        };
        if let State::Pending(known) = state {
            let old = (!known.will_wake(waker)).then(|| mem::replace(known, waker.clone()));
            drop(table);
            drop(old);
            self.connection.await_word();
            return Poll::Pending;
        }
        let answer = state.answer();
        if matches!(state, State::Unavailable) {
            // There is no lock, so the caller will not finish this ticket.
            table.finish(ticket.id);
        } else {
            table.note_taken(ticket.id);
        }
        answer.map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        if ticket.lane == owned::LANE {
            return self.poll_taken_lost(ticket.id, waker);
        }
        let mut table = self.connection.table_in_time();
        let (gone, seen) = (table.lost(), table.seen_lost(ticket.id));
        let lost = match table.state(ticket.id) {
            Some(State::Held(..)) if seen.is_some() => seen,
            Some(State::Held(_, watchers)) => {
                if !watchers.iter().any(|watcher| watcher.will_wake(waker)) {
                    watchers.push(waker.clone());
                }
                None
            }
            Some(State::Lost(lost, _)) => Some(*lost),
            _ => Some(gone),
        };
        drop(table);
        if lost.is_none() {
            self.connection.await_word();
        }
        lost.map_or(Poll::Pending, Poll::Ready)
    }

    #[inline]
    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        if ticket.lane == owned::LANE {
            if !self.owned.is_ours() {
                return Some(Lost::Disconnected);
            }
            self.look();
            return self.owned.lost(ticket.id);
        }
        let mut table = self.connection.table_in_time();
        let (gone, seen) = (table.lost(), table.seen_lost(ticket.id));
        match table.state(ticket.id) {
            Some(State::Held(..)) => seen,
            Some(State::Lost(lost, _)) => Some(*lost),
            _ => Some(gone),
        }
    }

    fn stolen_by(&self, ticket: Ticket) -> Option<ClientId> {
        if ticket.lane == owned::LANE {
            return self.owned.is_ours().then(|| self.owned.stolen_by(ticket.id))?;
        }
        match self.connection.table().state(ticket.id) {
            Some(State::Lost(_, stolen_by)) => *stolen_by,
            _ => None,
        }
    }

    #[inline]
    fn finish(&self, ticket: Ticket) {
        if ticket.lane == owned::LANE {
            if !self.owned.is_ours() {
                return;
            }
            match self.owned.release(ticket.id) {
                Released::Kept => drop(self.owned.forget(ticket.id)),
                Released::Tell | Released::Gone => self.finish_taken(ticket.id),
            }
            return;
        }
        let forgotten = self.connection.end(|table| table.finish(ticket.id));
        // The wakers are the caller's code, so they are dropped without the table locked.
        drop(forgotten);
    }

    fn serial(&self, ticket: Ticket) -> u64 {
        let taken = ticket.lane == owned::LANE && self.owned.is_ours();
        let known = taken.then(|| self.owned.serial(ticket.id)).flatten();
        known.unwrap_or_else(|| ticket.id.serial())
    }

    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        if ticket.lane != owned::LANE {
            self.tell_more(ticket, |table| table.put_inside(ticket.id, lock));
        }
    }

    fn note_patience(&self, ticket: Ticket, patience: Patience) {
        if ticket.lane != owned::LANE {
            self.tell_more(ticket, |table| table.note_patience(ticket.id, patience));
        }
    }

    fn surrounding(&self) -> &[LockId] {
        surrounding()
    }

    fn deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        let is_waiting = ticket.lane != owned::LANE;
        is_waiting.then(|| self.connection.table_in_time().deadlock(ticket.id)).flatten()
    }

    fn term(&self, agent: AgentId) -> Option<Term> {
        self.connection.table().term(agent)
    }

    fn query(&self) -> QueryFuture<'_> {
        self.ask(|query, bucket| ToDaemon::Query { query, bucket }, |answer| answer.snapshot)
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        let ask = |query, bucket| ToDaemon::Inspect { query, bucket, name };
        self.ask(ask, |answer| answer.inspection)
    }

    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        let client_id = client_id.to_bytes();
        let ask = |query, bucket| ToDaemon::Position { query, bucket, name, client_id };
        self.ask(ask, |answer| answer.position)
    }
}

impl BrokerBackend {
    /// Asks a question about the bucket, and takes what was asked for from the answer.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(Query, Arc<str>) -> ToDaemon,
        wanted: fn(QuestionAnswer) -> T,
    ) -> Pin<Box<dyn Future<Output = Result<T, Error>> + Send + '_>> {
        if let Err(error) = self.check_bucket() {
            return Box::pin(future::ready(Err(error)));
        }
        let bucket = Arc::clone(&self.name);
        let answer = query::Answer::ask(&self.connection, |query| question(query, bucket));
        Box::pin(async move { Ok(wanted(answer.await?)) })
    }

    fn poll_taken_lost(&self, taken: RequestId, waker: &Waker) -> Poll<Lost> {
        if !self.owned.is_ours() {
            return Poll::Ready(Lost::Disconnected);
        }
        self.look();
        if let Some(lost) = self.owned.watch(taken, waker) {
            return Poll::Ready(lost);
        }
        self.connection.await_word();
        Poll::Pending
    }
}

fn too_long(what: &str, bytes: usize, most: usize) -> Result<(), Error> {
    if bytes <= most {
        return Ok(());
    }
    Err(Error::refused(format!(
        "the {what} has {bytes} bytes, and the broker takes {most} at most; use a shorter one"
    )))
}

impl fmt::Debug for BrokerBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerBackend")
            .field("connection", &self.connection)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
