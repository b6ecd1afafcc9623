//! The thread that speaks to etcd, for all that was made with one connection.
//!
//! Callers leave it [messages](Message) and are woken through their wakers; nobody waits for it. It
//! is one task on a runtime of its own, with a task beside it for each watch and for each lease.

mod agents;
mod queries;
mod watching;

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError, mpsc as blocking},
    task::Waker,
    time::Duration,
};

use etcd_client::{Client, GetResponse, KvClient, TxnResponse};
use foldhash::fast::RandomState;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use navlock_core::{AgentInfo, ClientId, Error, Inspection, Lost, RequestKind, ResourceName};
use navlock_engine::{AgentId, RequestId};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use self::{agents::Agent, queries::Query};
use crate::{
    bucket::{Bucket, Todo},
    calls::{self, Failure},
    keys::{BucketKeys, NameKey, RequestKey},
    lease::{Term, Word},
    options::EtcdOptions,
    query::token,
    table::{Finished, State, Table},
    transactions::{Operation, Outcome},
    watch::Watched,
};

/// An agent's number, never used twice.
pub(crate) type AgentSerial = u64;

/// How often it is looked whether a lease is over or anything was forgotten.
const TICK: Duration = Duration::from_millis(200);

/// How often a bucket in use is listed, in case that a watch has missed something.
const LOOK: Duration = Duration::from_secs(15);

/// For how long what was ended is told to etcd once there are no owners any more.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the callers and the thread share.
///
/// # Invariant
///
/// No waker is called, and none is dropped, under its lock.
#[derive(Default)]
pub(crate) struct Shared(Mutex<Table>);

impl Shared {
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        // Whole between any two statements: what could panic in there is a waker's `clone`, which
        // comes before anything is changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread is told.
pub(crate) enum Message {
    OpenBucket {
        bucket: u64,
        name: String,
    },
    CloseBucket {
        bucket: u64,
    },
    OpenAgent {
        bucket: u64,
        serial: AgentSerial,
        agent: AgentId,
        client_id: ClientId,
    },
    Describe {
        serial: AgentSerial,
        info: AgentInfo,
    },
    EndAgent {
        serial: AgentSerial,
    },
    Request {
        bucket: u64,
        serial: AgentSerial,
        id: RequestId,
        name: ResourceName,
    },
    Finish {
        id: RequestId,
        finished: Finished,
    },
    Query {
        bucket: u64,
        answer: oneshot::Sender<Result<Inspection, Error>>,
    },
    /// The owners are gone; the sender is dropped when all is told.
    Quit(blocking::SyncSender<()>),
    /// From the tasks beside it.
    Lease {
        serial: AgentSerial,
        lease: i64,
        word: Word,
    },
    Watched {
        bucket: u64,
        watched: Watched,
    },
}

/// What a call has come to.
pub(crate) enum Done {
    Operation {
        bucket: u64,
        name: NameKey,
        operation: Operation,
        tries: u32,
        result: Result<TxnResponse, Failure>,
    },
    Listed {
        bucket: u64,
        result: Result<GetResponse, Failure>,
    },
    Queried {
        query: u64,
        result: Result<GetResponse, Failure>,
    },
    Leased {
        serial: AgentSerial,
        result: Result<(i64, Term), Failure>,
    },
    Revoked {
        bucket: u64,
        number: u64,
    },
    Nothing,
}

/// The thread's own.
pub(crate) struct Keeper {
    shared: std::sync::Arc<Shared>,
    options: EtcdOptions,
    client: Client,
    kv: KvClient,
    /// What our requests are called by.
    owner: u128,
    tell: mpsc::WeakUnboundedSender<Message>,
    heard: mpsc::UnboundedReceiver<Message>,
    buckets: HashMap<u64, House, RandomState>,
    agents: HashMap<AgentSerial, Agent, RandomState>,
    queries: HashMap<u64, Query>,
    next_query: u64,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
    quitting: Option<(Instant, blocking::SyncSender<()>)>,
    /// There is nobody to tell us anything.
    is_deaf: bool,
}

/// A bucket, and what keeps it up to date.
struct House {
    bucket: Bucket,
    watch: Option<JoinHandle<()>>,
    looked: Instant,
    is_looking: bool,
}

impl Keeper {
    pub(crate) fn new(
        shared: std::sync::Arc<Shared>,
        options: EtcdOptions,
        client: Client,
        tell: mpsc::WeakUnboundedSender<Message>,
        heard: mpsc::UnboundedReceiver<Message>,
    ) -> Self {
        let kv = client.kv_client().max_decoding_message_size(usize::MAX);
        let owner = u128::from_be_bytes(ClientId::random().to_bytes());
        Self {
            shared,
            options,
            client,
            kv,
            owner,
            tell,
            heard,
            buckets: HashMap::default(),
            agents: HashMap::default(),
            queries: HashMap::default(),
            next_query: 0,
            running: FuturesUnordered::new(),
            quitting: None,
            is_deaf: false,
        }
    }

