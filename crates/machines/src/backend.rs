//! The backend: one bucket of a store, as callers use it.

use std::{
    collections::{BTreeSet, HashMap},
    future::ready,
    mem,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use navlock_core::{
    AgentInfo, ClientId, Error, Inspection, Lost, Position, ResourceName,
    host::{
        Answer, Backend, Claim, InspectFuture, NameRef, PositionFuture, QueryFuture, ReclaimFuture,
        RequestDetails, RequestKind, Term, Ticket, wake_all,
    },
    look::{LockId, Patience},
};
use navlock_engine::AgentId;
use tokio::sync::oneshot;

use crate::{
    clock::Uptime,
    connection::Connection,
    failure::gone,
    lease::Share,
    messages::Message,
    names::NameKey,
    query::{Asks, QueryEntry, QueryResult},
    table::{Ending, LocalOutcome, State, Table, Terminated},
};

/// About how many locks and requests an inspection of a bucket shows at most. The inspection says how
/// many it leaves out. Of one name, a looker is shown no more than this either.
const MOST_INSPECTED: usize = 10_000;

/// About how many locks and requests an inspection of one name shows at most.
const MOST_OF_NAME: usize = 100_000;

/// About how many locks and requests a bucket may have for a snapshot, which cannot say that it leaves
/// some out.
const MOST_QUERIED: usize = 100_000;

/// One bucket.
#[derive(Debug)]
pub(crate) struct MachinesBackend {
    connection: Arc<Connection>,
    bucket: u64,
}

impl MachinesBackend {
    /// The bucket of this number.
    pub(crate) fn new(connection: Arc<Connection>, bucket: u64) -> Self {
        Self { connection, bucket }
    }

    /// The locks and requests of one name, or of all names. If `asks` is set, owners of names are
    /// asked what they hold. Otherwise their names are shown as owned.
    fn seen(
        &self,
        name: Option<NameKey>,
        most: usize,
        asks: Asks,
    ) -> impl Future<Output = Result<QueryResult, Error>> + Send + use<> {
        let bucket = self.bucket;
        let answered =
            self.connection.ask(|answer| Message::Query { bucket, name, most, asks, answer });
        let connection = Arc::clone(&self.connection);
        async move {
            let answer = answered.await;
            answer.unwrap_or_else(|_| Err(gone(connection.store)))
        }
    }

    fn end_agent(&self, agent: AgentId, end: impl FnOnce(&mut Table, AgentId) -> Terminated) {
        let (serial, terminated) = {
            let mut table = self.connection.shared.table();
            (table.agent(agent), end(&mut table, agent))
        };
        self.connection.end_agent(serial, terminated);
    }

    /// What was seen, with all details. If `with_silence` is set, this also tells which holders' leases were
    /// not renewed in time.
    fn inspection(
        &self,
        seen: impl Future<Output = Result<QueryResult, Error>> + Send + 'static,
        with_silence: bool,
    ) -> InspectFuture<'_> {
        Box::pin(async move {
            let QueryResult { held, pending, owned, left_out } = seen.await?;
            let all = held.iter().chain(&pending).chain(&owned).filter(|_| with_silence);
            let theirs: BTreeSet<_> =
                all.map(|one| one.lease).filter(|lease| *lease != 0).collect();
            let silent = if theirs.is_empty() {
                HashMap::default()
            } else {
                let leases = theirs.into_iter().collect();
                let asked = self.connection.ask(|answer| Message::Silences { leases, answer });
                asked.await.unwrap_or_default()
            };
            let inspected = |QueryEntry { mut inspected, lease }| {
                inspected.further.unheard = silent.get(&lease).copied();
                inspected
            };
            let all = |all: Vec<QueryEntry>| all.into_iter().map(inspected).collect();
            let mut inspection = Inspection::new(all(held), all(pending));
            (inspection.owned, inspection.left_out) = (all(owned), left_out);
            Ok(inspection)
        })
    }
}

