//! Agents: clients that can die as a whole.

use std::fmt;

use navlock_engine::AgentId;

use crate::{
    AgentInfo,
    backend::{AnyBackend, Backend},
    bucket::BucketUse,
    life::{ALIVE, Ended, Life},
    sync::{Arc, Ordering, lock},
    user_agent::Scope,
    waking,
};

/// An agent in a bucket. Lives as long as a handle, a guard or a pending request of it.
pub(crate) struct Agent {
    pub(crate) id: AgentId,
    pub(crate) bucket: Arc<BucketUse>,
    /// What ends it when it is closed.
    scope: Arc<Scope>,
    pub(crate) life: Arc<Life>,
}

impl Agent {
    pub(crate) fn open(bucket: &Arc<BucketUse>, scope: &Arc<Scope>, life: Arc<Life>) -> Arc<Self> {
        let agent = Arc::new(Self {
            id: bucket.bucket.backend.open(&life),
            bucket: Arc::clone(bucket),
            scope: Arc::clone(scope),
            life,
        });
        scope.add(&agent);
        // Closed in between: who closed may have looked before this agent was there.
        if scope.is_closed() {
            Self::end_all(&[&agent], Ended::Closed);
        }
        agent
    }

    #[inline]
    pub(crate) fn backend(&self) -> &AnyBackend {
        &self.bucket.bucket.backend
    }

    pub(crate) fn bucket(&self) -> &Arc<BucketUse> {
        &self.bucket
    }

    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    pub(crate) fn describe(&self, info: &AgentInfo) {
        self.backend().describe(self.id, info);
    }

    /// Ends agents, with all they have. The first way to end is the one that is told.
    pub(crate) fn end_all(agents: &[&Arc<Self>], how: Ended) {
        // All of them before the backends act: whoever is woken by that is told the reason, and
        // takes no lock that is granted because another of them ends.
        for agent in agents {
            let (ended, how) = (&agent.life.ended, how as u8);
            let _ = ended.compare_exchange(ALIVE, how, Ordering::SeqCst, Ordering::SeqCst);
        }
        let mut agents = agents.to_vec();
        let bucket = |agent: &&Arc<Self>| Arc::as_ptr(&agent.bucket.bucket);
        agents.sort_by_key(bucket);
        // Also the second time: whoever returns from here finds that they have ended.
        for of_one_bucket in agents.chunk_by(|a, b| bucket(a) == bucket(b)) {
            let ids: Vec<_> = of_one_bucket.iter().map(|agent| agent.id).collect();
            of_one_bucket[0].backend().terminate_all(&ids);
        }
        // When those were woken who have to do with one of its locks.
        waking::wake_all(agents.iter().filter_map(|agent| lock(&agent.life.watcher).take()));
    }

    #[inline]
    pub(crate) fn life(&self) -> &Arc<Life> {
        &self.life
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.scope.remove(self);
        self.backend().close_agent(self.id);
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("id", &self.id).finish_non_exhaustive()
    }
}
