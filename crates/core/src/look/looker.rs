//! Looking at what a user agent's agents hold and wait for.

use std::{fmt, time::Duration};

use super::{News, Overview};
use crate::{Error, host::Looking};

/// A look at the buckets of one user agent, by [`UserAgent::look`](crate::UserAgent::look): what there is,
/// and then what happens, for as long as anybody wants to know.
///
/// All calls block. Nobody who locks waits for it, however slow it is: what it does not ask for in time
/// is not kept for it, and it is told how much it has missed, and what there is by then.
pub struct Looker(Box<dyn Looking>);

impl Looker {
    pub(crate) fn new(looking: Box<dyn Looking>) -> Self {
        Self(looking)
    }

    /// What there is, as far as it was told by [`next`](Self::next). Empty before its first news.
    pub fn overview(&self) -> &Overview {
        self.0.overview()
    }

    /// Waits for news, for no longer than this; `None` if there were none. The first are
    /// [`News::Anew`]. Of a look that asks what there is [once](super::LookOptions::once), all are.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if the reach is not to be had, or does not tell. It can be called again.
    /// Where this process keeps the locks there is none.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<News>, Error> {
        self.0.next(timeout)
    }
}

impl fmt::Debug for Looker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Looker").field(&self.0).finish()
    }
}
