//! What somebody who looks is told: what there is, and what happens.

use navlock_core::look::Event;

use crate::ids::Moment;

/// Something that there is, or that has happened. The times within its change are not sent.
pub type LookEvent = Event<Moment>;
