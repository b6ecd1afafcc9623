//! What to look at, and what is new to a looker.

use navlock_engine::ResourceName;

use super::{Change, Event};

/// What to look at.
///
/// ```
/// # use navlock::{Error, UserAgent};
/// # let user_agent = UserAgent::new();
/// # let locks = user_agent.lock_manager("app");
/// use navlock::look::LookOptions;
///
/// // What there is of one lock, and nothing afterwards.
/// let options = LookOptions::default().bucket("app").name("db".try_into()?).once();
/// let looker = user_agent.look(options);
/// # Ok::<(), Error>(())
/// ```
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
    /// Looks at this bucket only. Without this option, a look is at all buckets.
    #[must_use]
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.bucket = Some(bucket.into());
        self
    }

    /// Looks at this name only. Without this option, a look is at all names. All clients and agents
    /// are seen in either case.
    #[must_use]
    pub fn name(mut self, name: ResourceName) -> Self {
        self.name = Some(name);
        self
    }

    /// Asks what there is, and not what happens afterwards.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Whether this bucket is looked at.
    #[doc(hidden)]
    pub fn wants_bucket(&self, bucket: &str) -> bool {
        self.bucket.as_deref().is_none_or(|wanted| wanted == bucket)
    }

    /// Whether this name of this bucket is looked at.
    #[doc(hidden)]
    pub fn wants_name(&self, bucket: &str, name: &ResourceName) -> bool {
        self.wants_bucket(bucket) && self.name.as_ref().is_none_or(|wanted| wanted == name)
    }

    /// Whether a change is seen. `bucket` is its bucket, if the change does not say so itself.
    pub(super) fn wants(&self, bucket: Option<&str>, change: &Change) -> bool {
        match change.name() {
            Some(name) => self.wants_name(&name.bucket, &name.name),
            None => bucket.or(change.bucket()).is_none_or(|bucket| self.wants_bucket(bucket)),
        }
    }
}

/// What is new to a looker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The overview was made anew: at the beginning, with a new broker, or because more has happened
    /// than could be told.
    Anew {
        /// How many events were missed. Their effects are in the overview.
        missed: u64,
    },
    /// These events have happened. They are in the overview already.
    Events(Vec<Event>),
    /// There is no broker, so nobody holds anything. This does not occur where this process keeps
    /// the locks.
    NoBroker,
}
