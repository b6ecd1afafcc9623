//! Who waits for whom, and who waits for each other.
//!
//! Two kinds of things wait. A pending request waits for
//!
//! - every lock of its name that conflicts with it: a *hard* block,
//! - the last request before it in its queue that conflicts with it: a *soft* block. Queues are never
//!   reordered, so this holds also where the lock itself could be shared.
//!
//! A held lock waits for the requests that were made [inside](super::Entry::inside) it: whoever holds
//! it goes on once they are answered. So what waits, waits for all of its blocks, and what is in a cycle
//! of blocks, or waits for one, waits for ever, unless somebody gives up or is ended. That such a cycle
//! *is* a deadlock is known; that there is none, only as far as it was said what is inside what.
//!
//! Where nobody has said so, an agent that holds one name and waits for another may do the one under the
//! other, or in two tasks that know nothing of each other. A cycle that needs such a step is a *possible*
//! deadlock, and nothing is ever done because of it.
//!
//! All of this is about one [`Overview`](super::Overview), takes time in proportion to it (with a bound
//! on the number of deadlocks that are told), and has no clock.

mod cycles;
mod deadlocks;
mod graph;
#[cfg(test)]
mod tests;
mod tree;
mod watcher;
mod words;

pub use self::{
    deadlocks::{Deadlock, InDeadlock, Member, deadlocks},
    graph::Why,
    tree::{Root, Row, tree},
    watcher::Watcher,
};
