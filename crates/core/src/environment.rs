//! Environment settings objects, which a request asks before anything else.

use crate::{
    Error,
    agent::Agent,
    agent_ref::AgentRefs,
    agent_state::AgentState,
    sync::{Arc, AtomicBool, Ordering},
};

/// What the specification asks an environment settings object: who it is, whether it is fully
/// active, and which lock manager can be obtained for it.
pub(crate) struct Environment {
    pub(crate) state: Arc<AgentState>,
    pub(crate) fully_active: AtomicBool,
    /// `None` if no lock manager can be obtained.
    pub(crate) refs: Option<AgentRefs>,
}

impl Environment {
    pub(crate) fn new(state: Arc<AgentState>, agent: Option<Arc<Agent>>) -> Arc<Self> {
        let refs = agent.map(AgentRefs::new);
        Arc::new(Self { state, fully_active: AtomicBool::new(true), refs })
    }

    /// The references to the agent, if it may use a lock manager.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>, steps 3 and 4.
    #[inline]
    pub(crate) fn obtain_lock_manager(&self) -> Result<&AgentRefs, Error> {
        // 3. An agent that has ended corresponds to a document that was unloaded.
        if !self.fully_active.load(Ordering::Acquire) {
            return Err(Error::NotFullyActive);
        }
        // FAST: no error is made and dropped again where there is none.
        match &self.refs {
            // 3. still.
            Some(refs) => refs.agent.state().check_alive().map(|()| refs),
            // 4.
            None => Err(Error::Unobtainable),
        }
    }
}
