//! The description of a lock that a callback gets.

use navlock_engine::{FencingToken, Mode, ResourceName};

/// A description of a granted lock, which a callback gets. To keep the description does not hold
/// the lock.
///
/// Spec: `Lock`, <https://w3c.github.io/web-locks/#api-lock>
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    pub(crate) name: ResourceName,
    pub(crate) mode: Mode,
    pub(crate) fencing_token: FencingToken,
}

impl Lock {
    pub(crate) fn new(name: ResourceName, mode: Mode, fencing_token: FencingToken) -> Self {
        Self { name, mode, fencing_token }
    }

    /// The name that is locked.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// assert_eq!(locks.lock("db").blocking()?.name(), "db");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn name(&self) -> &ResourceName {
        &self.name
    }

    /// The mode in which it is locked.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// assert_eq!(locks.lock("db").shared().blocking()?.mode(), navlock::Mode::Shared);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A number larger than that of every earlier grant of this name in this bucket, by which a
    /// resource can refuse a writer that lost its lock without noticing.
    ///
    /// The numbers grow as long as the user agent lives.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let locks = UserAgent::new().lock_manager("app");
    /// let first = locks.lock("db").blocking()?.fencing_token();
    /// let second = locks.lock("db").blocking()?.fencing_token();
    /// assert!(first < second);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.fencing_token
    }
}
