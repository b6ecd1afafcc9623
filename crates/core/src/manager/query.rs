//! What an agent can ask about its bucket: who holds what, and who waits.

use navlock_engine::ResourceName;

use super::LockManager;
use crate::{Error, Inspection, LockManagerSnapshot, Position};

impl LockManager {
    /// What is held and what is pending in the whole bucket, at one moment, for diagnosis.
    ///
    /// Shows every request whose future was polled before this call. When the caller looks at the
    /// answer, the state may have changed.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-query>
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # navlock::blocking::block_on(async {
    /// let guard = locks.lock("db").await?;
    /// let state = locks.query().await?;
    /// assert_eq!(state.held[0].name, "db");
    /// assert!(state.pending.is_empty());
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotFullyActive`], [`Error::Terminated`] or [`Error::Closed`];
    /// [`Error::Unobtainable`]; [`Error::Unreachable`].
    pub async fn query(&self) -> Result<LockManagerSnapshot, Error> {
        self.0.obtain_lock_manager()?.agent.backend().query().await
    }

    /// What `query` tells, of all names or of one, with more than the specification has a place
    /// for: who has each lock or request, for how long, and with which fencing token, as far as the
    /// reach knows.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # navlock::blocking::block_on(async {
    /// let guard = locks.lock("db").await?;
    /// for held in locks.inspect(None).await?.held {
    ///     let by = held.agent.map_or_else(|| "somebody".to_owned(), |agent| agent.command.clone());
    ///     println!("{} is held by {by} ({:?})", held.lock.name, held.age);
    /// }
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn inspect(&self, name: Option<ResourceName>) -> Result<Inspection, Error> {
        self.0.obtain_lock_manager()?.agent.backend().inspect(name).await
    }

    /// Where this agent stands in the queue of a name, and who holds the name. This is what a
    /// waiter wants to know, without the rest of the queue.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// # use std::{future::Future, pin::pin, task::{Context, Waker}};
    /// # navlock::blocking::block_on(async {
    /// let guard = locks.lock("db").await?;
    /// let mut waits = pin!(locks.lock("db").into_future());
    /// # assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    /// let position = locks.position("db".try_into()?).await?;
    /// assert_eq!((position.holders, position.ahead), (1, Some(0)));
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn position(&self, name: ResourceName) -> Result<Position, Error> {
        self.0.obtain_lock_manager()?.agent.backend().position(name, self.client_id()).await
    }
}
