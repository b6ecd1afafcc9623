//! The state machine of one connection: it knows the agents, names and leases of the connection,
//! and decides which calls to the store are made.
//!
//! Sans-IO: the keeper makes no call itself, and the [driver](crate::driver) drives it. The calling
//! order is at [`Keeper`].

mod agents;
mod asking_owners;
mod being_asked;
mod data_loss;
mod findings;
mod giving_up;
mod gone;
mod history;
mod lease_events;
mod listing;
mod lost_leases;
mod messages;
mod operations;
mod others_leases;
mod owner_part;
mod ownership;
mod owning;
mod pending_query;
mod pending_reclaim;
mod queries;
mod reclaims;
mod removed;
mod watching;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

pub(crate) use crate::{messages::Message, shared::Shared};
pub(crate) use navlock_core::host::wake_all as wake;
use navlock_engine::RequestId;

pub(crate) use self::messages::{Call, Done, Listed, News, Operated, Why};
use self::{
    gone::Gone, history::History, ownership::AskedOwner, pending_query::Query,
    pending_reclaim::Reclaim,
};
pub(crate) use crate::table::AgentSerial;
use crate::{
    bucket::{Bucket, Todo},
    clock::Uptime,
    ended::Ended,
    hash::HashState,
    key_store::KeeperOptions,
    keys::{BucketKeys, NameKey, Phase},
    leases::{Agent, Leases},
    mirror::Entry,
    slots::{Owner, Slots},
    table::Finished,
    view::View,
};

/// How often the keys under the connection's lease are compared with the keys that should be there.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// How often the keeper looks for names that nobody here uses any more.
const CLEANUP: Duration = Duration::from_secs(1);

/// The state of one connection.
///
/// # Calling order
///
/// The [driver](crate::driver) tells the keeper
///
/// - what callers want: [`handle_message`](Self::handle_message);
/// - what a watch or a lease brings: [`handle_news`](Self::handle_news);
/// - the outcome of each call: [`handle_done`](Self::handle_done);
/// - that time has passed, a few times a second while the keeper is not [idle](Self::is_idle):
///   [`handle_tick`](Self::handle_tick);
/// - that the connection ends: [`quit`](Self::quit).
///
/// After each of these, the thread takes calls with [`poll_call`](Self::poll_call) until there is none,
/// and makes them.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    options: KeeperOptions,
    /// What the store is called in messages to people.
    store: &'static str,
    slots: Slots,
    buckets: HashMap<u64, OpenedBucket, HashState>,
    /// The bucket and name of each watch.
    watches: HashMap<u64, (u64, NameKey), HashState>,
    next_watch: u64,
    /// When the keeper last looked for names that nobody uses.
    cleaned: Uptime,
    queries: BTreeMap<u64, Query>,
    next_query: u64,
    reclaims: Vec<Reclaim>,
    /// The reclaims for which locks are being written.
    adoptions: BTreeMap<u64, Reclaim>,
    next_adoption: u64,
    /// The prefixes of owner keys that must stay until the end of their lease, because a client has
    /// lost a lock of the name that it tried to reclaim.
    spared: HashSet<Vec<u8>>,
    /// The agents, and their leases.
    leases: Leases<UnderLease>,
    /// The locks under leases that are lost for this connection. They are removed when these leases are over for
    /// others as well, if this connection may not end a lease itself.
    held_under_lost: HashMap<i64, Vec<(u64, NameKey, Ended)>, HashState>,
    /// Keys that have gone. Nobody is told of them before it is known whether their lease has gone
    /// as well.
    gone: Vec<Gone>,
    /// The owners that are known to have been asked for their names, by owner key.
    asked: HashMap<Vec<u8>, AskedOwner, HashState>,
    history: History,
    /// Whether the connection is ending. If so, it begins to own no further names.
    is_quitting: bool,
    calls: VecDeque<Call>,
}

/// What is noted of the keys under a lease.
#[derive(Debug)]
struct UnderLease {
    /// When this connection last looked for keys that belong to nobody.
    swept: Uptime,
    /// The buckets whose agents go on with their locks under the lease, if the lease was another
    /// connection's.
    buckets: Vec<u64>,
}

impl UnderLease {
    /// For a lease that is kept from now on.
    fn new() -> Self {
        Self { swept: Uptime::now(), buckets: Vec::new() }
    }
}

/// A bucket that is open, with its name.
struct OpenedBucket {
    name: String,
    bucket: Bucket,
}

