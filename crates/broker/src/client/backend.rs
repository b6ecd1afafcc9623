//! The backend: one bucket, seen through a connection.

use std::{
    fmt, future, mem,
    sync::Arc,
    task::{Poll, Waker},
};

use navlock_core::{
    AgentInfo, ClientId, Error, Lost, Position, ResourceName,
    host::{
        Answer, Backend, InspectFuture, PositionFuture, QueryFuture, RequestKind, Term, Ticket,
    },
};
use navlock_engine::AgentId;
use navlock_wire::{MAX_BUCKET, MAX_NAME, ToDaemon};

use super::{connection::Connection, io::wake, query, table::State};
use crate::this_process;

/// One bucket of the broker.
pub(super) struct BrokerBackend {
    connection: Arc<Connection>,
    name: Arc<str>,
}

impl BrokerBackend {
    pub(super) fn new(connection: Arc<Connection>, name: &str) -> Self {
        Self { connection, name: name.into() }
    }

    /// # Errors
    ///
    /// If there is no such bucket in any broker.
    fn check_bucket(&self) -> Result<(), Error> {
        too_long("bucket's name", self.name.len(), MAX_BUCKET)
    }
}

impl Backend for BrokerBackend {
    fn open_agent(&self, client_id: ClientId) -> AgentId {
        let bucket = self.check_bucket().is_ok().then_some(&self.name);
        let info = this_process();
        self.connection.change(|table| table.open_agent(client_id, bucket, info))
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        self.connection.change(|table| table.describe(agent, info));
    }

    fn close_agent(&self, agent: AgentId) {
        wake(self.connection.change(|table| table.close_agent(agent)));
    }

    fn terminate(&self, agent: AgentId) {
        wake(self.connection.change(|table| table.terminate(agent)));
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        self.check_bucket()?;
        too_long("name", name.as_bytes().len(), MAX_NAME)?;
        if self.connection.shared().only_questions {
            let why = "this connection to the broker is for questions only; make another for locks";
            return Err(Error::Refused(why.to_owned()));
        }
        let id = self.connection.change(|table| table.request(agent, name, kind, waker))?;
        self.connection.await_word();
        Ok((Ticket { lane: 0, id }, Poll::Pending))
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
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
            // There is nothing to be finished, so nobody will.
            table.finish(ticket.id);
        }
        answer.map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        let mut table = self.connection.table_in_time();
        let gone = table.lost();
        let lost = match table.state(ticket.id) {
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

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        let mut table = self.connection.table_in_time();
        let gone = table.lost();
        match table.state(ticket.id) {
            Some(State::Held(..)) => None,
            Some(State::Lost(lost, _)) => Some(*lost),
            _ => Some(gone),
        }
    }

    fn stolen_by(&self, ticket: Ticket) -> Option<ClientId> {
        match self.connection.table().state(ticket.id) {
            Some(State::Lost(_, stolen_by)) => *stolen_by,
            _ => None,
        }
    }

    fn finish(&self, ticket: Ticket) {
        let forgotten = self.connection.change(|table| table.finish(ticket.id));
        // Its wakers are foreign: dropped out here.
        drop(forgotten);
    }

    fn term(&self, agent: AgentId) -> Option<Term> {
        self.connection.table().term(agent)
    }

    fn query(&self) -> QueryFuture<'_> {
        if let Err(error) = self.check_bucket() {
            return Box::pin(future::ready(Err(error)));
        }
        let bucket = self.name.as_ref().to_owned();
        let ask = |query| ToDaemon::Query { query, bucket };
        let answer = query::Answer::ask(&self.connection, ask);
        Box::pin(async move { Ok(answer.await?.snapshot) })
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        if let Err(error) = self.check_bucket() {
            return Box::pin(future::ready(Err(error)));
        }
        let bucket = self.name.as_ref().to_owned();
        let ask = |query| ToDaemon::Inspect { query, bucket, name };
        let answer = query::Answer::ask(&self.connection, ask);
        Box::pin(async move { Ok(answer.await?.inspection) })
    }

    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        if !self.connection.table().knows_positions() {
            let inspection = self.inspect(Some(name.clone()));
            return Box::pin(
                async move { Ok(Position::among(inspection.await?, &name, client_id)) },
            );
        }
        if let Err(error) = self.check_bucket() {
            return Box::pin(future::ready(Err(error)));
        }
        let bucket = self.name.as_ref().to_owned();
        let client_id = client_id.to_bytes();
        let ask = |query| ToDaemon::Position { query, bucket, name, client_id };
        let answer = query::Answer::ask(&self.connection, ask);
        Box::pin(async move { Ok(answer.await?.position) })
    }
}

fn too_long(what: &str, bytes: usize, most: usize) -> Result<(), Error> {
    if bytes <= most {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the {what} has {bytes} bytes, and the broker takes {most} at most; use a shorter one"
    )))
}

impl fmt::Debug for BrokerBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerBackend")
            .field("connection", &self.connection)
            .field("name", &self.name)
            .finish()
    }
}