    /// Serves until the owners are gone.
    pub(crate) async fn run(mut self) {
        let mut tick = Instant::now() + TICK;
        loop {
            let is_idle = self.agents.is_empty() && self.queries.is_empty();
            tokio::select! {
                biased;
                message = self.heard.recv(), if !self.is_deaf => match message {
                    Some(message) => self.hear(message),
                    None if self.quitting.is_none() => return,
                    None => self.is_deaf = true,
                },
                Some(done) = self.running.next(), if !self.running.is_empty() => self.done(done),
                () = sleep_until(tick), if !is_idle || self.quitting.is_some() => {
                    self.tick();
                    tick = Instant::now() + TICK;
                }
            }
            if let Some((until, _)) = &self.quitting {
                let is_late = *until <= Instant::now();
                if is_late || self.running.is_empty() && self.heard.is_empty() {
                    return;
                }
            }
        }
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::OpenBucket { bucket, name } => {
                let keys = BucketKeys::new(&self.options.namespace, &name);
                let bucket_of = Bucket::new(keys);
                let looked = Instant::now();
                let house = House { bucket: bucket_of, watch: None, looked, is_looking: false };
                self.buckets.insert(bucket, house);
            }
            Message::CloseBucket { bucket } => {
                if let Some(house) = self.buckets.get_mut(&bucket) {
                    house.bucket.closed = true;
                }
                self.forget(bucket);
            }
            Message::OpenAgent { bucket, serial, agent, client_id } => {
                self.agents.insert(serial, Agent::new(bucket, agent, client_id));
            }
            Message::Describe { serial, info } => self.describe(serial, info),
            Message::EndAgent { serial } => self.end_agent(serial),
            Message::Request { bucket, serial, id, name } => {
                self.watch(bucket);
                let key = NameKey::new(&name);
                let todo = Todo::Request(RequestKey::new(self.owner, id), serial);
                self.push(bucket, &key, todo);
            }
            Message::Finish { id, finished } => {
                let Finished { bucket, name, kind, was_held } = finished;
                let (key, mode) = (NameKey::new(&name), kind.mode());
                let request = RequestKey::new(self.owner, id);
                self.push(bucket, &key, Todo::Remove { request, mode, was_held });
            }
            Message::Query { bucket, answer } => self.query(bucket, answer),
            Message::Quit(told) => self.quitting = Some((Instant::now() + FAREWELL, told)),
            Message::Lease { serial, lease, word } => self.leased_word(serial, lease, word),
            Message::Watched { bucket, watched } => self.watched(bucket, watched),
        }
    }

    fn push(&mut self, bucket: u64, key: &NameKey, todo: Todo) {
        if let Some(house) = self.buckets.get_mut(&bucket) {
            house.bucket.push(key.clone(), todo);
            self.step(bucket, key);
        }
    }

    /// Does what is next for a name.
    fn step(&mut self, bucket: u64, key: &NameKey) {
        let operation = self.next_operation(bucket, key);
        if let Some(operation) = operation {
            self.start(bucket, key.clone(), operation, 0);
        }
    }

