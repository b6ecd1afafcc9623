//! Looking at what a user agent's agents hold and wait for.

use std::{fmt, time::Duration};

use super::{News, Overview};
use crate::{Error, host::Looking};

/// A look at the buckets of one user agent, by [`UserAgent::look`](crate::UserAgent::look). It shows what
/// there is, and then what happens, as long as the caller goes on asking.
///
/// All calls block. Nobody who takes a lock waits for a looker, however slow the looker is. Events that
/// a looker does not ask for in time are not kept: the looker is then told how many it has missed, and
/// what there is now.
pub struct Looker(Box<dyn Looking>);

impl Looker {
    pub(crate) fn new(looking: Box<dyn Looking>) -> Self {
        Self(looking)
    }

    /// What there is, as far as [`next`](Self::next) has told. Empty before the first news.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let user_agent = UserAgent::new();
    /// # let locks = user_agent.lock_manager("app");
    /// use navlock::look::LookOptions;
    ///
    /// let guard = locks.lock("db").blocking()?;
    /// let options = LookOptions::default().once();
    /// let mut looker = user_agent.look(options).expect("this process keeps the locks");
    /// looker.next(None)?;
    /// for (name, queue) in &looker.overview().queues {
    ///     println!("{}: {} hold, {} wait", name.name, queue.held.len(), queue.pending.len());
    /// }
    /// # assert_eq!(looker.overview().queues.len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn overview(&self) -> &Overview {
        self.0.overview()
    }

    /// Waits for news, for no longer than this. `None` if there was none. The first news is
    /// [`News::Anew`]. In a look that asks [once](super::LookOptions::once) what there is, all news
    /// is.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// # let user_agent = UserAgent::new();
    /// # let locks = user_agent.lock_manager("app");
    /// use std::time::Duration;
    ///
    /// use navlock::look::{LookOptions, News};
    ///
    /// let mut looker = user_agent.look(LookOptions::default()).expect("this process keeps the locks");
    /// assert_eq!(looker.next(None)?, Some(News::Anew { missed: 0 }));
    /// // Nothing has happened yet.
    /// assert_eq!(looker.next(Some(Duration::ZERO))?, None);
    /// let guard = locks.lock("db").blocking()?;
    /// assert!(matches!(looker.next(None)?, Some(News::Events(_))));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if the reach cannot be reached, or does not tell. The method can be
    /// called again. Where this process keeps the locks, there are no errors.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<News>, Error> {
        self.0.next(timeout)
    }
}

impl fmt::Debug for Looker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Looker").field(&self.0).finish()
    }
}
