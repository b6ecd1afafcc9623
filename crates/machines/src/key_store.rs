//! The seam: a store of keys that have revisions, with transactions, lists, leases and watches.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use navlock_core::Error;
use tokio::sync::{Notify, mpsc};

use crate::{
    call_failure::Failure,
    data::{Answer, KeyValue, Listing, Transaction},
    lease::{LeaseName, Renewal},
    load::Turn,
    times::Times,
    watched::{Order, Watched},
};

/// A store of keys in which machines meet, by one connection. Clones share the connection.
///
/// Each change has a revision, one larger than the one before it, and a transaction is one change. A key knows
/// the revisions that made it and wrote it last, and may stand under a lease, with which it ends.
///
/// The thread of a connection calls [`connect`](Self::connect), and then the others in any order, several at
/// a time. All calls run on that thread's runtime, which has one thread.
///
/// # Failures
///
/// What has no answer within [`Times::call`] fails with [`Failure::Unknown`], as with each error after which it may
/// have been done. The keeper tries again what it still needs.
pub trait KeyStore: Link + Clone + 'static {
    /// What the store is called in messages to people.
    const NAME: &'static str;

    /// The longest name of a lock that the store takes, in bytes.
    const LONGEST_NAME: usize;

    /// Which store it is, and how it is used.
    type Options: Send + 'static;

    /// Connects to the store, and checks that it can be used: nobody has keys of another
    /// [format](crate::keys::FORMAT) in the namespace.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if the store does not answer, [`Error::Refused`] if it cannot be used so.
    fn connect(
        options: Self::Options,
    ) -> impl Future<Output = Result<(Self, KeeperOptions), Error>>;

    /// Does a transaction.
    ///
    /// # Errors
    ///
    /// [`Failure::NoLease`] if it puts a key under a lease that is not there.
    fn transact(
        &self,
        transaction: Transaction,
        turn: Turn,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// Lists the keys that begin with this prefix as of one revision, which is `at`, or 0 for the one that the
    /// store has by then: the first ones, about `most` of them.
    ///
    /// # Errors
    ///
    /// [`Failure::NoRevision`] if the store does not have that revision.
    fn list(
        &self,
        prefix: Vec<u8>,
        most: usize,
        at: i64,
    ) -> impl Future<Output = Result<Listing, Failure>> + Send;

    /// Reads one key, if it is there.
    fn get(
        &self,
        key: Vec<u8>,
        turn: Turn,
    ) -> impl Future<Output = Result<Option<KeyValue>, Failure>> + Send;

    /// Gets a new lease, once it is certain that nobody uses the namespace in another format: it may have been
    /// lost with the store's data which one it has. This waits for no other call.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] if somebody uses another format.
    fn begin_lease(&self) -> impl Future<Output = Result<(LeaseName, Renewal), Failure>> + Send;

    /// Ends a lease, with all keys under it. Tries until the lease ends by itself. This waits for no other call.
    fn revoke(&self, lease: i64) -> impl Future<Output = ()> + Send;

    /// The keys under a lease.
    fn under(&self, lease: i64) -> impl Future<Output = Result<LeaseKeys, Failure>> + Send;

    /// How long a lease lasts still. `None` if there is no such lease, or no answer.
    fn lease_left(&self, lease: i64) -> impl Future<Output = Option<LeaseLeft>> + Send;

    /// Renews a lease as long as this is polled and the store keeps the lease, at each [`pause`] and whenever
    /// that is `wanted`. A new lease is good for this long (`time_to_live`). Without it the lease is another
    /// connection's: it is renewed at once, and the store knows for how long each time.
    ///
    /// Each renewal is told with what a reading of the mailbox has found that was sent with it: the keys that begin
    /// with the prefix `mailbox`, without that prefix. A renewal counts only if the reading has seen everything that
    /// was written before the renewal was sent.
    ///
    /// [`pause`]: crate::lease::pause
    fn keep(
        &self,
        lease: i64,
        mailbox: Vec<u8>,
        time_to_live: Option<Duration>,
        wanted: Arc<Notify>,
        tell: impl Fn(LeaseEvent) + Send + Sync + 'static,
    ) -> impl Future<Output = ()> + Send;

    /// Watches what it is ordered to watch, as long as somebody can send orders, and tells the number of the watch
    /// with each report. A watch whose next events the store does not have any more begins anew with
    /// [`Watched::Up`], and so do all watches if the store has lost its data.
    fn watch(
        &self,
        orders: mpsc::UnboundedReceiver<Order>,
        tell: impl Fn(u64, Watched) + Send + Sync + 'static,
    ) -> impl Future<Output = ()> + Send;
}

/// What callers see of the connection to a store.
pub trait Link: fmt::Debug + Send + Sync {
    /// For how long, at least, the store has not answered, if this is more than a moment.
    fn silent(&self) -> Option<Duration>;

    /// The error which says that the store does not answer.
    fn unreachable(&self) -> Error;
}

/// How often a name is taken before it is owned, by default. A program that takes a name this often in
/// a row will most likely go on taking it.
const TAKEN: u32 = 8;

/// How a store of keys is used, whichever it is.
#[derive(Clone, Debug)]
pub struct KeeperOptions {
    /// The times.
    pub times: Times,
    /// The first part of all keys, before a `/`.
    pub namespace: String,
    /// How often a name is taken before it is owned; 0 for never.
    pub taken: u32,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self {
            times: Times {
                time_to_live: Duration::from_secs(10),
                timeout: Duration::from_secs(5),
                margin: None,
            },
            namespace: "navlock".to_owned(),
            taken: TAKEN,
        }
    }
}

/// An event of the keep-alive of a lease.
#[derive(Clone, Debug)]
pub enum LeaseEvent {
    /// The store keeps the lease for the time of this renewal. What was found in the connection's mailbox
    /// with it: the owner keys of the names that others want.
    Renewed(Renewal, Vec<Vec<u8>>),
    /// The store does not know the lease any more.
    Gone,
}

/// The keys of a lease, and the store that it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseKeys {
    /// The number of the store that was asked.
    pub cluster: u64,
    /// The keys. Empty if there is no such lease.
    pub keys: Vec<Vec<u8>>,
}

/// How long a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLeft {
    /// For how long the store keeps it each time that it is renewed.
    pub granted: Duration,
    /// How long it lasts at most from now on, if it is not renewed: less than a second too much.
    pub left: Duration,
}
