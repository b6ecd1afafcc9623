//! Environment settings objects: what a request asks before anything else.

use crate::{
    Error,
    agent::Agent,
    life::Life,
    seat::Seats,
    sync::{Arc, AtomicBool, Ordering},
};

/// What the specification asks of an environment settings object: who it is, whether it is fully
/// active, and which lock manager can be obtained for it.
pub(crate) struct Environment {
    pub(crate) life: Arc<Life>,
    pub(crate) fully_active: AtomicBool,
    /// `None` if no lock manager can be obtained.
    pub(crate) seats: Option<Seats>,
}

impl Environment {
    pub(crate) fn new(life: Arc<Life>, agent: Option<Arc<Agent>>) -> Arc<Self> {
        let seats = agent.map(Seats::new);
        Arc::new(Self { life, fully_active: AtomicBool::new(true), seats })
    }

    /// The agent's seats in the lock manager, if it may use one.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>, steps 3 and 4.
    #[inline]
    pub(crate) fn obtain_lock_manager(&self) -> Result<&Seats, Error> {
        // 3. An agent that has ended is a document that was unloaded.
        if !self.fully_active.load(Ordering::Acquire) {
            return Err(Error::NotFullyActive);
        }
        if let Some(seats) = &self.seats {
            seats.agent.life().check_alive()?;
        }
        // 4.
        self.seats.as_ref().ok_or(Error::Unobtainable)
    }
}