impl Keeper {
    /// The keeper of a connection to the store that is called so. No other connection has the number `owner`.
    pub(crate) fn new(
        store: &'static str,
        shared: Arc<Shared>,
        options: KeeperOptions,
        owner: u128,
    ) -> Self {
        Self {
            leases: Leases::new(Arc::clone(&shared), options.times.clone()),
            shared,
            store,
            options,
            slots: Slots::new(owner),
            buckets: HashMap::default(),
            watches: HashMap::default(),
            // The number 0 means "none" for etcd.
            next_watch: 1,
            cleaned: Uptime::now(),
            queries: BTreeMap::new(),
            next_query: 0,
            reclaims: Vec::new(),
            adoptions: BTreeMap::new(),
            next_adoption: 0,
            spared: HashSet::new(),
            held_under_lost: HashMap::default(),
            gone: Vec::new(),
            asked: HashMap::default(),
            history: History::default(),
            is_quitting: false,
            calls: VecDeque::new(),
        }
    }

    /// The next call to make, if there is one. All that are polled are made at once, so only calls for one thing need
    /// an order, and those for leases have it.
    pub(crate) fn poll_call(&mut self) -> Option<Call> {
        self.leases.poll_call().map(Call::Lease).or_else(|| self.calls.pop_front())
    }

    /// Whether nothing happens by itself when time passes.
    pub(crate) fn is_idle(&self) -> bool {
        let is_waiting = !self.watches.is_empty() || !self.queries.is_empty();
        self.leases.is_idle() && !is_waiting && !self.is_quitting && !self.slots.has_spent()
    }

    /// Does what a caller wants.
    pub(crate) fn handle_message(&mut self, message: Message) {
        match message {
            Message::OpenBucket { bucket, name } => {
                let namespace = &self.options.namespace;
                self.buckets.entry(bucket).or_insert_with(|| {
                    let bucket = Bucket::new(BucketKeys::new(namespace, &name));
                    OpenedBucket { name, bucket }
                });
            }
            Message::CloseBucket { bucket } => {
                if let Some(opened) = self.buckets.get(&bucket) {
                    self.shared.table().close_bucket(&opened.name);
                }
                self.forget(bucket);
            }
            Message::OpenAgent { bucket, serial, agent, client_id } => {
                self.leases.agents.insert(serial, Agent::new(bucket, agent, client_id));
            }
            Message::Describe { serial, info } => self.describe(serial, &info),
            Message::Nested { serial } => {
                if let Some(agent) = self.leases.agents.get_mut(&serial) {
                    agent.say_anew();
                }
            }
            Message::Leave { bucket, name } => self.give_up(bucket, &name),
            Message::EndAgent { serial, ended } => self.end_agent(serial, ended),
            Message::Request { bucket, serial, id, name } => {
                if self.leases.agents.get(&serial).is_some_and(Agent::has_no_lease) {
                    self.leases.attach(serial);
                }
                if !self.take_here(bucket, &name, serial, id) {
                    self.push(bucket, &name, Todo::Request(id, serial));
                }
                self.need_lease_to_wait(serial);
            }
            Message::Finish { id, finished } => {
                if let Some((bucket, name)) = self.note_finished(id, finished) {
                    self.step(bucket, &name);
                }
            }
            Message::Query { bucket, name, most, asks, answer } => {
                self.query(bucket, name, most, asks, answer);
            }
            Message::Reclaim { serial, claims, answer } => self.reclaim(serial, claims, answer),
            // The thread does these, because they concern others.
            Message::Revoke { .. } | Message::Evict { .. } | Message::Silences { .. } => {}
        }
    }

    /// Takes in what a watch or a lease brings.
    pub(crate) fn handle_news(&mut self, news: News) {
        match news {
            News::Lease { lease, word } => self.lease_event(lease, word),
            News::Watched { watch, watched } => self.watched(watch, watched),
        }
    }

    fn view(&self, bucket: u64, name: &NameKey) -> Option<&View> {
        self.buckets.get(&bucket)?.bucket.views.get(name)
    }

    fn view_mut(&mut self, bucket: u64, name: &NameKey) -> Option<&mut View> {
        self.buckets.get_mut(&bucket)?.bucket.views.get_mut(name)
    }

