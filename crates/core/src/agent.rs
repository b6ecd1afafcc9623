//! Agents: the units that hold locks and end as a whole.

use std::{collections::HashMap, fmt};

use foldhash::quality::RandomState;
use navlock_engine::AgentId;

use crate::{
    AgentInfo,
    agent_state::{AgentState, Ended},
    backend::AnyBackend,
    buckets::{BucketUse, Buckets},
    sync::{Arc, AtomicBool, Mutex, Ordering, Weak, lock, shrink},
    waking,
};

/// An agent in a bucket. Lives as long as a handle, a guard or a pending request of it.
pub(crate) struct Agent {
    pub(crate) id: AgentId,
    pub(crate) bucket: Arc<BucketUse>,
    /// The scope that ends the agent when it is closed.
    scope: Arc<Scope>,
    pub(crate) state: Arc<AgentState>,
}

/// The agents that were opened through one [`UserAgent`] and its clones, and are closed with it.
/// Usually a user agent has one scope for all its agents; each call of [`UserAgent::in_process`]
/// makes a scope of its own.
///
/// [`UserAgent`]: crate::UserAgent
/// [`UserAgent::in_process`]: crate::UserAgent::in_process
pub(crate) struct Scope {
    pub(crate) buckets: Arc<Buckets>,
    closed: AtomicBool,
    /// Whether the requests of these agents fail if they would wait for ever.
    fails_on_deadlock: AtomicBool,
    /// The living agents, by their addresses.
    agents: Mutex<HashMap<usize, Weak<Agent>, RandomState>>,
}

impl Agent {
    pub(crate) fn open(
        bucket: &Arc<BucketUse>,
        scope: &Arc<Scope>,
        state: Arc<AgentState>,
    ) -> Arc<Self> {
        let agent = Arc::new(Self {
            id: bucket.bucket.backend.open(&state),
            bucket: Arc::clone(bucket),
            scope: Arc::clone(scope),
            state,
        });
        scope.add(&agent);
        // The scope was closed meanwhile, and `close` may not have seen this agent.
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

    /// Ends agents, with their locks and requests. If an agent has ended before, the first reason
    /// stays.
    pub(crate) fn end_all(agents: &[&Arc<Self>], how: Ended) {
        // All agents are marked as ended before a backend is called. So a waiter of
        // one of these agents, when a backend wakes it, sees that its agent has ended. It does not
        // take a lock that was granted to it only because another of these agents ended.
        for agent in agents {
            agent.state.end(how);
        }
        let mut agents = agents.to_vec();
        let bucket = |agent: &&Arc<Self>| Arc::as_ptr(&agent.bucket.bucket);
        agents.sort_by_key(bucket);
        // The backends are called also for agents that an earlier call has marked already. So when this
        // function returns, the backends have ended all of these agents.
        for of_one_bucket in agents.chunk_by(|a, b| bucket(a) == bucket(b)) {
            let ids: Vec<_> = of_one_bucket.iter().map(|agent| agent.id).collect();
            of_one_bucket[0].backend().terminate_all(&ids);
        }
        // Those who watch for the end of an agent are woken last, after those who hold its locks or
        // wait for them.
        waking::wake_all(agents.iter().filter_map(|agent| agent.state.take_watcher()));
    }

    #[inline]
    pub(crate) fn state(&self) -> &Arc<AgentState> {
        &self.state
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.scope.remove(self);
        self.backend().close_agent(self.id);
    }
}

impl Scope {
    pub(crate) fn new(buckets: Arc<Buckets>) -> Arc<Self> {
        Arc::new(Self {
            buckets,
            closed: AtomicBool::new(false),
            fails_on_deadlock: AtomicBool::new(false),
            agents: Mutex::default(),
        })
    }

    fn add(&self, agent: &Arc<Agent>) {
        lock(&self.agents).insert(Arc::as_ptr(agent).addr(), Arc::downgrade(agent));
    }

    /// Forgets an agent that is being dropped.
    fn remove(&self, agent: &Agent) {
        let mut agents = lock(&self.agents);
        let removed = agents.remove(&std::ptr::from_ref(agent).addr());
        shrink(&mut agents);
        drop(agents);
        drop(removed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ends all agents of this scope, and each agent that is opened here from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // The agents are collected before any is ended. If an agent's last other owner goes
        // meanwhile, the agent is dropped here. Its drop locks the table, so the table must not be
        // locked then.
        let agents: Vec<_> = lock(&self.agents).values().filter_map(Weak::upgrade).collect();
        Agent::end_all(&agents.iter().collect::<Vec<_>>(), Ended::Closed);
    }

    /// From now on, requests of these agents fail if they would wait for ever.
    pub(crate) fn fail_on_deadlock(&self) {
        self.fails_on_deadlock.store(true, Ordering::Relaxed);
    }

    pub(crate) fn fails_on_deadlock(&self) -> bool {
        self.fails_on_deadlock.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("id", &self.id).finish_non_exhaustive()
    }
}
