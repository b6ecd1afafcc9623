//! A reach: where buckets come from, and what is asked of it as a whole.

use std::{
    fmt,
    future::{Future, ready},
    pin::Pin,
    time::Duration,
};

use navlock_engine::{FencingToken, ResourceName};

use super::Backend;
use crate::{
    ClientId, Error,
    look::{LookOptions, News, Overview},
};

/// Where buckets come from: one process, one machine, or many.
pub trait Reach: fmt::Debug + Send + Sync {
    /// Opens the bucket of this name. A user agent does so once at a time; whether two user agents
    /// that open the same name share its locks is the reach's affair.
    fn open_bucket(&self, name: &str) -> Box<dyn Backend>;

    /// Whether what an agent has is its own for a time only, which is renewed as long as its
    /// process lives; see [`Backend::ends`]. Another process can go on with it in that time, see
    /// [`Backend::recall`].
    fn is_leased(&self) -> bool {
        false
    }

    /// What another process needs to end what this one has for all of its agents together, and for none of
    /// them alone, should it be killed: for [`revoke`](Self::revoke), once each agent that lives has been
    /// [recalled](Backend::recall). Of no meaning to anybody else. `None` if there is nothing.
    fn lease(&self) -> Option<Vec<u8>> {
        None
    }

    /// How long what works under a lock may go on after that is lost with its lease, until others can have it at the
    /// earliest. Nothing where there are no leases.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Ends leases that agents had through other processes, which are dead, with all that is under
    /// them; see [`Backend::lease`], and what those processes had themselves; see [`lease`](Self::lease). Of
    /// one that is not there any more, or was another reach's, nothing
    /// happens.
    ///
    /// Whether none of them is there by now. It is tried once, in a bounded time.
    fn revoke(&self, leases: Vec<Vec<u8>>) -> RevokeFuture<'_> {
        let _ = leases;
        Box::pin(ready(true))
    }

    /// Takes a name of a bucket from all who hold it, at one moment, if those are all among the ones that were seen
    /// to hold it, each with its token; who waits is next. For people, who decide by what they have seen. Only for
    /// a reach whose names are taken by others than this user agent as well: where there are none, the user agent
    /// knows by itself who holds what.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if it cannot do so, [`Error::Unreachable`] if whoever keeps the locks does not answer: then
    /// it may have been done.
    fn evict(
        &self,
        bucket: &str,
        name: &ResourceName,
        seen: Vec<(ClientId, FencingToken)>,
    ) -> EvictFuture<'_> {
        let _ = (bucket, name, seen);
        let why = "somebody else may take the name in the moment in which it is taken from who was seen to hold it";
        Box::pin(ready(Err(Error::Refused(why.to_owned()))))
    }

    /// What there is to be known of it at this moment, for people: what, and how it is. Of no meaning to
    /// programs.
    fn details(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// That whoever keeps the locks, or a part of them, has not answered, as far as that is known, and for how long;
    /// for people, and of no meaning to programs. `None` if it answers, or was not asked.
    fn outage(&self) -> Option<String> {
        None
    }

    /// Looks at all buckets that are seen through this reach. `None` if it does not show what happens.
    fn look(&self, options: &LookOptions) -> Option<Box<dyn Looking>> {
        let _ = options;
        None
    }
}

/// What came of [`Reach::evict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// It was taken from so many.
    From(u64),
    /// Nobody held it.
    Free,
    /// Somebody holds it who was not seen to. It was taken from nobody.
    HeldByOthers,
}

/// A look that somebody has: what is behind a [`Looker`](crate::look::Looker).
pub trait Looking: fmt::Debug + Send {
    /// What there is, as far as it was told.
    fn overview(&self) -> &Overview;

    /// Waits for news, for no longer than this; `None` if there were none.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`]. It can be called again.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<News>, Error>;
}

/// The future of [`Reach::evict`].
pub type EvictFuture<'a> = Pin<Box<dyn Future<Output = Result<Eviction, Error>> + Send + 'a>>;

/// The future of [`Reach::revoke`].
pub type RevokeFuture<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
