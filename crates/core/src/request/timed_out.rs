//! Requests that take too long.

use std::time::Duration;

use super::{
    Grant, LockFuture, Named,
    future::{Pending, State},
};
use crate::{Error, Position, blocking::block_on_timeout, look::who};

/// For how long another process is asked who holds the lock. It answers within a millisecond, unless it
/// is stopped.
const ANSWER: Duration = Duration::from_millis(200);

impl<G: Grant, N: Named> LockFuture<'_, G, N> {
    /// Blocks the thread until the request is answered, for no longer than `timeout`.
    pub(super) fn block_for(mut self, timeout: Duration) -> Result<G, Error> {
        block_on_timeout(&mut self, timeout).unwrap_or_else(|| Err(self.time_out()))
    }
}

impl<G, N> LockFuture<'_, G, N> {
    /// Aborts the request because it has taken too long, for callers that have a clock of their own. Returns
    /// [`Error::TimedOut`], which says who holds the lock, if that can be found out within 200 ms; the thread
    /// blocks meanwhile.
    ///
    /// ```
    /// # use navlock::{Error, LockOptions, UserAgent, blocking::block_on_timeout};
    /// # use std::time::Duration;
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// let mut next = locks.lock("db").into_owned();
    /// assert!(block_on_timeout(&mut next, Duration::ZERO).is_none());
    /// assert!(matches!(next.time_out(), Error::TimedOut(_)));
    /// # drop(guard);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn time_out(mut self) -> Error {
        let told = self.timed_out();
        let name = self.pending().map(|(name, _)| format!("{name:?}: "));
        Error::TimedOut(name.unwrap_or_default() + &told)
    }

    /// Notes that the request has taken too long, and is about to be dropped. Returns what there is to
    /// tell of that.
    pub(crate) fn timed_out(&mut self) -> String {
        let told = "the lock could not be had in the time given";
        let State::Pending(Pending { name, agent, waits, .. }) = &mut self.state else {
            return told.to_owned();
        };
        waits.timed_out();
        let position = agent.backend().position(name.clone(), agent.state.client_id());
        match block_on_timeout(position, ANSWER) {
            Some(Ok(Position { holder: Some(holder), holders, .. })) => {
                let others = if holders > 1 { " and others hold" } else { " holds" };
                format!(
                    "{told}; {}{others} it",
                    who(holder.agent.as_deref(), holder.lock.client_id)
                )
            }
            _ => told.to_owned(),
        }
    }
}