impl Backend for MachinesBackend {
    fn open_agent(&self, client_id: ClientId) -> AgentId {
        let bucket = self.bucket;
        let (agent, serial) = self.connection.shared.table().open_agent(bucket, client_id);
        self.connection.tell(Message::OpenAgent { bucket, serial, agent, client_id });
        agent
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        let serial = self.connection.shared.table().agent(agent);
        if let Some(serial) = serial {
            self.connection.tell(Message::Describe { serial, info: info.clone() });
        }
    }

    fn close_agent(&self, agent: AgentId) {
        self.end_agent(agent, Table::close_agent);
    }

    fn terminate(&self, agent: AgentId) {
        self.end_agent(agent, Table::terminate);
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        details: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        let length = name.as_bytes().len();
        let Connection { store, longest_name: most, .. } = *self.connection;
        if length > most {
            return Err(Error::refused(format!(
                "the name has {length} bytes, and {store} takes {most} at most; use a shorter one"
            )));
        }
        let mut table = self.connection.shared.table();
        let (id, serial) = table.request(agent, name, kind, details, waker)?;
        let ticket = Ticket { lane: 0, id };
        match table.take_here(id) {
            Some(LocalOutcome::Answered { answer, wakers, own }) => {
                let finished = matches!(answer, Answer::Unavailable).then(|| table.finish(id));
                drop(table);
                drop((own, finished));
                wake_all(wakers);
                return Ok((ticket, Poll::Ready(answer)));
            }
            Some(LocalOutcome::Waits { is_known: true }) => return Ok((ticket, Poll::Pending)),
            Some(LocalOutcome::Waits { is_known: false }) | None => {}
        }
        // The table is locked, so that messages come in the order of the calls.
        if let Some(name) = table.name_key(id) {
            self.connection.tell(Message::Request { bucket: self.bucket, serial, id, name });
        }
        drop(table);
        Ok((ticket, Poll::Pending))
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        let waker = waker.clone();
        let mut table = self.connection.shared.table();
        let Some((state, is_over)) = table.state(ticket.id) else {
            return Poll::Ready(Err(Error::Terminated));
        };
        if is_over {
            return Poll::Ready(Err(Lost::Disconnected.into()));
        }
        if let State::Pending(known) = state {
            let old = mem::replace(known, waker);
            drop(table);
            drop(old);
            return Poll::Pending;
        }
        let answer = state.answer();
        let finished = matches!(state, State::Unavailable).then(|| table.finish(ticket.id));
        drop(table);
        // There is no lock, so the caller will not finish it.
        drop(finished);
        answer.map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        let waker = waker.clone();
        let mut table = self.connection.shared.table();
        let state = table.state(ticket.id);
        if let Some(lost) = why_lost(state.as_ref()) {
            return Poll::Ready(lost);
        }
        if let Some((State::Held(_, watchers), _)) = state {
            // Only the last waker of a ticket is called.
            let old = mem::replace(watchers, vec![waker]);
            drop(table);
            drop(old);
        }
        Poll::Pending
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        why_lost(self.connection.shared.table().state(ticket.id).as_ref())
    }

