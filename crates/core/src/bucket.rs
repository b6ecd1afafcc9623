//! Buckets: the privacy boundary.

use std::{collections::HashMap, fmt};

use navlock_engine::AgentId;

use crate::{
    ClientId, LockManager,
    agent::{Agent, Ended},
    backend::AnyBackend,
    sync::{Arc, Mutex, Weak, lock},
    user_agent::Shared,
};

/// What an origin is to a browser: the boundary within which names mean the same lock.
///
/// Cheap to clone; the clones are the same bucket. Keeping one keeps no agent alive.
///
/// Spec: "storage bucket", <https://w3c.github.io/web-locks/#lock-managers>
#[derive(Clone)]
pub struct Bucket(Option<Arc<BucketUse>>);

/// A share in a bucket's use: when the last is gone, the user agent forgets the bucket.
pub(crate) struct BucketUse {
    user_agent: Arc<Shared>,
    pub(crate) bucket: Arc<OpenBucket>,
}

/// A bucket that has a lock manager.
pub(crate) struct OpenBucket {
    pub(crate) name: String,
    pub(crate) backend: AnyBackend,
    /// The agents alive, for the user agent to end.
    agents: Mutex<HashMap<AgentId, Weak<Agent>>>,
}

impl Bucket {
    pub(crate) fn obtainable(bucket: Arc<BucketUse>) -> Self {
        Self(Some(bucket))
    }

    pub(crate) fn opaque() -> Self {
        Self(None)
    }

    /// A handle of a new agent in this bucket.
    pub fn lock_manager(&self) -> LockManager {
        self.lock_manager_as(ClientId::random())
    }

    /// A handle of a new agent that is already known elsewhere by this client id: for a host that
    /// speaks for others.
    pub fn lock_manager_as(&self, client_id: ClientId) -> LockManager {
        LockManager::new(client_id, self.0.as_ref().map(|bucket| Agent::open(bucket, client_id)))
    }

    /// The bucket's name; `None` if it is opaque.
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|bucket| &*bucket.bucket.name)
    }
}

impl BucketUse {
    pub(crate) fn new(user_agent: Arc<Shared>, bucket: Arc<OpenBucket>) -> Arc<Self> {
        Arc::new(Self { user_agent, bucket })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.user_agent.is_closed()
    }
}

impl Drop for BucketUse {
    fn drop(&mut self) {
        self.user_agent.leave(&self.bucket);
    }
}

impl OpenBucket {
    pub(crate) fn new(name: &str, backend: AnyBackend) -> Self {
        Self { name: name.to_owned(), backend, agents: Mutex::default() }
    }

    pub(crate) fn add(&self, agent: &Arc<Agent>) {
        lock(&self.agents).insert(agent.id, Arc::downgrade(agent));
    }

    pub(crate) fn remove(&self, agent: AgentId) {
        lock(&self.agents).remove(&agent);
    }

    /// Ends all agents there are.
    pub(crate) fn close(&self) {
        // Collected first: an agent whose last owner goes meanwhile removes itself.
        let agents: Vec<_> = lock(&self.agents).values().filter_map(Weak::upgrade).collect();
        for agent in agents {
            agent.end(Ended::Closed);
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.name()).finish()
    }
}

impl fmt::Debug for OpenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenBucket").field("name", &self.name).finish_non_exhaustive()
    }
}
