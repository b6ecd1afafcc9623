//! What a reach that machines share says of locks and requests besides, for those who [look](crate::look). The
//! reach may have to ask for it.

use std::{sync::Arc, time::Duration};

use navlock_engine::Patience;

use crate::look::LockId;

/// What is known of one lock or one pending request where machines share the locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Further {
    /// Says that the reach should have heard of the holder and has not. `None` if the reach has heard
    /// of the holder, or does not tell.
    pub unheard: Option<Unheard>,
    /// The number of its id, by which all machines know it.
    pub serial: u64,
    /// The order of requests, across all buckets: by revision, and then by the place within the
    /// revision. It says nothing about locks.
    pub order: (u64, u64),
    /// For a request: the locks inside which it was made, as far as they are known and were held at
    /// that time.
    pub inside: Vec<LockRef>,
    /// For a request: how long it waits, as far as its agent has said so.
    pub patience: Patience,
}

/// A lock, and where it is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockRef {
    /// The bucket of the lock.
    pub bucket: Arc<str>,
    /// The name of the lock.
    pub name: NameRef,
    /// The lock.
    pub id: LockId,
}

/// A reference to a name in its bucket, which means the same name for all who use a reach. It may be
/// shorter than the name. Only the reach can read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameRef(pub Arc<[u8]>);

/// Says that the reach has not heard of a holder for longer than is usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unheard {
    /// For how long the reach has not heard of the holder, to a second.
    pub silent: Duration,
    /// How long the holder keeps its locks at most, if the reach hears nothing more of it.
    pub left: Duration,
}