    fn serial(&self, ticket: Ticket) -> u64 {
        self.connection.shared.table().serial(ticket.id)
    }

    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        let nested = self.connection.shared.table().put_inside(ticket.id, lock);
        self.connection.nest(nested);
    }

    fn note_patience(&self, ticket: Ticket, patience: Patience) {
        let serial = self.connection.shared.table().note_patience(ticket.id, patience);
        if let Some(serial) = serial {
            self.connection.tell(Message::Nested { serial });
        }
    }

    fn finish(&self, ticket: Ticket) {
        let mut table = self.connection.shared.table();
        let Some(Ending { state, finished, wakers, over }) = table.finish(ticket.id) else {
            return;
        };
        if let Some(finished) = finished {
            self.connection.tell(Message::Finish { id: ticket.id, finished });
        }
        if let Some((bucket, name)) = over {
            self.connection.tell(Message::Leave { bucket, name });
        }
        drop(table);
        // The wakers are the caller's code, so they are dropped without the table locked.
        drop(state);
        wake_all(wakers);
    }

    fn query(&self) -> QueryFuture<'_> {
        let seen = self.seen(None, MOST_QUERIED, Asks::Owners);
        Box::pin(async move { seen.await?.into_snapshot() })
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        let most = if name.is_some() { MOST_OF_NAME } else { MOST_INSPECTED };
        self.inspection(self.seen(name.as_ref().map(NameKey::new), most, Asks::Owners), false)
    }

    /// This is for a waiter that wants to know at once why it waits. So it fails while the store does
    /// not answer. Another machine that owns the name is not asked, and counts as a holder: whoever
    /// has to wait has been left the name, and who was refused has heard that it is held.
    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        if self.connection.link.silent().is_some() {
            return Box::pin(ready(Err(self.connection.link.unreachable())));
        }
        let seen = self.seen(Some(NameKey::new(&name)), MOST_OF_NAME, Asks::Ourselves);
        let inspection = self.inspection(seen, false);
        Box::pin(async move {
            let mut inspection = inspection.await?;
            inspection.held.append(&mut inspection.owned);
            Ok(Position::among(inspection, &name, client_id))
        })
    }

    fn name_ref(&self, name: &ResourceName) -> NameRef {
        NameKey::new(name).to_ref()
    }

    /// Owners are not asked: lookers look again and again, and each question would cost the owner a write. A
    /// name for which others wait was given up anyway.
    fn look(&self, name: Option<NameRef>, with_silence: bool) -> InspectFuture<'_> {
        let name = match name.map(NameKey::of_ref) {
            // These bytes refer to no name.
            Some(None) => return Box::pin(ready(Ok(Inspection::default()))),
            name => name.flatten(),
        };
        self.inspection(self.seen(name, MOST_INSPECTED, Asks::Nobody), with_silence)
    }

    fn ends(&self, agent: AgentId) -> Option<Duration> {
        let ends = self.connection.shared.table().ends(agent);
        // An agent that is being reclaimed has no term yet.
        ends.filter(|ends| *ends > Uptime::default()).map(Uptime::since_start)
    }

    fn term(&self, agent: AgentId) -> Option<Term> {
        let term = self.connection.shared.table().term(agent)?;
        Some(Term {
            now: Uptime::now().since_start(),
            heard: term.heard.since_start(),
            due: term.due.since_start(),
            ends: term.ends.since_start(),
            expires: term.expires.since_start(),
        })
    }

    fn lease(&self, agent: AgentId) -> Option<Vec<u8>> {
        self.connection.shared.table().lease(agent).map(Share::to_bytes)
    }

    fn reclaim(&self, agent: AgentId, claims: Vec<Claim>) -> ReclaimFuture<'_> {
        let count = claims.len();
        let (answer, answered) = oneshot::channel();
        let serial = self.connection.shared.table().agent(agent);
        if let Some(serial) = serial {
            self.connection.tell(Message::Reclaim { serial, claims, answer });
        }
        let mut reclaimed = Reclaimed { answered, backend: self };
        Box::pin(
            async move { (&mut reclaimed.answered).await.unwrap_or_else(|_| vec![None; count]) },
        )
    }
}

/// Why a lock in this state is lost, if it is.
fn why_lost(state: Option<&(&mut State, bool)>) -> Option<Lost> {
    match state {
        Some((_, true)) => Some(Lost::Disconnected),
        Some((State::Held(..), false)) => None,
        Some((State::Lost(lost), _)) => Some(*lost),
        _ => Some(Lost::Terminated),
    }
}

/// A reclaim, until the caller has its tickets.
struct Reclaimed<'a> {
    answered: oneshot::Receiver<Vec<Option<Ticket>>>,
    backend: &'a MachinesBackend,
}

impl Drop for Reclaimed<'_> {
    fn drop(&mut self) {
        // The thread notices now that nobody wants the answer.
        self.answered.close();
        for ticket in self.answered.try_recv().into_iter().flatten().flatten() {
            self.backend.finish(ticket);
        }
    }
}

impl Drop for MachinesBackend {
    fn drop(&mut self) {
        self.connection.tell(Message::CloseBucket { bucket: self.bucket });
    }
}
