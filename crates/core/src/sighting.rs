//! What a reach that others share shows to those who look: an inspection, and what is worth a question only
//! to them.

use std::{sync::Arc, time::Duration};

use crate::{Inspected, Inspection};

/// What is held and what is pending in a bucket, as those see it who [look](crate::look).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sighting {
    /// As [`Inspection::held`].
    pub held: Vec<Sighted>,
    /// As [`Inspection::pending`].
    pub pending: Vec<Sighted>,
    /// Names that somebody can take without asking, until others ask: whether any of them is held was not asked.
    pub owned: Vec<Sighted>,
    /// As [`Inspection::left_out`].
    pub left_out: u64,
}

/// One lock or one pending request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sighted {
    /// What everybody is told of it.
    pub inspected: Inspected,
    /// The reach has not heard of its holder when it should have. `None` if it has, or does not tell.
    pub unheard: Option<Unheard>,
    /// A number that no other lock or request of its agent has or has had, and the same as a request and as a
    /// lock. 0 if the reach has no such thing.
    pub serial: u64,
    /// Which request came before which, in all buckets: by revision and place. Of locks it says nothing.
    pub order: (u64, u64),
    /// Of a lock, what others call it that are inside it.
    pub name: Option<LockRef>,
    /// Of a request, the locks inside which it was made, as far as that is known and they were held then.
    pub inside: Vec<LockRef>,
    /// Of a request, whether it may give up by itself. `false` if nobody said so.
    pub may_give_up: bool,
}

/// A lock, as all who use a reach can name it to each other: this one and no other, as long as it is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockRef {
    /// The bucket that it is in.
    pub bucket: Arc<str>,
    /// Of which name it is.
    pub name: NameRef,
    /// What it is called there, which means something to the reach alone.
    pub bytes: [u8; 32],
}

/// A name in its bucket, as all who use a reach can name it to each other: as short as the reach needs it.
/// What it is means something to the reach alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameRef(pub Arc<[u8]>);

/// That the reach has not heard of somebody for longer than it should have taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unheard {
    /// For how long it has not, to a second.
    pub silent: Duration,
    /// For how long the other still has what it has, at most, if that stays so.
    pub left: Duration,
}

impl Sighting {
    /// These locks and requests: for a [`Backend`](crate::host::Backend).
    pub fn new(held: Vec<Sighted>, pending: Vec<Sighted>) -> Self {
        Self { held, pending, owned: Vec::new(), left_out: 0 }
    }
}

impl Sighted {
    /// One of which no more is known: for a [`Backend`](crate::host::Backend).
    pub fn new(inspected: Inspected) -> Self {
        let (serial, order, name, inside) = (0, (0, 0), None, Vec::new());
        Self { inspected, unheard: None, serial, order, name, inside, may_give_up: false }
    }
}

impl From<Inspection> for Sighting {
    fn from(inspection: Inspection) -> Self {
        let sighted = |all: Vec<_>| all.into_iter().map(Sighted::new).collect();
        let left_out = inspection.left_out;
        Self { left_out, ..Self::new(sighted(inspection.held), sighted(inspection.pending)) }
    }
}
