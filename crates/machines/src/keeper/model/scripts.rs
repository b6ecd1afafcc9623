//! The scripts of the scenes.

use navlock_core::{
    Mode::*,
    host::RequestKind::{self, *},
};

use super::script::Act::{self, *};

pub(super) const X: RequestKind = Wait(Exclusive);
pub(super) const S: RequestKind = Wait(Shared);
/// Takes the lock and gives it back, or gives up before that.
pub(super) const WRITER: &[Act] = &[Request("a", X), Finish(0)];
pub(super) const READER: &[Act] = &[Request("a", S), Finish(0)];
pub(super) const THIEF: &[Act] = &[Request("a", Steal), Finish(0)];
/// Takes the lock from others and keeps it.
pub(super) const ROBBER: &[Act] = &[Request("a", Steal)];
pub(super) const TRIER: &[Act] = &[Request("a", IfAvailable(Exclusive)), Finish(0)];
/// Agents of one machine that do not wait.
pub(super) const TRIERS: &[Act] = &[
    RequestBy(0, "a", IfAvailable(Exclusive)),
    RequestBy(1, "a", IfAvailable(Exclusive)),
    RequestBy(0, "a", IfAvailable(Shared)),
    RequestBy(1, "a", IfAvailable(Exclusive)),
    Finish(0),
    Finish(1),
    Finish(2),
    Finish(3),
];
pub(super) const TWICE: &[Act] = &[Request("a", X), Request("a", X), Finish(0), Finish(1)];
pub(super) const AGAIN: &[Act] = &[Request("a", X), Finish(0), Request("a", X), Finish(1)];
pub(super) const THIEF_AFTER: &[Act] = &[Request("a", X), Finish(0), Request("a", Steal)];
/// Takes the lock and keeps it.
pub(super) const HOLDER: &[Act] = &[Request("a", X)];
/// Takes the lock again, when the machine owns the name, and keeps it.
pub(super) const HOLDS_AGAIN: &[Act] = &[Request("a", X), Finish(0), Request("a", X)];
pub(super) const READS: &[Act] = &[Request("a", S)];
/// Several agents of one machine.
pub(super) const CROWD: &[Act] = &[
    RequestBy(0, "a", X),
    RequestBy(1, "a", X),
    RequestBy(2, "a", X),
    Finish(0),
    Finish(1),
    Finish(2),
];
pub(super) const CROWD_AGAIN: &[Act] = &[
    RequestBy(0, "a", X),
    Finish(0),
    RequestBy(0, "a", X),
    RequestBy(1, "a", S),
    RequestBy(2, "a", X),
    Finish(1),
    Finish(2),
    RequestBy(1, "a", IfAvailable(Exclusive)),
    End(2),
    Finish(4),
];
/// Of several agents that wait, one takes the lock from those of its own machine.
pub(super) const CROWD_THIEF: &[Act] = &[
    RequestBy(0, "a", X),
    RequestBy(1, "a", X),
    RequestBy(2, "a", X),
    Finish(0),
    RequestBy(0, "a", Steal),
    Finish(1),
    Finish(3),
    Finish(2),
];
/// Of several agents that wait, one ends.
pub(super) const CROWD_ENDS: &[Act] = &[
    RequestBy(0, "a", X),
    RequestBy(1, "a", X),
    RequestBy(2, "a", X),
    Finish(0),
    End(1),
    RequestBy(0, "a", X),
    Finish(2),
];
/// After a kill, one of two agents goes on with what it had under the earlier lease, and the other
/// makes the machine the owner of the name.
pub(super) const RECLAIMED_BESIDE: &[Act] = &[
    RequestBy(0, "b", X),
    RequestBy(1, "a", X),
    Finish(1),
    RequestBy(1, "a", X),
    RequestBy(0, "a", X),
    RequestBy(1, "a", X),
    Finish(2),
    Finish(3),
    Finish(4),
];
/// Two agents are next behind one that holds, and another agent comes later.
pub(super) const RUN: &[Act] = &[
    RequestBy(0, "a", X),
    RequestBy(0, "a", X),
    RequestBy(1, "a", X),
    Finish(0),
    RequestBy(0, "a", X),
    Finish(1),
    Finish(2),
    Finish(3),
];
/// The shortest form of this.
pub(super) const SHORT_RUN: &[Act] =
    &[Request("a", X), Request("a", X), Request("a", X), Finish(0), Finish(1)];
pub(super) const READER_AGAIN: &[Act] = &[Request("a", S), Finish(0), Request("a", S)];
pub(super) const READERS_AGAIN: &[Act] = &[
    RequestBy(0, "a", S),
    Finish(0),
    RequestBy(0, "a", S),
    RequestBy(1, "a", S),
    RequestBy(0, "a", X),
    Finish(1),
];
/// Two agents of one machine, of which one holds another name beside the name that both wait for.
pub(super) const BESIDE: &[Act] =
    &[RequestBy(0, "b", X), RequestBy(1, "a", X), RequestBy(1, "a", X), RequestBy(0, "a", X)];

/// Of two agents of one machine, one ends with what it has and what it waits for.
pub(super) const ENDS: &[Act] = &[
    RequestBy(0, "a", X),
    RequestBy(0, "b", X),
    RequestBy(1, "b", X),
    RequestBy(0, "a", X),
    End(0),
];

/// A thief that gives up or ends, perhaps before it has heard anything.
pub(super) const THIEF_ENDS: &[Act] = &[RequestBy(1, "a", Steal), End(1)];

/// Asks what is held.
pub(super) const LOOKER: &[Act] = &[Query];
/// The machine owns the name from the first release on.
pub(super) const LOOKED_AT: &[Act] =
    &[Request("a", X), Finish(0), Request("a", X), Request("b", X), Finish(1), Finish(2)];

/// Nobody uses the bucket any more. The machine uses nothing, or another bucket.
pub(super) const LEAVES: &[Act] = &[Request("a", X), End(0), Close];
pub(super) const MOVES: &[Act] = &[OpenElsewhere, Request("a", X), End(0), Close];

/// Agents describe themselves after they have made requests.
pub(super) const DESCRIBED: &[Act] =
    &[RequestBy(0, "a", X), RequestBy(1, "a", X), Describe(1), Describe(0), Finish(0)];
