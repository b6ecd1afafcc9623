//! Who waits for whom, and who waits for each other.
//!
//! Two kinds of things wait. A pending request waits for
//!
//! - every lock of its name that conflicts with it: a *hard* block,
//! - the last request before it in its queue that conflicts with it: a *soft* block. Queues are never
//!   reordered, so this holds also where the lock itself could be shared.
//!
//! A held lock waits for the requests that were made [inside](super::Entry::inside) it: its holder goes
//! on once these requests are answered. Whatever waits, waits for all of its blocks. So everything that
//! is in a cycle of blocks, or waits for such a cycle, waits for ever, unless somebody gives up or is
//! ended. A cycle of such blocks is certainly a deadlock if all its members were there at one moment,
//! and no request in it [may give up](super::Patience::MayGiveUp) by itself. One overview alone does not
//! prove that they were there at one moment: see [`Watcher`]. That there are no other deadlocks is only
//! certain if every request has said what it is inside of.
//!
//! If nobody has said so, an agent that holds one name and waits for another may do this in one task,
//! which waits inside its lock, or in two tasks that know nothing of each other. A cycle that needs such
//! a step is a *possible* deadlock, and nothing is ever done because of it.
//!
//! All functions here work on one [`Overview`](super::Overview), and have no clock. The time that they
//! take is proportional to the overview. For this, the number of deadlocks that are found is bounded.

mod cycles;
mod deadlocks;
mod graph;
mod graph_builder;
#[cfg(test)]
mod tests;
mod tree;
mod watcher;
mod words;

pub(crate) use self::words::who;
pub use self::words::{is_interpreter, process, program};

pub use self::{
    deadlocks::{Deadlock, InDeadlock, Member, deadlocks},
    graph::Why,
    tree::{Root, Row, tree},
    watcher::Watcher,
};
