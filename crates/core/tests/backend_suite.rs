//! The backend suite on the in-memory backend. The handles know this backend by type, and also use
//! it as a trait object like any other reach. The suite also runs on a backend that has no more
//! than a backend must have.

use std::task::{Poll, Waker};

use navlock_core::{
    ClientId, Error, Lost, ResourceName, UserAgent,
    host::{Answer, Backend, MemoryReach, QueryFuture, Reach, RequestDetails, RequestKind, Ticket},
};
use navlock_engine::AgentId;

mod by_type {
    use super::*;

    navlock_testkit::backend_suite!(UserAgent::new());
}

mod through_the_seam {
    use super::*;

    navlock_testkit::backend_suite!(UserAgent::with_reach(MemoryReach::default()));
}

mod in_one_shard {
    use super::*;

    navlock_testkit::backend_suite!(UserAgent::with_memory(MemoryReach::default().with_shards(1)));
}

mod with_what_a_backend_must_have {
    use super::*;

    navlock_testkit::backend_suite!(UserAgent::with_reach(Bare(MemoryReach::default())));
}

/// Implements only the methods that the traits require.
#[derive(Debug)]
struct Bare<T>(T);

impl Reach for Bare<MemoryReach> {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(Bare(self.0.clone().with_shards(1).open_bucket(name)))
    }
}

impl Backend for Bare<Box<dyn Backend>> {
    fn open_agent(&self, client_id: ClientId) -> AgentId {
        self.0.open_agent(client_id)
    }

    fn close_agent(&self, agent: AgentId) {
        self.0.close_agent(agent);
    }

    fn terminate(&self, agent: AgentId) {
        self.0.terminate(agent);
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        details: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        self.0.request(agent, name, kind, details, waker)
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        self.0.poll_request(ticket, waker)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        self.0.poll_lost(ticket, waker)
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        self.0.lost(ticket)
    }

    fn finish(&self, ticket: Ticket) {
        self.0.finish(ticket);
    }

    fn query(&self) -> QueryFuture<'_> {
        self.0.query()
    }

    fn retire(&self) {
        self.0.retire();
    }
}
