//! The backend: one bucket, seen through a connection.

use std::{
    fmt, future, mem,
    sync::Arc,
    task::{Poll, Waker},
};

use navlock_core::{
    Backend, ClientId, Error, Lost, RequestKind, ResourceName,
    backend::{Answer, QueryFuture, Ticket},
};
use navlock_engine::AgentId;
use navlock_wire::{MAX_BUCKET, MAX_NAME, ToDaemon};

use super::{connection::Connection, io::wake, query, table::State};

/// One bucket of the broker.
pub(super) struct BrokerBackend {
    connection: Arc<Connection>,
    name: String,
}

impl BrokerBackend {
    pub(super) fn new(connection: Arc<Connection>, name: &str) -> Self {
        Self { connection, name: name.to_owned() }
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
        let agent = self.connection.table().open_agent();
        if self.check_bucket().is_ok() {
            self.connection.say(&ToDaemon::OpenAgent {
                agent: number(agent),
                client_id: client_id.to_bytes(),
                bucket: self.name.clone(),
            });
        }
        agent
    }

    fn close_agent(&self, agent: AgentId) {
        let wakers = self.connection.table().terminate(agent);
        if self.check_bucket().is_ok() {
            self.connection.say(&ToDaemon::CloseAgent { agent: number(agent) });
        }
        // Last: from here on the number may be given to another.
        self.connection.table().close_agent(agent);
        wake(wakers);
    }

    fn terminate(&self, agent: AgentId) {
        let wakers = self.connection.table().terminate(agent);
        if self.check_bucket().is_ok() {
            self.connection.say(&ToDaemon::Terminate { agent: number(agent) });
        }
        wake(wakers);
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
        let id = self.connection.table().request(agent, waker)?;
        self.connection.say(&ToDaemon::Request {
            agent: number(agent),
            request: id,
            name: name.clone(),
            kind,
        });
        Ok((Ticket { lane: 0, id }, Poll::Pending))
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        let mut table = self.connection.table();
        let Some(state) = table.state(ticket.id) else {
            return Poll::Ready(Err(Error::Terminated));
        };
        if let State::Pending(known) = state {
            let old = (!known.will_wake(waker)).then(|| mem::replace(known, waker.clone()));
            drop(table);
            drop(old);
            return Poll::Pending;
        }
        let answer = state.answer();
        if matches!(state, State::Unavailable) {
            // There is nothing to be finished, so nobody will.
            table.forget(ticket.id);
        }
        answer.map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        match self.connection.table().state(ticket.id) {
            Some(State::Held(_, watchers)) => {
                if !watchers.iter().any(|watcher| watcher.will_wake(waker)) {
                    watchers.push(waker.clone());
                }
                Poll::Pending
            }
            Some(State::Lost(lost)) => Poll::Ready(*lost),
            _ => Poll::Ready(Lost::Terminated),
        }
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        match self.connection.table().state(ticket.id) {
            Some(State::Held(..)) => None,
            Some(State::Lost(lost)) => Some(*lost),
            _ => Some(Lost::Terminated),
        }
    }

    fn finish(&self, ticket: Ticket) {
        let forgotten = self.connection.table().forget(ticket.id);
        if forgotten.is_some_and(|state| state.is_alive()) {
            self.connection.say(&ToDaemon::Finish { request: ticket.id });
        }
    }

    fn query(&self) -> QueryFuture<'_> {
        match self.check_bucket() {
            Ok(()) => Box::pin(query::Answer::ask(&self.connection, &self.name)),
            Err(error) => Box::pin(future::ready(Err(error))),
        }
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

/// What the agent is called on the wire.
fn number(agent: AgentId) -> navlock_wire::Agent {
    u32::try_from(agent.index()).expect("an agent's id is made from an index of 32 bits")
}

impl fmt::Debug for BrokerBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerBackend")
            .field("connection", &self.connection)
            .field("name", &self.name)
            .finish()
    }
}
