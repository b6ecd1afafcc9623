//! The seam: what a store gives, and what it is told.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use navlock_core::Error;

use crate::{key_store::Link, messages::Message, table::Table};

/// A store in which machines meet, as one connection uses it. It lives on a thread of its own, and is told there
/// what callers want.
///
/// # Calling order
///
/// After [`connect`](Self::connect), the thread calls
///
/// - [`handle_message`](Self::handle_message) for what callers want;
/// - [`next`](Self::next) while there is nothing of that;
/// - [`quit`](Self::quit) when the last caller has gone, and then `next` until the store [is done](Self::is_done).
pub trait Store: Sized + 'static {
    /// What the store is called in messages to people.
    const NAME: &'static str;

    /// The longest name of a lock that the store takes, in bytes.
    const LONGEST_NAME: usize;

    /// Which store it is, and how it is used.
    type Options: Send + 'static;

    /// Connects to the store, and checks that it can be used.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if the store does not answer, [`Error::Refused`] if it cannot be used so.
    fn connect(
        options: Self::Options,
        shared: Arc<Shared>,
    ) -> impl Future<Output = Result<Connected<Self>, Error>>;

    /// Begins what a caller wants. The outcome goes into the table, or into the answer of the message.
    fn handle_message(&mut self, message: Message);

    /// Waits until the store has said something, or something is due, and does what follows.
    ///
    /// # Cancel safety
    ///
    /// It is dropped whenever a caller wants something. Nothing that the store has said may be lost then.
    fn next(&mut self) -> impl Future<Output = ()>;

    /// Begins to end the connection. What agents have that are left is for another connection to take over, if
    /// there are any, and else the lease of the connection ends.
    fn quit(&mut self);

    /// Whether the store was told everything, and has answered.
    fn is_done(&self) -> bool;
}

/// A connection that stands.
#[derive(Debug)]
pub struct Connected<S> {
    /// The store.
    pub store: S,
    /// What callers see of the connection themselves.
    pub link: Box<dyn Link>,
    /// For how long the work under a lock may go on after the lock is lost with its lease.
    pub grace: Duration,
}

/// The state that the callers and the thread share.
///
/// # Invariant
///
/// No waker is called or dropped while the table is locked.
#[derive(Debug, Default)]
pub struct Shared(Mutex<Table>);

impl Shared {
    /// The state of a connection to the store that is called so in messages.
    pub(crate) fn new(store: &'static str) -> Self {
        Self(Mutex::new(Table::new(store)))
    }

    /// Locks the table.
    pub fn table(&self) -> MutexGuard<'_, Table> {
        // A poisoned mutex may be used: only a waker's `clone` can panic while the table is locked,
        // and it is called before anything is changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
