//! What a reach that others share shows to those who look: an inspection, and what is worth a question only
//! to them.

use std::time::Duration;

use crate::{Inspected, Inspection};

/// What is held and what is pending in a bucket, as those see it who [look](crate::look).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sighting {
    /// As [`Inspection::held`].
    pub held: Vec<Sighted>,
    /// As [`Inspection::pending`].
    pub pending: Vec<Sighted>,
}

/// One lock or one pending request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sighted {
    /// What everybody is told of it.
    pub inspected: Inspected,
    /// The reach has not heard of its holder when it should have. `None` if it has, or does not tell.
    pub unheard: Option<Unheard>,
}

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
        Self { held, pending }
    }
}

impl Sighted {
    /// One of which no more is known: for a [`Backend`](crate::host::Backend).
    pub fn new(inspected: Inspected) -> Self {
        Self { inspected, unheard: None }
    }
}

impl From<Inspection> for Sighting {
    fn from(inspection: Inspection) -> Self {
        let sighted = |all: Vec<_>| all.into_iter().map(Sighted::new).collect();
        Self::new(sighted(inspection.held), sighted(inspection.pending))
    }
}