    fn start(&mut self, bucket: u64, name: NameKey, operation: Operation, tries: u32) {
        let Some(house) = self.buckets.get(&bucket) else { return };
        let keys = house.bucket.keys.name(&name);
        let transaction = operation.transaction(&keys, tries > 0);
        let delay = pause(tries);
        let call = calls::transaction(self.kv.clone(), transaction, delay, self.options.call());
        let done =
            call.map(move |result| Done::Operation { bucket, name, operation, tries, result });
        self.running.push(done.boxed());
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Operation { bucket, name, operation, tries, result } => {
                self.operated(bucket, name, operation, tries, result);
            }
            Done::Listed { bucket, result } => self.listed(bucket, result),
            Done::Queried { query, result } => self.queried(query, result),
            Done::Leased { serial, result } => self.leased(serial, result),
            Done::Revoked { bucket, number } => {
                if let Some(house) = self.buckets.get_mut(&bucket) {
                    house.bucket.end_beside(number);
                }
                self.advance_queries();
                self.forget(bucket);
            }
            Done::Nothing => {}
        }
    }

    fn operated(
        &mut self,
        bucket: u64,
        name: NameKey,
        operation: Operation,
        tries: u32,
        result: Result<TxnResponse, Failure>,
    ) {
        match result {
            Ok(response) => self.succeeded(bucket, &operation, tries, &response),
            Err(Failure::Unknown(_)) => {
                // A lock that may have been handed over must not be handed over again by a mirror
                // that is older.
                let operation = match operation {
                    Operation::HandOver(from, mode, _) => Operation::Remove(vec![(from, mode)]),
                    other => other,
                };
                return self.start(bucket, name, operation, tries + 1);
            }
            Err(failure) => {
                let instead = self.failed(bucket, &name, operation, tries, failure);
                if let Some(instead) = instead {
                    return self.start(bucket, name, instead, 0);
                }
            }
        }
        if let Some(house) = self.buckets.get_mut(&bucket) {
            house.bucket.ended(&name);
        }
        self.step(bucket, &name);
        self.advance_queries();
        self.forget(bucket);
    }

    fn succeeded(&mut self, bucket: u64, operation: &Operation, tries: u32, answer: &TxnResponse) {
        let Some(house) = self.buckets.get(&bucket) else { return };
        let outcomes = operation.read(tries > 0, answer);
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        // Before the thief is told, so that it finds them robbed.
        for victim in &outcomes.victims {
            let victim = house.bucket.keys.parse(victim).map(|key| key.request);
            if let Some(victim) = victim.filter(|victim| victim.owner == self.owner) {
                wakers.extend(table.lose(victim.id(), Lost::Stolen));
            }
        }
        for (request, outcome) in outcomes.requests {
            let id = request.id();
            let answer = match outcome {
                Outcome::Held(revision) => State::Held(token(revision), Vec::new()),
                Outcome::Queued(revision) => {
                    table.queued(id, revision);
                    continue;
                }
                Outcome::Unavailable => State::Unavailable,
                Outcome::Gone => State::Lost(Lost::Stolen),
            };
            wakers.extend(table.answer(id, answer));
        }
        drop(table);
        wake(wakers);
    }

    /// What is to be done instead, if anything.
    fn failed(
        &mut self,
        bucket: u64,
        name: &NameKey,
        operation: Operation,
        tries: u32,
        failure: Failure,
    ) -> Option<Operation> {
        let no_lease = failure == Failure::NoLease;
        // What never had a place in the queue is asked for under the next lease.
        if no_lease && tries == 0 {
            self.take_back(bucket, name, &operation);
        }
        match operation {
            // Of an heir.
            Operation::HandOver(from, mode, _) => Some(Operation::Remove(vec![(from, mode)])),
            // It ends with its lease.
            Operation::Remove(_) => None,
            Operation::Grant(entries) if entries.len() > 1 && no_lease => {
                if let Some(house) = self.buckets.get_mut(&bucket) {
                    house.bucket.grant_singly(name);
                }
                None
            }
            Operation::Grant(entries) => {
                let leases: Vec<_> =
                    entries.iter().map(|entry| (entry.request, entry.lease)).collect();
                self.refused(bucket, &leases, failure);
                None
            }
            Operation::Request(asks) => {
                let leases: Vec<_> = asks.iter().map(|ask| (ask.request, ask.lease)).collect();
                self.refused(bucket, &leases, failure);
                None
            }
            Operation::IfAvailable(ask) | Operation::Steal(ask) => {
                self.refused(bucket, &[(ask.request, ask.lease)], failure);
                None
            }
        }
    }

    fn take_back(&mut self, bucket: u64, name: &NameKey, operation: &Operation) {
        let requests: Vec<RequestKey> = match operation {
            Operation::Request(asks) => asks.iter().map(|ask| ask.request).collect(),
            Operation::IfAvailable(ask) | Operation::Steal(ask) => vec![ask.request],
            _ => return,
        };
        let again = {
            let mut table = self.shared.table();
            let take_back = |request: RequestKey| Some((request, table.take_back(request.id())?));
            requests.into_iter().filter_map(take_back).collect()
        };
        if let Some(house) = self.buckets.get_mut(&bucket) {
            house.bucket.push_again(name, again);
        }
    }

    fn refused(&mut self, bucket: u64, requests: &[(RequestKey, i64)], failure: Failure) {
        if failure == Failure::NoLease {
            for &(_, lease) in requests {
                self.lease_is_gone(bucket, lease);
            }
            return;
        }
        let error = failure.error();
        let wakers: Vec<_> = {
            let mut table = self.shared.table();
            let fail = |&(request, _): &(RequestKey, i64)| {
                table.answer(request.id(), State::Failed(error.clone()))
            };
            requests.iter().filter_map(fail).collect()
        };
        wake(wakers);
    }

    fn tick(&mut self) {
        self.check_leases();
        self.check_queries();
        let buckets: Vec<u64> = self.buckets.keys().copied().collect();
        for bucket in buckets {
            let Some(house) = self.buckets.get_mut(&bucket) else { continue };
            house.bucket.forget_tries();
            let mut names = house.bucket.mirror.waiting(self.owner);
            names.extend(house.bucket.names());
            let is_due = house.watch.is_some() && house.looked.elapsed() > LOOK;
            for name in names {
                self.step(bucket, &name);
            }
            if is_due {
                self.look(bucket, Duration::ZERO);
            }
        }
    }

    /// Forgets a bucket that is closed and of which nothing is on its way.
    fn forget(&mut self, bucket: u64) {
        let is_over = |house: &mut House| house.bucket.closed && house.bucket.is_done(u64::MAX - 1);
        if self.buckets.get_mut(&bucket).is_some_and(is_over) {
            if let Some(watch) = self.buckets.remove(&bucket).and_then(|house| house.watch) {
                watch.abort();
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Also if it panicked: nobody waits for what will never be heard.
        let wakers = self.shared.table().orphan();
        wake(wakers);
    }
}

/// How long to wait before what may have been done is done again.
fn pause(tries: u32) -> Duration {
    match tries {
        0 => Duration::ZERO,
        tries => Duration::from_millis(20 << tries.min(5)),
    }
}

/// Wakes all, whatever comes of it: they are foreign.
pub(crate) fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        let wake = std::panic::AssertUnwindSafe(|| waker.wake());
        let _ = std::panic::catch_unwind(wake);
    }
}

/// What a request asks for, without its mode.
pub(crate) fn kind(kind: RequestKind) -> crate::bucket::Kind {
    match kind {
        RequestKind::Wait(_) => crate::bucket::Kind::Wait,
        RequestKind::IfAvailable(_) => crate::bucket::Kind::IfAvailable,
        RequestKind::Steal => crate::bucket::Kind::Steal,
    }
}
