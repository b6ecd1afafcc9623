//! Looking: who holds what in all buckets, who waits for it, and what happens meanwhile.
//!
//! A reach shows a series of [`Event`]s. The first events tell what there is, the later ones what
//! changes. An [`Overview`] is the sum of the events. So a looker keeps one overview, and applies each
//! event to it. [`UserAgent::look`](crate::UserAgent::look) begins a look, and keeps the overview.
//!
//! ```
//! use std::time::Instant;
//!
//! use navlock::{ClientId, Mode, look::{Change, Entry, Event, LockId, LockName, Overview}};
//!
//! let id = LockId { client_id: ClientId::random(), serial: 1 };
//! let name = LockName::new("default", "db".try_into().unwrap());
//! let entry = Entry::new(id, Mode::Exclusive);
//! let granted = Change::Granted { name: name.clone(), entry };
//!
//! let mut overview = Overview::default();
//! overview.apply(&Event { at: Instant::now(), change: granted });
//! assert_eq!(overview.queues[&name].held[0].id, id);
//! overview.apply(&Event { at: Instant::now(), change: Change::Released { name: name.clone(), id } });
//! assert!(overview.queues.is_empty());
//! ```

mod entries;
mod event;
mod id;
pub(crate) mod journal;
pub(crate) mod lines;
mod looker;
mod news;
mod overview;
pub(crate) mod waits;

pub use navlock_engine::Patience;

pub(crate) use self::waits::who;
pub use self::{
    entries::{Agent, Client, ClientState, Entry, Silence},
    event::{Change, Event},
    id::{LockId, LockName, ParseLockIdError},
    looker::Looker,
    news::{LookOptions, News},
    overview::{Count, Overview, Queue},
    waits::{Deadlock, InDeadlock, Member, Root, Row, Watcher, Why, deadlocks, tree},
};
