//! What to look at, and what is new to who looks.

use navlock_engine::ResourceName;

use super::Event;

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
