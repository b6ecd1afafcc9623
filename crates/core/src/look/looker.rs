//! Looking at what a user agent's agents hold and wait for.

use std::{fmt, time::Duration};

use navlock_engine::ResourceName;

use super::{Event, Overview};
use crate::{Error, host::Looking};

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookOptions {
    /// See [`bucket`](Self::bucket()).
    pub bucket: Option<String>,
    /// See [`name`](Self::name()).
    pub name: Option<ResourceName>,
    /// See [`once`](Self::once()).
    pub once: bool,
}

/// What is new to who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The overview was made anew: at the beginning, with a new broker, or because more has happened
    /// than could be told.
    Anew {
        /// How many events were missed, and are in the overview all the same.
        missed: u64,
    },
    /// This has happened, and is in the overview by now.
    Events(Vec<Event>),
    /// There is no broker: nobody holds anything. Never where this process keeps the locks.
    NoBroker,
}

/// A look at the buckets of one user agent, by [`UserAgent::look`](crate::UserAgent::look): what there is,
/// and then what happens, for as long as anybody wants to know.
///
/// All calls block. Nobody who locks waits for it, however slow it is: what it does not ask for in time
/// is not kept for it, and it is told how much it has missed, and what there is by then.
pub struct Looker(Box<dyn Looking>);

impl LookOptions {
    /// Looks at this bucket only; without this, at all.
    #[must_use]
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.bucket = Some(bucket.into());
        self
    }

    /// Looks at this name only; without this, at all. Clients and agents are seen all the same.
    #[must_use]
    pub fn name(mut self, name: ResourceName) -> Self {
        self.name = Some(name);
        self
    }

    /// Asks what there is, and not what happens then.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }
}

impl Looker {
    pub(crate) fn new(looking: Box<dyn Looking>) -> Self {
        Self(looking)
    }

    /// What there is, as far as it was told by [`next`](Self::next). Empty before its first news.
    pub fn overview(&self) -> &Overview {
        self.0.overview()
    }

    /// Waits for news, for no longer than this; `None` if there were none. The first are
    /// [`News::Anew`]. Of a look that asks what there is [once](LookOptions::once), all are.
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