    fn push(&mut self, bucket: u64, key: &NameKey, todo: Todo) {
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            opened.bucket.push(key.clone(), todo);
            self.step(bucket, key);
        }
    }

    /// Notes that a request or lock has to end. Returns the name for which there is now something
    /// to do.
    fn note_finished(&mut self, id: RequestId, finished: Finished) -> Option<(u64, NameKey)> {
        let Finished { of: (bucket, name), key: request, mode, was_held, agent, was_over } =
            finished;
        if was_over {
            self.slots.retire(request, id);
            return None;
        }
        // A late try may have put the request into the queue again.
        let only = (was_held && self.slots.is_certain(request)).then_some(Phase::Held);
        let todo = Todo::Remove(Ended { id: Some(id), request, mode, only }, agent);
        self.buckets.get_mut(&bucket)?.bucket.push(name.clone(), todo);
        Some((bucket, name))
    }

    /// Does what is next for a name.
    fn step(&mut self, bucket: u64, key: &NameKey) {
        if let Some(operation) = self.next_operation(bucket, key) {
            self.start(bucket, key.clone(), operation, 0);
        }
    }

    /// Takes in the outcome of a call.
    pub(crate) fn handle_done(&mut self, done: Done) {
        match done {
            Done::Operated(of, result) => self.operated(of, result),
            Done::Paused(of) => self.try_again(of),
            Done::Listed(of, known, result) => {
                if self.takes(known, &result) {
                    match of {
                        Listed::Name(watch, begun) => self.listed(watch, begun, result),
                        Listed::Query(query) => self.queried(query, result),
                        Listed::Lease(lease) => self.settle_doubt(lease),
                    }
                }
            }
            Done::Leased(result) => self.leased(result),
            Done::Adopted(of, result) => self.adopted(of, result),
            Done::Described(serial) => self.described(serial),
            // The lease is looked at again later.
            Done::Under(_, Why::Sweep, Err(_)) => {}
            Done::Under(lease, Why::Left(bucket), Err(_)) => self.has_not_looked(lease, bucket),
            Done::Under(lease, Why::Sweep, Ok(keys)) => self.sweep(lease, &keys),
            Done::Under(_, Why::Left(bucket), Ok(keys)) => self.view_left(bucket, &keys),
        }
    }

    /// Checks whether a lease is over, and tries again what has failed. To be called a few times a
    /// second.
    pub(crate) fn handle_tick(&mut self) {
        self.check_leases();
        self.check_expiring();
        self.check_deadlines();
        self.check_descriptions();
        self.check_queries();
        self.forget_asked();
        self.check_reclaims();
        let buckets: Vec<u64> = self.buckets.keys().copied().collect();
        for bucket in buckets {
            let Some(opened) = self.buckets.get_mut(&bucket) else { continue };
            opened.bucket.forget_tries();
            self.look_where_ours_wait(bucket);
            self.ask_deaf_owners(bucket);
            self.step_waiting(bucket);
        }
        if self.cleaned.elapsed() >= CLEANUP {
            self.cleaned = Uptime::now();
            self.check_owned();
            self.close_unused();
        }
    }

    /// Now and then lists the names for which requests of ours wait.
    fn look_where_ours_wait(&mut self, bucket: u64) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let patience = self.options.times.time_to_live / 3;
        let due = opened.bucket.views.iter().filter(|(_, view)| view.is_due(patience));
        // The mirrors are not asked, because they may have missed something.
        let table = self.shared.table();
        let due = due.filter(|(name, _)| table.waits_for(bucket, name));
        let due: Vec<_> = due.map(|(name, _)| name.clone()).collect();
        drop(table);
        for name in due {
            self.look(bucket, &name, Duration::ZERO);
        }
    }

    /// Does what is next for all names that have something to do.
    fn step_all(&mut self, bucket: u64) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        for name in opened.bucket.names() {
            self.step(bucket, &name);
        }
        self.advance_queries();
    }

    /// Does what [`step_all`](Self::step_all) does, and also steps the names for which requests of ours
    /// wait.
    fn step_waiting(&mut self, bucket: u64) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        for name in self.waiting(&opened.bucket) {
            self.step(bucket, &name);
        }
        self.step_all(bucket);
    }

    /// The names for which requests of ours wait.
    fn waiting(&self, bucket: &Bucket) -> Vec<NameKey> {
        let is_ours = |entry: &Entry| {
            !matches!(self.slots.owner(entry.request, entry.made), Owner::Others | Owner::Past)
        };
        let views = bucket.views.iter().filter(|(_, view)| view.mirror.queue().any(is_ours));
        views.map(|(name, _)| name.clone()).collect()
    }

    /// Forgets a bucket that nobody uses, when none of its operations is on its way and none of its
    /// names is watched. Until then, a caller that opens the bucket again finds it as it is, and new
    /// operations come after those that are on their way.
    fn forget(&mut self, bucket: u64) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let is_over = opened.bucket.views.is_empty() && opened.bucket.is_done(u64::MAX - 1);
        if is_over && self.shared.table().forget_bucket(&opened.name) {
            self.buckets.remove(&bucket);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // This is done after a panic as well, so that nobody waits for an answer that never comes.
        let wakers = self.shared.table().orphan();
        wake(wakers);
    }
}
