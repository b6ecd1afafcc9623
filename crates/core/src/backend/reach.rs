//! Reaches: where buckets come from, and what is asked of a reach as a whole.

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

    /// Whether an agent has its locks and requests for a limited time only, which is renewed as
    /// long as the agent's process lives; see [`Backend::ends`]. Until this time is over, another
    /// process can take over the locks and requests; see [`Backend::reclaim`].
    fn is_leased(&self) -> bool {
        false
    }

    /// Bytes by which another process, if this one is killed, can end what this process has for all of
    /// its agents together and for none of them alone. [`revoke`](Self::revoke) takes these bytes, once
    /// each agent that lives has been [reclaimed](Backend::reclaim). They mean nothing to anybody else.
    /// `None` if there is nothing to end.
    fn lease(&self) -> Option<Vec<u8>> {
        None
    }

    /// For how long the work under a lock may still go on after the lock is lost with its lease. Until
    /// then, nobody else can have the lock. Zero where there are no leases.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Ends leases that agents had through other processes, which are dead, with all locks and
    /// requests under these leases; see [`Backend::lease`]. Also ends what those processes had
    /// themselves; see [`lease`](Self::lease). A lease that is not there any more, or belonged to
    /// another reach, is passed over.
    ///
    /// Returns whether none of the leases is there any more. There is one try, in a bounded time.
    fn revoke(&self, leases: Vec<Vec<u8>>) -> RevokeFuture<'_> {
        let _ = leases;
        Box::pin(ready(true))
    }

    /// Takes a name of a bucket from all its holders at one moment, if each of them is in `seen`:
    /// the holders that were seen, each with the token that it had then. The waiters are next. This
    /// is for people, who decide by what they have seen. Only a reach whose locks others than this
    /// user agent hold needs this method: otherwise the user agent itself knows who holds what.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the reach cannot do this. [`Error::Unreachable`] if the service that
    /// keeps the locks does not answer: then the name may have been taken all the same.
    fn evict(
        &self,
        bucket: &str,
        name: &ResourceName,
        seen: Vec<(ClientId, FencingToken)>,
    ) -> EvictFuture<'_> {
        let _ = (bucket, name, seen);
        let why = "this reach cannot steal from the holders that were seen alone; another agent may \
                   hold the name by then";
        Box::pin(ready(Err(Error::refused(why))))
    }

    /// Says, for people, that the service that keeps the locks has not answered, and for how long,
    /// as far as that is known. The text means nothing to programs.
    /// `None` if the service answers, or was not asked.
    fn outage(&self) -> Option<String> {
        None
    }

    /// Looks at all buckets that are seen through this reach. `None` if the reach does not show what
    /// happens.
    fn look(&self, options: &LookOptions) -> Option<Box<dyn Looking>> {
        let _ = options;
        None
    }
}

/// The outcome of [`Reach::evict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The name was taken from this many holders.
    From(u64),
    /// Nobody held it.
    Free,
    /// Somebody holds it who was not seen to hold it. It was taken from nobody.
    HeldByOthers,
}

/// The part of a [`Looker`](crate::look::Looker) that the reach implements.
pub trait Looking: fmt::Debug + Send {
    /// What there is, as far as [`next`](Self::next) has told.
    fn overview(&self) -> &Overview;

    /// Waits for news, for no longer than this. `None` if there was none.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`]. After this error, the method can be called again.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<News>, Error>;
}

/// The future of [`Reach::evict`].
pub type EvictFuture<'a> = Pin<Box<dyn Future<Output = Result<Eviction, Error>> + Send + 'a>>;

/// The future of [`Reach::revoke`].
pub type RevokeFuture<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
