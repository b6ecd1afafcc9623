//! Buckets: the privacy boundary.

use std::fmt;

use crate::{
    ClientId, LockManager,
    agent::{Agent, Scope},
    agent_state::AgentState,
    buckets::BucketUse,
    sync::Arc,
};

/// What an origin is to a browser: the boundary within which names mean the same lock.
///
/// Cheap to clone; the clones are the same bucket. To keep a bucket keeps no agent alive.
///
/// Spec: "storage bucket", <https://w3c.github.io/web-locks/#lock-managers>
#[derive(Clone)]
pub struct Bucket(Option<Obtainable>);

/// A bucket that has a lock manager, and what its handles need.
#[derive(Clone)]
struct Obtainable {
    bucket: Arc<BucketUse>,
    /// The scope that agents of this bucket belong to.
    scope: Arc<Scope>,
}

impl Bucket {
    pub(crate) fn obtainable(bucket: Arc<BucketUse>, scope: Arc<Scope>) -> Self {
        Self(Some(Obtainable { bucket, scope }))
    }

    pub(crate) fn opaque() -> Self {
        Self(None)
    }

    /// A handle of a new agent in this bucket.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let bucket = UserAgent::new().bucket("app");
    /// let guard = bucket.lock_manager().lock("db").blocking()?;
    /// assert!(bucket.lock_manager().lock("db").if_available().blocking()?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn lock_manager(&self) -> LockManager {
        self.open(None)
    }

    /// See [`host::lock_manager_as`](crate::host::lock_manager_as).
    pub(crate) fn lock_manager_as(&self, client_id: ClientId) -> LockManager {
        self.open(Some(client_id))
    }

    fn open(&self, client_id: Option<ClientId>) -> LockManager {
        let state = AgentState::new(client_id);
        let agent = self
            .0
            .as_ref()
            .map(|Obtainable { bucket, scope }| Agent::open(bucket, scope, Arc::clone(&state)));
        LockManager::new(state, agent)
    }

    /// The bucket's name; `None` if it is opaque.
    ///
    /// ```
    /// # use navlock::UserAgent;
    /// let user_agent = UserAgent::new();
    /// assert_eq!(user_agent.bucket("app").name(), Some("app"));
    /// assert_eq!(user_agent.opaque_bucket().name(), None);
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|open| &*open.bucket.bucket.name)
    }
}

impl LockManager {
    /// The agent's bucket.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// let another_agent = locks.bucket().lock_manager();
    /// assert!(another_agent.lock("db").if_available().blocking()?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bucket(&self) -> Bucket {
        match self.agent() {
            Some(agent) => {
                Bucket::obtainable(Arc::clone(agent.bucket()), Arc::clone(agent.scope()))
            }
            None => Bucket::opaque(),
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.name()).finish()
    }
}
